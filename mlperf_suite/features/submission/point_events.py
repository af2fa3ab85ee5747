"""What events.jsonl adds to a point of a package: its steady state and its warm-up, computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mlperf_suite.errors import RefusedError, UsageError
from mlperf_suite.features.endpoints.client_results.answer_texts import TokenCounts
from mlperf_suite.features.endpoints.client_results.package_files import SteadyState
from mlperf_suite.features.endpoints.client_results.series import min_duration_s
from mlperf_suite.features.endpoints.client_results.steady_state import steady_state
from mlperf_suite.features.endpoints.client_results.super_passes import (
    WarmupEvents,
    read_super_passes,
    super_pass_size,
)
from mlperf_suite.features.servers.exchanges import TextCodec
from mlperf_suite.features.submission.client_points import ClientPoint

WARMUP_COUNTS = ("duration_s", "requests_issued", "requests_completed", "concurrency")
NO_WARMUP = {**dict.fromkeys(WARMUP_COUNTS, 0), "data_source": "none, there was no warm-up"}


@dataclass(frozen=True, slots=True)
class PointEvents:
    """`warmup`: members of point.yaml's block. `steady_state`: its block; None without a tokenizer,
    which TPOT needs, and for a dedicated Offline run, to which it does not apply (§4.4)."""

    warmup: Mapping[str, Any] = field(default_factory=dict)
    steady_state: SteadyState | None = None

    @property
    def block(self) -> dict[str, Any]:
        """The members that the steady state adds to point.yaml."""
        if self.steady_state is None:
            return {}
        content = msgspec.to_builtins(self.steady_state)
        window = {n: v for n, v in content.pop("window").items() if v is not None}
        return {"steady_state": {**content, **({"window": window} if window else {})}}


def token_counts(folder: Path) -> TokenCounts:
    """How many tokens the tokenizer.json in a folder makes of texts. Raises UsageError."""
    try:
        return TextCodec(str(folder)).counts
    # The library raises Exception itself for a file that it cannot read.
    except Exception as error:
        raise UsageError(f"tokenizer {folder}: no tokenizer.json that can be read") from error


def read_point_events(
    point: ClientPoint, samples: int, number: int, count_tokens: TokenCounts | None
) -> PointEvents:
    """What a point's events.jsonl says; nothing if there is none. Raises RefusedError.

    `samples`: of the data set; `number`: the point's concurrency.
    """
    if point.events_file is None:
        return PointEvents()
    fixed = point.concurrency is not None
    size = super_pass_size(samples, number)
    try:
        passes, warmup = read_super_passes(point.events_file, size, count_tokens if fixed else None)
    except (OSError, ValueError) as error:
        raise RefusedError([f"{point}: {error}"]) from error
    if not fixed or count_tokens is None:
        return PointEvents(_warmup_block(point, warmup))
    state = steady_state(passes, samples, size, min_duration_s(number))
    return PointEvents(_warmup_block(point, warmup), state)


def known_of_warmup(point: ClientPoint) -> list[str]:
    """The members of a warm-up's block that follow from the client's files.

    Its end is not in the events; if the client waited for it (drain), all but the errors ended.
    """
    run = point.summary.run_config
    if run is not None and run.warmup.get("enabled") is False:
        return list(NO_WARMUP)
    if point.events_file is None:
        return []
    drained = run is not None and run.warmup.get("drain") is True
    return [name for name in WARMUP_COUNTS if drained or name != "requests_completed"]


def _warmup_block(point: ClientPoint, warmup: WarmupEvents) -> dict[str, Any]:
    if not warmup.issued:
        return NO_WARMUP
    counts = {
        "duration_s": round(warmup.duration_s, 3),
        "requests_issued": warmup.issued,
        "requests_completed": warmup.issued - warmup.failed,
        # It has the load of the measurement.
        "concurrency": min(warmup.issued, point.concurrency or warmup.issued),
    }
    known = known_of_warmup(point)
    return {name: count for name, count in counts.items() if name in known}
