"""What CI is told: JUnit properties, Allure labels and attachments, pytest-benchmark's records."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.benchmarks.definition import RUNNABLE
from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.hardware import describe_system
from mlperf_suite.plugin.options import SETTINGS
from mlperf_suite.plugin.runs import SUITE, made_run
from mlperf_suite.reports.ci_properties import metrics, suite_properties
from mlperf_suite.results.record import RunKey
from mlperf_suite.session.executor import Session

_VERDICT_FIXTURES = (
    "verdict",
    "regression_verdict",
    "log_verdict",
    "mmlu_verdict",
    "mmlu_regression_verdict",
)
_BENCHMARK_FIXTURE = "benchmarked_run"
_BENCHMARK_COLUMNS = ("mean", "stddev", "ops", "rounds")
"""Of pytest-benchmark's table: all of its columns are wider than a terminal of 80."""
_ATTACHED = pytest.StashKey[set[str]]()
_LAST = pytest.StashKey[dict[tuple[str, str], str]]()


# Of every test


def _run_key(item: pytest.Item) -> RunKey | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("run_key") if callspec else None


def _verdict(item: pytest.Item) -> Verdict | None:
    arguments = getattr(item, "funcargs", {})
    return next((arguments[name] for name in _VERDICT_FIXTURES if name in arguments), None)


def _summary(suite: Session, key: RunKey) -> tuple[dict[str, Any], Path] | None:
    result = suite.results.get((key.category, key.scenario))
    return (suite.summary(result), result.folder.path) if result else None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    last: dict[tuple[str, str], str] = {}
    for item in session.items:
        key = _run_key(item)
        if key is not None:
            last[key.category, key.scenario] = item.nodeid
    session.config.stash[_LAST] = last
    session.config.stash[_ATTACHED] = set()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """By now the test's fixtures have made its run; what is said of it here is in every report."""
    suite, key, verdict = item.config.stash.get(SUITE, None), _run_key(item), _verdict(item)
    if verdict is not None:
        for name in ("found", "required", "why"):
            item.user_properties.append((name, getattr(verdict, name)))
    made = _summary(suite, key) if suite and key else None
    if key is not None and made is not None:
        item.user_properties.extend(metrics(made[0], key.mode).items())
    if item.config.getoption("allure_report_dir", None):
        _tell_allure(item, key, verdict, made)


# JUnit


@pytest.fixture(scope="session", autouse=True)
def _suite_properties(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> None:
    suite = pytestconfig.stash.get(SUITE, None)
    report_dir = pytestconfig.getoption("allure_report_dir", None)
    if suite is None or not (pytestconfig.getoption("xmlpath") or report_dir):
        return
    settings = suite.settings
    meta = {
        "model": settings.model,
        "dataset": settings.dataset,
        "round": settings.round.name,
        "profile": settings.profile,
    }
    properties = suite_properties(meta, describe_system())
    record = request.getfixturevalue("record_testsuite_property")
    for name, value in properties.items():
        record(name, value)
    if report_dir:
        folder = Path(report_dir)
        folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={value}\n" for name, value in properties.items())
        (folder / "environment.properties").write_text("".join(lines), encoding="utf-8")


# Allure


def _tell_allure(
    item: pytest.Item,
    key: RunKey | None,
    verdict: Verdict | None,
    made: tuple[dict[str, Any], Path] | None,
) -> None:
    import allure

    if verdict is not None:
        allure.dynamic.title(verdict.rule if key is None else f"{key}: {verdict.rule}")
        allure.dynamic.description(verdict.line)
        for name in ("found", "required"):
            # Not part of the test's identity: its history goes on when the figure changes.
            allure.dynamic.parameter(name, getattr(verdict, name), excluded=True)
    if key is None:
        return
    allure.dynamic.label("category", key.category)
    allure.dynamic.label("scenario", key.scenario)
    allure.dynamic.parent_suite(key.category)
    allure.dynamic.suite(key.scenario)
    allure.dynamic.sub_suite(key.mode)
    allure.dynamic.tag(item.config.stash[SETTINGS].profile)
    if made is None:
        return
    summary, folder = made
    part_of = {"performance": "Performance/", "accuracy": "Accuracy/", "test06": "Compliance/"}
    logs = [name for name in summary["logs"] if name.startswith(part_of[key.mode])]
    _attach(item, folder, [name for name in logs if name.endswith(".txt")])
    if item.config.stash[_LAST].get((key.category, key.scenario)) == item.nodeid:
        plots = sorted(f"plots/{path.name}" for path in (folder / "plots").glob("*.png"))
        _attach(item, folder, ["report.html", "report.md", "summary.json", *plots])


def _attach(item: pytest.Item, folder: Path, names: list[str]) -> None:
    """Attach files of a run, each once in the session."""
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
    """Choose the columns of its table where the user does not, before it reads its options."""
    if getattr(config.option, "benchmark_columns", ()) is None:
        config.option.benchmark_columns = list(_BENCHMARK_COLUMNS)


class _Clock:
    """The time that a run took, as pytest-benchmark asks for it: it goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __repr__(self) -> str:
        return "LoadGen's clock"

    def __call__(self) -> float:
        return self.now_s


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Without pytest-benchmark, or where logs are judged, nothing is recorded."""
    if not inspect.isfunction(obj):
        return None
    if _BENCHMARK_FIXTURE not in inspect.signature(obj).parameters:
        return None
    config = collector.config
    there = config.pluginmanager.hasplugin("benchmark") and not config.stash[SETTINGS].logs
    return None if there else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _BENCHMARK_FIXTURE not in metafunc.fixturenames:
        return
    metafunc.parametrize(
        "run_key",
        [
            pytest.param(
                RunKey(category, scenario.name, "performance"),
                marks=[
                    getattr(pytest.mark, category),
                    getattr(pytest.mark, scenario.marker),
                    pytest.mark.benchmark(timer=_Clock(), group=f"{category} {scenario.name}"),
                ],
                id=f"{category}-{scenario.marker}",
            )
            for category, benchmark in RUNNABLE.items()
            for scenario in benchmark.scenarios
        ],
    )


@pytest.fixture
def benchmarked_run(
    request: pytest.FixtureRequest, benchmark: Any, suite: Session, run_key: RunKey
) -> float:
    """Register the performance run: each round is a run, its time that of one sample.

    So pytest-benchmark's OPS is samples/s, and less is better as its users expect. Gives the
    first run's samples/s.
    """
    made_run(request, suite, run_key, "benchmark")
    summary, _ = _summary(suite, run_key) or ({}, None)
    performance = summary["run"]["performance"]
    rates = [one["samples_per_sec"] for one in (performance, *performance["repeats"])]
    clock: _Clock = request.node.get_closest_marker("benchmark").kwargs["timer"]
    seconds = iter([1 / rate for rate in rates if rate])
    if not rates[0]:
        pytest.skip("LoadGen reported no rate")

    def go_on() -> None:
        clock.now_s += next(seconds)

    benchmark.extra_info.update(suite_properties(summary["meta"], summary["system"]))
    benchmark.extra_info.update(metrics(summary, "performance"))
    benchmark.extra_info["valid"] = performance["valid"]
    benchmark.pedantic(go_on, rounds=sum(1 for rate in rates if rate))
    return float(rates[0])
