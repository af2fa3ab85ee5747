"""The trials and the result of a peak search."""

from __future__ import annotations

from dataclasses import dataclass

from mlperf_suite.results.schema import PeakFigures

UNBOUNDED = "no rate above it failed; start higher with --server-target-qps"
"""The note on a peak that is only a lower bound."""
BY_CLIENT = "above it the client was the bottleneck, not the server"
"""The note on a peak above which rates failed only because of the client."""


def at_least(peak: PeakFigures) -> str:
    """Why a peak is only a lower bound; empty if it is not one, or an older file does not say."""
    if peak.bounded is not False:
        return ""
    return BY_CLIENT if peak.client_bound else UNBOUNDED


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One run at one rate. Rates in queries/s, times in ms, None if LoadGen reported none.

    `full_length`: under the profile's own rules rather than the search's shorter ones.
    `client_bound`: the client limited the run, which is then invalid and shows nothing about the
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
    """Every trial in order. `peak_qps`: the highest rate confirmed at full length, or None."""

    trials: tuple[RateTrial, ...]
    peak_qps: float | None

    @property
    def bounded(self) -> bool:
        """Whether a rate above the peak failed for another reason than the client; otherwise the
        peak is only a lower bound."""
        return any(not trial.client_bound for trial in self._failed_above)

    @property
    def _failed_above(self) -> list[RateTrial]:
        peak = self.peak_qps
        if peak is None:
            return []
        return [trial for trial in self.trials if not trial.valid and trial.target_qps > peak]

    @property
    def words(self) -> str:
        """The result, in one line."""
        if self.peak_qps is None:
            return "no rate was VALID: see peak_qps.json"
        rate, why = f"{self.peak_qps:g} queries/s", at_least(self.figures)
        return f"at least {rate}: {why}" if why else f"peak {rate}"

    @property
    def figures(self) -> PeakFigures:
        """The figures for summary.json."""
        by_client = any(trial.client_bound for trial in self._failed_above)
        return PeakFigures(self.peak_qps, self.bounded, len(self.trials), by_client)
