"""What a search found: its trials, how long they are, its figures in summary.json."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.results.schema import GOODPUT, Summary

SHORT: dict[bool, Shortened] = {
    True: Shortened(10_000, 64, latency_percent=90),
    False: Shortened(60_000, 1),
}
"""A trial run of the peak search, by whether the profile is smoke."""
MAX_TRIAL_SAMPLES = 1024
"""Equal issue mode sends whole multiples of the samples, so a trial run needs fewer of them."""


UNBOUNDED = "no rate above it failed; start higher with --server-target-qps"
"""The note on a peak that is only a lower bound."""
BY_CLIENT = "above it the client was the bottleneck, not the server"
"""The note on a peak above which rates failed only because of the client."""
PART = "peak"
"""The name of the figures in summary.json."""


@dataclass(frozen=True, slots=True)
class PeakFigures:
    """A peak search: the highest valid rate in queries/s, None if no rate was valid.

    `bounded`: whether a higher rate failed, None in results of older suites. `runs`: the number of
    runs. `client_bound`: whether a run at a higher rate failed only because of its client.
    `goodput_qps`: the highest rate tried at which 99% of the requests were within the limits.
    """

    peak_qps: float | None = None
    bounded: bool | None = None
    runs: int = 0
    client_bound: bool = False
    goodput_qps: float | None = None

    @property
    def why_at_least(self) -> str:
        """Why the peak is only a lower bound; empty if it is not one, or an older file does not
        say."""
        if self.bounded is not False:
            return ""
        return BY_CLIENT if self.client_bound else UNBOUNDED


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One run at one rate. Rates in queries/s, times in ms, None if LoadGen reported none.

    `full_length`: under the profile's own rules rather than the search's shorter ones.
    `client_bound`: the client limited the run, which is then invalid and shows nothing about the
    server. `goodput`: the share of the requests within the limits; None if unknown, or if the run
    departs from the rules by more than its rate.
    """

    target_qps: float
    full_length: bool
    valid: bool
    completed_qps: float | None
    ttft_p99_ms: float | None
    tpot_p99_ms: float | None
    why: str = ""
    client_bound: bool = False
    goodput: float | None = None
    latency_p99_ms: float | None = None


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
        above = math.inf if self.peak_qps is None else self.peak_qps
        return [trial for trial in self.trials if not trial.valid and trial.target_qps > above]

    @property
    def words(self) -> str:
        """The result, in one line."""
        if self.peak_qps is None:
            return "no rate was VALID: see peak_qps.json"
        rate, why = f"{self.peak_qps:g} queries/s", self.figures.why_at_least
        return f"at least {rate}: {why}" if why else f"peak {rate}"

    @property
    def figures(self) -> PeakFigures:
        """The figures for summary.json."""
        by_client = any(trial.client_bound for trial in self._failed_above)
        good = [t.target_qps for t in self.trials if t.goodput and t.goodput >= GOODPUT]
        return PeakFigures(
            self.peak_qps, self.bounded, len(self.trials), by_client, max(good, default=None)
        )


@dataclass(slots=True)
class SearchPart:
    """A peak search: its outcome, or why it failed; neither while it runs."""

    optional: ClassVar[bool] = True
    outcome: PeakSearch | None = None
    failure: str | None = None

    @property
    def complete(self) -> bool:
        return self.outcome is not None

    @property
    def spoiled(self) -> bool:
        return self.outcome is not None and self.outcome.peak_qps is None

    def summed_up(self, summary: Summary) -> Summary:
        if self.outcome is None:
            reason = summary.meta.reason or (self.failure and f"peak search: {self.failure}")
            return replace(summary, meta=replace(summary.meta, reason=reason))
        return replace(summary, parts={**summary.parts, PART: self.outcome.figures})


def peak_of(summary: Summary) -> PeakFigures | None:
    """The figures of a summary's search; None if there was none."""
    peak: PeakFigures | None = summary.parts.get(PART)
    return peak
