"""What a search for the highest valid rate tried and found."""

from __future__ import annotations

from dataclasses import dataclass

from mlperf_suite.results.schema import PeakFigures

UNBOUNDED = "no rate above it failed; start higher with --server-target-qps"
"""What is said of a rate that is only a lower bound of the highest valid one."""
BY_CLIENT = "above it the client was the bottleneck, not the server"
"""What is said of one where higher rates failed for the client alone."""


def at_least(peak: PeakFigures) -> str:
    """Why a peak is only a lower bound; empty where it is none, or an older file does not say."""
    if peak.bounded is not False:
        return ""
    return BY_CLIENT if peak.client_bound else UNBOUNDED


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One run at one rate. Rates in queries/s, times in ms, None where LoadGen reported none.

    `full_length`: under the profile's own rules rather than the search's short ones.
    `client_bound`: the client limited the run, which is not valid then and says nothing of the
    server.
    """

    target_qps: float
    full_length: bool
    valid: bool
    completed_qps: float | None
    ttft_p99_ms: float | None
    tpot_p99_ms: float | None
    why: str = ""
    client_bound: bool = False


@dataclass(frozen=True, slots=True)
class PeakSearch:
    """Every trial in its order. `peak_qps`: the highest rate confirmed at full length, or None."""

    trials: tuple[RateTrial, ...]
    peak_qps: float | None

    @property
    def bounded(self) -> bool:
        """Whether a rate above the peak failed, and not for the client alone; else the highest
        valid rate may be any above it."""
        return any(not trial.client_bound for trial in self._failed_above)

    @property
    def _failed_above(self) -> list[RateTrial]:
        peak = self.peak_qps
        if peak is None:
            return []
        return [trial for trial in self.trials if not trial.valid and trial.target_qps > peak]

    @property
    def words(self) -> str:
        """What was found, in a line."""
        if self.peak_qps is None:
            return "no rate was VALID: see peak_qps.json"
        rate, why = f"{self.peak_qps:g} queries/s", at_least(self.figures)
        return f"at least {rate}: {why}" if why else f"peak {rate}"

    @property
    def figures(self) -> PeakFigures:
        """What summary.json keeps of it."""
        by_client = any(trial.client_bound for trial in self._failed_above)
        return PeakFigures(self.peak_qps, self.bounded, len(self.trials), by_client)
