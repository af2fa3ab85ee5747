"""The rounds of MLPerf Inference: their seeds, and the LoadGen versions that ship them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Layout = Literal["v5", "v6"]


@dataclass(frozen=True, slots=True)
class Round:
    """One round, with the seeds of its mlperf.conf; `loadgen` names the matching versions.

    `layout`: "v5" keeps measurements/ and compliance/ beside results/, "v6" has all under results/.
    """

    name: str
    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int
    loadgen: str
    layout: Layout

    @property
    def seeds(self) -> dict[str, int]:
        """The seeds by LoadGen's names."""
        return {
            "qsl_rng_seed": self.qsl_rng_seed,
            "sample_index_rng_seed": self.sample_index_rng_seed,
            "schedule_rng_seed": self.schedule_rng_seed,
        }


# Seeds: constants.py of the official submission checker, and mlperf.conf of each LoadGen release.
_V5_1 = (1780908523862526354, 14771362308971278857, 18209322760996052031)
_V6_0 = (2465351861681999779, 14276810075590677512, 3936089224930324775)
_V6_1 = (2085463073848966840, 2747215439041700203, 16159082839903944936)
ROUNDS: dict[str, Round] = {
    "v5.1": Round("v5.1", *_V5_1, "5.1.x", "v5"),
    "v6.0": Round("v6.0", *_V6_0, "6.0.5 to 6.0.15", "v6"),
    "v6.1": Round("v6.1", *_V6_1, "6.0.16 or 6.0.17", "v6"),
}
DEFAULT_ROUND = "v6.1"


def round_of_seeds(seeds: dict[str, int]) -> Round | None:
    """The round that ships exactly these three seeds, or None."""
    return next((r for r in ROUNDS.values() if r.seeds == seeds), None)
