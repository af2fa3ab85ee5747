"""Reports for CI: JUnit properties, Allure labels and attachments, pytest-benchmark's records."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.plugin.cases import LoadGenClock, step_of
from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.outcomes import VERDICT, summary_of
from mlperf_suite.rules.verdict import Verdict, in_words
from mlperf_suite.session.run_kind import kind_of

if TYPE_CHECKING:
    from mlperf_suite.results.schema import Meta, Summary
    from mlperf_suite.session.executor import Session
    from mlperf_suite.session.run_kind import StepKey

_BENCHMARK_COLUMNS = ("mean", "stddev", "ops", "rounds")
"""The columns of pytest-benchmark's table; all of them would need more than 80 columns."""
_META = (
    *("run_name", "benchmark", "category", "scenario", "model", "dataset"),
    *("round", "profile", "label"),
)
_VERSIONS = ("vllm_version", "loadgen_version", "torch_version", "python_version", "cpu", "gpus")
_RATES = ("tokens_per_sec", "samples_per_sec", "qps", "duration_s", "total_new_tokens")
_TIMES = ("latency_ms", "ttft_ms", "tpot_ms")
_ATTACHED = pytest.StashKey[set[str]]()
_LAST = pytest.StashKey[dict[tuple[str, str], str]]()


# A run as flat names and values


def _suite_properties(meta: Meta, system: Mapping[str, object]) -> dict[str, str]:
    """The same for every test of a session: model, round, profile, versions, hardware."""
    facts: dict[str, object] = {name: getattr(meta, name) for name in _META}
    facts |= {name: system.get(name) for name in _VERSIONS}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in facts.items()
        if value not in (None, [])
    }


def metrics(summary: Summary, mode: str) -> dict[str, float]:
    """The figures of one mode's run: rates per second, times in ms, scores in their own unit.

    Percentiles are named like `ttft_ms_p99`; figures that the run does not have are left out.
    `latency_ms_early_stopping` is early stopping's estimate of the percentile that the scenario is
    judged at, `ttft_more_queries` the number of additional queries that a Server run would have
    needed.
    """
    run, figures = summary.run, dict[str, float | None]()
    performance = run.performance if mode == "performance" else None
    if performance is not None:
        figures |= {name: getattr(performance, name) for name in _RATES}
        for times in _TIMES:
            percentiles = getattr(performance, times) or {}
            figures |= {f"{times}_{name}": value for name, value in percentiles.items()}
        if early := performance.early_stopping:
            figures |= {f"{n}_ms_early_stopping": v for n, v in early.estimates_ms.items()}
            figures |= {f"{n}_more_queries": v for n, v in early.more_queries.items()}
    elif mode == "accuracy" and run.accuracy is not None:
        figures |= {score.name: score.value for score in run.accuracy.scores}
    return {name: value for name, value in figures.items() if value is not None}


# Of every test


def _run_key(item: pytest.Item) -> StepKey | None:
    step = step_of(item)
    return step if step is not None and kind_of(step).is_run else None


def _summary(suite: Session, key: StepKey) -> tuple[Summary, Path] | None:
    """The summary and the folder of a run, None before they are made."""
    if not suite.recorder.has_begun(key):
        return None
    result = suite.recorder.result_of(key)
    return suite.recorder.summary(result), result.folder.path


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    keys = ((_run_key(item), item.nodeid) for item in session.items)
    last = {key.benchmark_and_scenario: nodeid for key, nodeid in keys if key is not None}
    session.config.stash[_LAST] = last
    session.config.stash[_ATTACHED] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Add the test's run to every report after the call, when it is made and judged."""
    try:
        return (yield)
    finally:
        _tell(item)


def _tell(item: pytest.Item) -> None:
    suite, key = item.config.stash.get(SUITE, None), _run_key(item)
    verdict = item.stash.get(VERDICT, None)
    if verdict is not None:
        for name in ("found", "required", "why"):
            item.user_properties.append((name, getattr(verdict, name)))
    made_of = _summary(suite, key) if suite and key else None
    if key is not None and made_of is not None:
        item.user_properties.extend(metrics(made_of[0], key.mode).items())
    if item.config.getoption("allure_report_dir", None):
        _tell_allure(item, key, verdict, made_of)


# JUnit


