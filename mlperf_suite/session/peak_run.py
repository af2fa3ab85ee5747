"""--find-peak-qps on a session's engine: each rate is a real Server run."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from mlperf_suite.benchmarks.definition import Category
from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.loadgen.load_plan import SEARCH, SEARCH_SAMPLES, SMOKE, Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.reports.peak_plot import plot_peak
from mlperf_suite.results.record import Result, Search
from mlperf_suite.results.run_folder import PEAK_FOLDER
from mlperf_suite.session.peak_search import MAX_RUNS, PeakSearch, RateTrial, find_peak
from mlperf_suite.session.rates import server_rate

if TYPE_CHECKING:
    from mlperf_suite.session.executor import Session

PEAK_JSON = "peak_qps.json"


def search_peak(session: Session, category: Category, scenario: str) -> PeakSearch:
    """Search for the highest valid rate; leaves peak_qps.json, a plot and each run's logs.

    Every rate is held to the scenario's own limits, in smoke too. What was tried is kept when a
    run dies, and the summary says why. Raises SuiteError.
    """
    result = session.result(category, scenario)
    limits = result.scenario.limits
    if limits is None:
        raise UsageError(f"--find-peak-qps: {scenario} has no latency limits to search under")
    made: list[RateTrial] = []
    state = result.search = Search()

    def attempt(rate: float, full_length: bool) -> RateTrial:
        folder = result.folder.path / PEAK_FOLDER / f"{len(made) + 1:02}"
        made.append(_try_rate(session, result, rate, full_length, folder))
        _write(session, result, PeakSearch(tuple(made), None))
        session.watch.say(_told(made[-1], len(made)))
        return made[-1]

    try:
        session.prepare(result)
        start = session.settings.server_target_qps or server_rate(session, category)
        search = state.found = find_peak(attempt, start)
        _write(session, result, search)
        title = f"{result.benchmark.id} {scenario}: {session.label}"
        plot = result.folder.path / "plots" / "peak_qps.png"
        plot_peak(search, limits, title, plot)
    except BaseException as error:
        told = isinstance(error, SuiteError | OSError)
        state.failure = str(error) if told else f"interrupted ({type(error).__name__})"
        with contextlib.suppress(OSError):
            session.write(result)
        raise
    finally:
        session.watch.idle()
    session.write(result)
    return search


def _write(session: Session, result: Result, search: PeakSearch) -> None:
    limits = result.scenario.limits
    content = {
        "scenario": result.scenario.name,
        "label": session.label,
        "peak_qps": search.peak_qps,
        "bounded": search.bounded,
        "limits_ms": dataclasses.asdict(limits) if limits else None,
        "max_runs": MAX_RUNS,
        "trials": [dataclasses.asdict(trial) for trial in search.trials],
    }
    result.folder.write(PEAK_JSON, content)


def _try_rate(
    session: Session, result: Result, rate: float, full_length: bool, folder: Path
) -> RateTrial:
    smoke, prompts = session.settings.smoke, session.prompts(result.benchmark.category)
    shortened: Shortened | None = SEARCH[smoke]
    if full_length:
        own = dataclasses.replace(SMOKE[result.scenario.loadgen_scenario], latency_factor=1)
        shortened = own if smoke else None
    else:
        prompts = prompts[:SEARCH_SAMPLES]
    plan = plan_run(
        result.benchmark,
        result.scenario,
        "performance",
        session.settings.round,
        len(prompts),
        target_qps=rate,
        shortened=shortened,
    )
    session.watch.stage(f"{result.scenario.name} at {rate:g} queries/s")
    progress = session.watch.progress
    run = run_loadgen(plan, session.engine, prompts, session.generation, folder, progress)
    detail = run.logs.detail
    return RateTrial(
        rate,
        full_length,
        detail["result_validity"] == "VALID",
        detail.number("result_completed_samples_per_sec"),
        detail.milliseconds("result_first_token_99.00_percentile_latency_ns"),
        detail.milliseconds("result_time_per_output_token_99.00_percentile_ns"),
        str(detail["result_invalid_reason"] or ""),
    )


def _told(trial: RateTrial, number: int) -> str:
    def ms(value: float | None) -> str:
        return "not reported" if value is None else f"{value:,.0f} ms"

    return (
        f"run {number} of at most {MAX_RUNS}: {trial.target_qps:g} queries/s, "
        f"{'full length' if trial.full_length else 'short'}: "
        f"{'VALID' if trial.valid else 'INVALID'}, TTFT p99 {ms(trial.ttft_p99_ms)}, "
        f"TPOT p99 {ms(trial.tpot_p99_ms)}"
    )
