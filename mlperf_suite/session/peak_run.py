"""Runs --find-peak-qps on a session's engine: each rate is a real Server run after a warm-up."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.engines.protocol import Engine, RunObserver
from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.load_plan import SEARCH, SEARCH_SAMPLES, SMOKE, Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.results.peak import PeakSearch, RateTrial
from mlperf_suite.results.record import Result, Search
from mlperf_suite.results.run_folder import PEAK_FOLDER
from mlperf_suite.results.schema import WarmUpFigures
from mlperf_suite.rules.client import client_limits
from mlperf_suite.rules.facts import besides_length
from mlperf_suite.session.executor import Executor, Made, cached_tokens_since, remote_run
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.peak_search import MAX_RUNS, find_peak
from mlperf_suite.session.plan import SearchKey
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.timing.pace import Pace
from mlperf_suite.session.watcher import Watcher

PEAK_JSON = "peak_qps.json"


class PeakRun:
    """Searches for the highest valid rate; writes peak_qps.json, a plot and each run's logs.

    Every rate is judged by the scenario's own limits, in smoke runs too. If a run fails, the rates
    tried so far are kept and the summary says why. `found`: by key, what was found.
    """

    def __init__(
        self,
        inputs: Inputs,
        recorder: Recorder,
        executor: Executor,
        pace: Pace,
        watcher: Watcher,
    ) -> None:
        self._inputs = inputs
        self._recorder = recorder
        self._executor = executor
        self._pace = pace
        self._watch = watcher
        self.found: dict[SearchKey, PeakSearch] = {}
        self._warmed: list[WarmUpFigures | None] = []

    def maker(self, key: SearchKey) -> Made:
        """Return what the executor calls to make a search."""
        result = self._recorder.result(BENCHMARKS[key.benchmark], key.scenario)
        state = result.search = Search()

        def keep(failure: str | None) -> None:
            state.failure = failure
            self._recorder.write(result)

        return Made(lambda: self._search(key, result, state), keep, result.folder.path)

    def _search(self, key: SearchKey, result: Result, state: Search) -> None:
        limits = result.scenario.limits
        if limits is None:
            raise UsageError(
                f"--find-peak-qps: {key.scenario} has no latency limits to search under"
            )
        self._recorder.write(result)
        engine = self._executor.engine_for(result)
        self._executor.know_rate(result)
        made: list[RateTrial] = []
        self._warmed = []

        def attempt(rate: float, full_length: bool) -> RateTrial:
            folder = result.folder.path / PEAK_FOLDER / f"{len(made) + 1:02}"
            made.append(self._try_rate(engine, result, rate, full_length, folder))
            self._write(result, PeakSearch(tuple(made), None))
            self._watch.say(_told(made[-1], len(made)))
            return made[-1]

        with self._executor.timed("search", key):
            search = find_peak(attempt, self._pace.server_qps(key.benchmark))
        self.found[key] = search
        state.found = search.figures
        self._write(result, search)
        title = f"{result.benchmark.id} {key.scenario}: {self._recorder.label}"
        from mlperf_suite.reports.plots import plot_peak

        plot_peak(search, limits, title, result.folder.path / "plots" / "peak_qps.png")

    def _write(self, result: Result, search: PeakSearch) -> None:
        limits = result.scenario.limits
        content = {
            "scenario": result.scenario.name,
            "label": self._recorder.label,
            "peak_qps": search.peak_qps,
            "bounded": search.bounded,
            "limits_ms": dataclasses.asdict(limits) if limits else None,
            "max_runs": MAX_RUNS,
            "trials": [dataclasses.asdict(trial) for trial in search.trials],
            "warm_ups": [one and dataclasses.asdict(one) for one in self._warmed],
        }
        result.folder.write(PEAK_JSON, content)

    def _try_rate(
        self, engine: Engine, result: Result, rate: float, full_length: bool, folder: Path
    ) -> RateTrial:
        settings = self._inputs.settings
        prompts = self._inputs.prompts(result.benchmark)
        shortened: Shortened | None = SEARCH[settings.smoke]
        if full_length:
            own = dataclasses.replace(SMOKE[result.scenario.loadgen_scenario], latency_factor=1)
            shortened = own if settings.smoke else None
            prompts = prompts[: self._pace.size(result.benchmark, result.scenario).samples]
        else:
            prompts = prompts[:SEARCH_SAMPLES]
        plan = plan_run(
            result.benchmark,
            result.scenario,
            "performance",
            settings.round,
            len(prompts),
            target_qps=rate,
            shortened=shortened,
        )
        self._warmed.append(self._executor.warm_up(engine, result, rate))
        if isinstance(engine, RunObserver):
            engine.run_begins(f"{result.benchmark.id} {result.scenario.name}", "performance")
        self._watch.begin(f"{result.scenario.name} at {rate:g} queries/s")
        remote_run(engine)
        cached = cached_tokens_since(engine)
        run = run_loadgen(
            plan,
            engine,
            prompts,
            self._inputs.generation(result.benchmark),
            folder,
            self._watch.progress,
            stops=self._inputs.stops(result.benchmark, "performance"),
            dropped=self._inputs.dropped(result.benchmark, "performance"),
            silence_s=settings.engine_silence,
        )
        detail, remote = run.logs.detail, remote_run(engine)
        limits = client_limits(remote.client, result.scenario) if remote else []
        # As in the rules for performance runs: each rate must be one that such a run may have.
        told = engine.description
        wrong: list[str] = list(
            self._inputs.departures(
                result.benchmark,
                result.scenario,
                told.settings,
                max_model_len=told.max_model_len,
            )
        )
        wrong = besides_length(wrong) if settings.smoke else wrong
        wrong += remote.departures if remote else ()
        if tokens := cached(remote):
            wrong.append(f"{tokens:,} prompt tokens from a cache")
        reasons = [*(["client-bound", *limits] if limits else []), *wrong]
        reasons.append(str(detail["result_invalid_reason"] or ""))
        return RateTrial(
            rate,
            full_length,
            detail["result_validity"] == "VALID" and not limits and not wrong,
            detail.number("result_completed_samples_per_sec"),
            detail.milliseconds("result_first_token_99.00_percentile_latency_ns"),
            detail.milliseconds("result_time_per_output_token_99.00_percentile_ns"),
            "; ".join(filter(None, reasons)),
            client_bound=bool(limits) and not wrong,
        )


def _told(trial: RateTrial, number: int) -> str:
    def ms(value: float | None) -> str:
        return "not reported" if value is None else f"{value:,.0f} ms"

    verdict = "client-bound" if trial.client_bound else "VALID" if trial.valid else "INVALID"
    return (
        f"run {number} of at most {MAX_RUNS}: {trial.target_qps:g} queries/s, "
        f"{'full length' if trial.full_length else 'short'}: "
        f"{verdict}, TTFT p99 {ms(trial.ttft_p99_ms)}, "
        f"TPOT p99 {ms(trial.tpot_p99_ms)}"
    )