@pytest.fixture(scope="session", autouse=True)
def _record_suite_properties(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> None:
    suite = pytestconfig.stash.get(SUITE, None)
    report_dir = pytestconfig.getoption("allure_report_dir", None)
    if suite is None or not (pytestconfig.getoption("xmlpath") or report_dir):
        return
    from mlperf_suite.hardware import describe_system
    from mlperf_suite.results.schema import Meta

    settings = suite.settings
    meta = Meta(model=settings.model, dataset=settings.dataset)
    meta = replace(meta, round=settings.round.name, profile=settings.profile)
    properties = _suite_properties(meta, describe_system())
    record = request.getfixturevalue("record_testsuite_property")
    for name, value in properties.items():
        record(name, value)
    if report_dir:
        folder = Path(report_dir)
        folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={in_words(value)}\n" for name, value in properties.items())
        (folder / "environment.properties").write_text("".join(lines), encoding="utf-8")


# Allure


def _tell_allure(
    item: pytest.Item,
    key: StepKey | None,
    verdict: Verdict | None,
    made_of: tuple[Summary, Path] | None,
) -> None:
    import allure

    if verdict is not None:
        allure.dynamic.title(verdict.rule if key is None else f"{key}: {verdict.rule}")
        allure.dynamic.description(verdict.line)
        for name in ("found", "required"):
            # Not part of the test's identity: its history continues when the figure changes.
            allure.dynamic.parameter(name, getattr(verdict, name), excluded=True)
    if key is None:
        return
    category = BENCHMARKS[key.benchmark].category
    labels = {"benchmark": key.benchmark, "category": category, "scenario": key.scenario}
    for name, value in labels.items():
        allure.dynamic.label(name, value)
    allure.dynamic.parent_suite(key.benchmark)
    allure.dynamic.suite(key.scenario)
    allure.dynamic.sub_suite(key.mode)
    allure.dynamic.tag(settings_of(item.config).profile)
    if made_of is None:
        return
    summary, folder = made_of
    part = {"performance": "Performance", "accuracy": "Accuracy"}.get(key.mode)
    # A caching audit's logs are not part of summary.logs, so none are attached.
    part = part or f"Compliance/{key.mode.upper()}"
    logs = [name for name in summary.logs if name.startswith(f"{part}/")]
    _attach(item, folder, [name for name in logs if name.endswith(".txt")])
    if item.config.stash[_LAST].get(key.benchmark_and_scenario) == item.nodeid:
        plots = sorted(f"plots/{path.name}" for path in (folder / "plots").glob("*.png"))
        _attach(item, folder, ["report.html", "report.md", "summary.json", *plots])


def _attach(item: pytest.Item, folder: Path, names: list[str]) -> None:
    """Attach files of a run, each once per session."""
    import allure

    kinds = allure.attachment_type
    by_suffix = {".txt": kinds.TEXT, ".md": kinds.TEXT, ".json": kinds.JSON}
    by_suffix |= {".html": kinds.HTML, ".png": kinds.PNG}
    for name in names:
        path = folder / name
        if str(path) in item.config.stash[_ATTACHED] or not path.is_file():
            continue
        item.config.stash[_ATTACHED].add(str(path))
        allure.attach.file(str(path), name, by_suffix[path.suffix])


# pytest-benchmark


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set the columns of pytest-benchmark's table before it reads its options, unless given; show
    no table unless one of them is given: its times are the inverse of a rate, no latencies."""
    if getattr(config.option, "benchmark_columns", ()) is None:
        config.option.benchmark_columns = list(_BENCHMARK_COLUMNS)
        of_environment = shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
        arguments = (*config.invocation_params.args, *config.getini("addopts"), *of_environment)
        if not any(str(argument).startswith("--benchmark-") for argument in arguments):
            config.option.benchmark_quiet = True


@pytest.fixture
def benchmarked_run(request: pytest.FixtureRequest, benchmark: Any, suite: Session) -> float:
    """Register the performance run: each round is a run, its time that of one sample.

    OPS in pytest-benchmark is then samples/s, and lower times are better, as its users expect.
    Returns the first run's samples/s.
    """
    key: StepKey = request.param.key
    summary = summary_of(request.config, key, "benchmark")
    performance = summary.run.performance
    if performance is None or not performance.samples_per_sec:
        pytest.skip("LoadGen reported no rate")
    clock: LoadGenClock = request.node.get_closest_marker("benchmark").kwargs["timer"]
    rates = [run.samples_per_sec for run in (performance, *performance.repeats)]
    seconds = [1 / rate for rate in rates if rate]
    to_come = iter(seconds)

    def go_on() -> None:
        clock.now_s += next(to_come)

    benchmark.extra_info.update(_suite_properties(summary.meta, summary.system))
    benchmark.extra_info.update(metrics(summary, "performance"))
    benchmark.extra_info["valid"] = performance.valid
    benchmark.pedantic(go_on, rounds=len(seconds))
    return float(performance.samples_per_sec)
