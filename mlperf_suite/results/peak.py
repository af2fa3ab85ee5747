"""What a search for the highest valid rate tried and found."""

from __future__ import annotations

from dataclasses import dataclass

from mlperf_suite.results.schema import PeakFigures

UNBOUNDED = "no rate above it failed; start higher with --server-target-qps"
"""What is said of a rate that is only a lower bound of the highest valid one."""


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One run at one rate. Rates in queries/s, times in ms, None where LoadGen reported none.

    `full_length`: under the profile's own rules rather than the search's short ones.
    """

    target_qps: float
    full_length: bool
    valid: bool
    completed_qps: float | None
    ttft_p99_ms: float | None
    tpot_p99_ms: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class PeakSearch:
    """Every trial in its order. `peak_qps`: the highest rate confirmed at full length, or None."""

    trials: tuple[RateTrial, ...]
    peak_qps: float | None

    @property
    def bounded(self) -> bool:
        """Whether a rate above the peak failed; else the highest valid rate may be any above it."""
        peak = self.peak_qps
        return peak is not None and any(t.target_qps > peak for t in self.trials if not t.valid)

    @property
    def words(self) -> str:
        """What was found, in a line."""
        if self.peak_qps is None:
            return "no rate was VALID: see peak_qps.json"
        rate = f"{self.peak_qps:g} queries/s"
        return f"peak {rate}" if self.bounded else f"at least {rate}: {UNBOUNDED}"

    @property
    def figures(self) -> PeakFigures:
        """What summary.json keeps of it."""
        return PeakFigures(self.peak_qps, self.bounded, len(self.trials))
