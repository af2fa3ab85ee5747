"""Finds the highest Server rate whose run is VALID, for --find-peak-qps.

Searches in short runs, then confirms at full length; each rate is a real Server run after a
warm-up. The number of runs is bounded (`MAX_RUNS`).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from mlperf_suite.errors import UsageError
from mlperf_suite.features.peak_search.figures import (
    MAX_TRIAL_SAMPLES,
    SHORT,
    PeakSearch,
    RateTrial,
)
from mlperf_suite.features.peak_search.report import plot_peak
from mlperf_suite.loadgen.load_plan import SMOKE, Shortened, plan_run
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.results.performance_figures import goodput
from mlperf_suite.results.record import Result
from mlperf_suite.results.run_folder import PEAK_FOLDER
from mlperf_suite.results.schema import WarmUpFigures
from mlperf_suite.rules.facts import besides_length
from mlperf_suite.rules.limits import client_limits, held_back
from mlperf_suite.rules.verdict import time_words
from mlperf_suite.session.load_run import Observation, StepMaker
from mlperf_suite.session.preparation import Preparation
from mlperf_suite.session.run_kind import Step

PEAK_JSON = "peak_qps.json"
MAX_SHORT_RUNS = 12
MAX_FULL_RUNS = 4
MAX_RUNS = MAX_SHORT_RUNS + MAX_FULL_RUNS
RESOLUTION = 1.05
"""The search ends when the lowest failed rate is within this factor of the highest that held."""
_MAX_STEPS_DOWN = 5
"""The maximum number of short runs that only step down: far below the rate asked for, a run takes
hours, since each sends all samples."""
_STEP = 1.25
"""The factor of the first step up or down; each further step is wider by it, to get far in few
runs."""


Try = Callable[[float, bool], RateTrial]


def find_peak(attempt: Try, start_qps: float) -> PeakSearch:
    """Search from `start_qps`. `attempt(rate, full_length)` makes one run.

    Short runs step up as long as any are left, or down a few times, until one rate holds and
    another fails. They then halve the gap between the two (as a ratio) down to RESOLUTION. The rate
    that failed is tried once more, since a disturbance of the machine can fail a run as well. The
    highest rate that held is confirmed at full length, stepping down by RESOLUTION each time that
    fails.
    """
    trials: list[RateTrial] = []

    def holds(rate: float, *, full: bool) -> bool:
        trial = attempt(_rounded(rate), full)
        trials.append(trial)
        return trial.valid

    highest, failures = 0.0, Counter[float]()
    rate: float | None = start_qps
    while rate is not None and len(trials) < MAX_SHORT_RUNS:
        if holds(rate, full=False):
            highest = max(highest, rate)
        else:
            failures[rate] += 1
        rate = _next_rate(highest, failures, len(trials))
    rate = highest
    for _ in range(MAX_FULL_RUNS if rate else 0):
        if holds(rate, full=True):
            return PeakSearch(tuple(trials), _rounded(rate))
        rate /= RESOLUTION
    return PeakSearch(tuple(trials), None)


def _next_rate(highest: float, failures: Counter[float], count: int) -> float | None:
    """The rate to try next, None if the search is over, after `count` runs.

    `highest`: the highest rate that held, 0 if none did. `failures`: how often each rate failed.
    """
    if not highest:
        return min(failures) / _STEP**count if count < _MAX_STEPS_DOWN else None
    if not failures:
        return highest * _STEP**count
    above = [rate for rate in failures if rate > highest]
    if not above:
        return highest * _STEP
    lowest = min(above)
    if lowest / highest > RESOLUTION:
        return math.sqrt(highest * lowest)
    tried_once = failures[lowest] == 1
    return lowest if tried_once else None


def _rounded(rate: float) -> float:
    """The rate with four significant digits: LoadGen logs six, and closer rates do not differ
    measurably."""
    return float(f"{rate:.4g}")


@dataclasses.dataclass
class PeakSearches(StepMaker):
    """Searches for the highest valid rate; writes peak_qps.json, a plot and each run's logs.

    Every rate is judged by the scenario's own limits, in smoke runs too. If a run fails, the rates
    tried so far are kept.
    """

    preparation: Preparation

    def make(self, step: Step, result: Result) -> PeakSearch:
        """Search the scenario of a result.

        Raises UsageError for a scenario without limits, and what a run raises.
        """
        limits, scenario = result.scenario.limits, result.scenario
        label = self.engines.label("runs")
        if not limits:
            raise UsageError(
                f"--find-peak-qps: {scenario.name} has no latency limits to search under"
            )
        trials: list[RateTrial] = []
        warm_ups: list[WarmUpFigures | None] = []

        def attempt(rate: float, full_length: bool) -> RateTrial:
            folder = result.folder.path / PEAK_FOLDER / f"{len(trials) + 1:02}"
            warm_ups.append(self.preparation.warm_up(result.benchmark_and_scenario, rate))
            trials.append(self._try_rate(result, rate, full_length, folder))
            _write(result, PeakSearch(tuple(trials), None), warm_ups, label)
            self.display.say(_trial_line(trials[-1], len(trials)))
            return trials[-1]

        search = find_peak(attempt, self.sizing.server_qps(result.benchmark.id))
        _write(result, search, warm_ups, label)
        title = f"{result.benchmark.id} {scenario.name}: {label}"
        plot_peak(search, limits, title, result.folder.path / "plots" / "peak_qps.png")
        return search

    def _try_rate(self, result: Result, rate: float, full_length: bool, folder: Path) -> RateTrial:
        settings, scenario = self.settings, result.scenario
        samples = min(len(self.inputs.prompts(result.benchmark)), MAX_TRIAL_SAMPLES)
        shortened: Shortened | None = SHORT[settings.smoke]
        if full_length:
            own = dataclasses.replace(SMOKE[scenario.loadgen_scenario], latency_factor=1)
            shortened = own if settings.smoke else None
            samples = self.sizing.estimator.size(result.benchmark, scenario).samples
        plan = plan_run(
            result.benchmark,
            scenario,
            "performance",
            settings.round,
            samples,
            target_qps=rate,
            shortened=shortened,
        )
        name = f"{result.benchmark.id} {scenario.name}"
        observation = Observation(self.engine, name, "performance")
        self.display.begin(f"{scenario.name} at {rate:g} queries/s")
        run = self.load_run(result.benchmark, plan, folder)
        remote = observation.remote()
        # A rate must obey the rules of a performance run too.
        deviations = list(self.deviations(result.benchmark, scenario))
        if settings.smoke:
            deviations = besides_length(deviations)
        deviations += remote.departures if remote else ()
        if tokens := observation.cached_tokens(remote):
            deviations.append(f"{tokens:,} prompt tokens from a cache")
        deviations += run.logs.clock_faults
        if held := held_back(remote.stream if remote else None, scenario.limits.get("tpot")):
            deviations.append(held)
        limits = client_limits(remote.client, scenario) if remote else []
        trial = _trial_of(rate, full_length, run.logs.detail, limits, deviations)
        if deviations or limits or not (good := goodput(run.timeline, scenario.limits)):
            return trial
        return dataclasses.replace(trial, goodput=round(good.share, 6))


def _trial_of(
    rate: float, full_length: bool, detail: DetailLog, limits: list[str], deviations: list[str]
) -> RateTrial:
    reasons = [*(["client-bound", *limits] if limits else []), *deviations]
    reasons.append(str(detail["result_invalid_reason"] or ""))
    return RateTrial(
        rate,
        full_length,
        detail["result_validity"] == "VALID" and not limits and not deviations,
        detail.number("result_completed_samples_per_sec"),
        detail.milliseconds("result_first_token_99.00_percentile_latency_ns"),
        detail.milliseconds("result_time_per_output_token_99.00_percentile_ns"),
        "; ".join(filter(None, reasons)),
        client_bound=bool(limits) and not deviations,
        latency_p99_ms=detail.milliseconds("result_99.00_percentile_latency_ns"),
    )


def _write(
    result: Result, search: PeakSearch, warm_ups: list[WarmUpFigures | None], label: str
) -> None:
    content = {
        "scenario": result.scenario.name,
        "label": label,
        "peak_qps": search.peak_qps,
        "bounded": search.bounded,
        "goodput_qps": search.figures.goodput_qps,
        "limits_ms": {f"{name}_ms": ms for name, ms in result.scenario.limits.items()},
        "max_runs": MAX_RUNS,
        "trials": [dataclasses.asdict(trial) for trial in search.trials],
        "warm_ups": [warm_up and dataclasses.asdict(warm_up) for warm_up in warm_ups],
    }
    result.folder.write(PEAK_JSON, content)


def _trial_line(trial: RateTrial, number: int) -> str:
    times = {"TTFT": trial.ttft_p99_ms, "TPOT": trial.tpot_p99_ms}
    if not any(times.values()):
        times = {"latency": trial.latency_p99_ms}
    p99 = (
        f"{name} p99 {'not reported' if ms is None else time_words(ms)}"
        for name, ms in times.items()
    )
    verdict = "client-bound" if trial.client_bound else "VALID" if trial.valid else "INVALID"
    return (
        f"run {number} of at most {MAX_RUNS}: {trial.target_qps:g} queries/s, "
        f"{'full length' if trial.full_length else 'short'}: "
        f"{verdict}, {', '.join(p99)}"
        + (
            ""
            if trial.goodput is None
            else f", {math.floor(trial.goodput * 1000) / 1000:.1%} within the limits"
        )
    )
