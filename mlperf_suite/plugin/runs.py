"""From a selected test to its run and its verdict.

A test that asks for `verdict` is made once for each category, scenario and rule that its module
names with SCENARIOS and MODE.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn, TypeVar

import pytest

from mlperf_suite.benchmarks.definition import RUNNABLE, Category
from mlperf_suite.compliance.rules import rules_for
from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.plugin import hooks
from mlperf_suite.plugin.options import SETTINGS
from mlperf_suite.plugin.progress import TerminalWatcher
from mlperf_suite.results.record import RunKey, Stage
from mlperf_suite.session.executor import Session, load_vllm
from mlperf_suite.session.peak_run import search_peak
from mlperf_suite.session.peak_search import PeakSearch
from mlperf_suite.settings import Settings

SUITE = pytest.StashKey[Session]()
_Made = TypeVar("_Made")
EXIT_STATUS = pytest.StashKey[int]()
STATUS_PROPERTY = "mlperf_status"
"""The user property that says why a skipped rule was skipped: shortened, or not judged."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hooks)


@pytest.hookimpl(trylast=True)
def pytest_mlperf_load_engine(suite: Session) -> Engine:
    return load_vllm(suite)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "peak_search" in metafunc.fixturenames:
        _parametrize_peak(metafunc)
    if "verdict" not in metafunc.fixturenames:
        return
    mode, scenarios = metafunc.module.MODE, metafunc.module.SCENARIOS
    parameters = [
        pytest.param(
            RunKey(category, scenario.name, mode),
            rule.name,
            marks=[getattr(pytest.mark, category), getattr(pytest.mark, scenario.marker)],
            id=f"{category}-{scenario.marker}-{rule.name}",
        )
        for category, benchmark in RUNNABLE.items()
        for scenario in benchmark.scenarios
        if scenario.name in scenarios
        and (mode != "test06" or "TEST06" in benchmark.compliance_tests)
        for rule in rules_for(benchmark, scenario, mode)
    ]
    metafunc.parametrize(("run_key", "rule_name"), parameters)


def _parametrize_peak(metafunc: pytest.Metafunc) -> None:
    """The scenarios that have latency limits, and so a highest rate within them."""
    metafunc.parametrize(
        "peak_of",
        [
            pytest.param(
                (category, scenario.name),
                marks=[getattr(pytest.mark, category), getattr(pytest.mark, scenario.marker)],
                id=f"{category}-{scenario.marker}",
            )
            for category, benchmark in RUNNABLE.items()
            for scenario in benchmark.scenarios
            if scenario.limits is not None
        ],
    )


def _run_key(item: pytest.Item) -> RunKey | None:
    key: RunKey | None = _parameters(item).get("run_key")
    return key


def _peak_of(item: pytest.Item) -> tuple[Category, str] | None:
    """The category and scenario whose highest rate a test searches for."""
    peak_of: tuple[Category, str] | None = _parameters(item).get("peak_of")
    return peak_of


def _parameters(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def _fits(item: pytest.Item, settings: Settings) -> bool:
    """Whether --category, --scenario, --mode and --find-peak-qps leave a test in."""
    key, peak_of = _run_key(item), _peak_of(item)
    if peak_of is not None:
        found = (*peak_of, "performance")
    elif key is not None:
        found = (key.category, key.scenario, key.mode)
    elif "mmlu" in getattr(item, "fixturenames", ()):
        # MMLU is of no category and no scenario, and no performance run.
        return not (settings.category or settings.scenario or settings.mode == "performance")
    else:
        return True
    mode = None if settings.mode == "both" else settings.mode
    wanted = (settings.category, settings.scenario, mode)
    asked_for = peak_of is None or settings.find_peak_qps
    return asked_for and all(w in (None, f) for w, f in zip(wanted, found, strict=True))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    settings = config.stash[SETTINGS]
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        (kept if _fits(item, settings) else dropped).append(item)
    if dropped and not kept:
        wanted = {
            "category": settings.category,
            "scenario": settings.scenario,
            "mode": None if settings.mode == "both" else settings.mode,
        }
        options = (f"--{name} {value}" for name, value in wanted.items() if value)
        given = ", ".join(options) or "no --find-peak-qps"
        selected = config.getoption("markexpr") or config.getoption("keyword") or "the tests named"
        raise pytest.UsageError(f"{given}: leaves nothing to run of '{selected}'")
    _refuse_what_does_nothing(config, kept)
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def _refuse_what_does_nothing(config: pytest.Config, items: list[pytest.Item]) -> None:
    """An option of the command line that no selected test heeds is a mistake."""
    if config.getoption("find_peak_qps") and not any(map(_peak_of, items)):
        raise pytest.UsageError(
            "--find-peak-qps: no search is among the selected tests: select Server or Interactive"
        )
    performs = any((key := _run_key(item)) and key.mode == "performance" for item in items)
    if config.getoption("repeat") not in (None, "1") and not performs:
        raise pytest.UsageError(
            f"--repeat {config.getoption('repeat')}: no performance run is among the selected tests"
        )


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    planned = frozenset(key for item in session.items if (key := _run_key(item)))
    peaks = {peak[0] for item in session.items if (peak := _peak_of(item))}
    categories = {key.category for key in planned} | peaks
    wants_scoring = any("mmlu" in getattr(item, "fixturenames", ()) for item in session.items)
    if not (categories or wants_scoring) or config.getoption("collectonly"):
        return
    watcher = TerminalWatcher(config.get_terminal_writer())
    suite = Session(config.stash[SETTINGS], _load_engine(config), watcher, planned)
    suite.wants_scoring = wants_scoring
    try:
        suite.check(categories)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[SUITE] = suite


def _load_engine(config: pytest.Config):  # type: ignore[no-untyped-def]
    def load(suite: Session) -> Engine:
        engine: Engine = config.hook.pytest_mlperf_load_engine(suite=suite)
        return engine

    return load


@pytest.fixture(scope="session")
def suite(pytestconfig: pytest.Config) -> Iterator[Session]:
    """The session's engine, data and runs; its engine is stopped at the end."""
    session = pytestconfig.stash[SUITE]
    with _terminated_like_interrupted():
        yield session
        session.close()


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """A CI that cancels a job sends SIGTERM: end like Ctrl-C, with everything stopped and kept."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def verdict(
    request: pytest.FixtureRequest, suite: Session, run_key: RunKey, rule_name: str
) -> Verdict:
    """What the rule says of the run; the first test that asks makes the run.

    Where the run died, that first test fails and the run's other rules are not judged.
    """
    stage = made_run(request, suite, run_key, rule_name)
    (found,) = [v for v in stage.verdicts if v.rule == rule_name]
    return found


def made_run(
    request: pytest.FixtureRequest, suite: Session, run_key: RunKey, asked_for: str
) -> Stage:
    """The run of this key, made now if it was not yet.

    Where it dies now, the test fails; where it died before, what was asked for is not judged.
    """
    failure = suite.failure_of(run_key)
    if failure is not None:
        request.node.user_properties.append((STATUS_PROPERTY, "not judged"))
        pytest.skip(f"{asked_for}: not judged: the run failed: {failure}")
    return _in_one_line(request, lambda: suite.run(run_key))


@pytest.fixture
def peak_search(
    request: pytest.FixtureRequest, suite: Session, peak_of: tuple[Category, str]
) -> PeakSearch:
    """The search for the highest valid rate, made now."""
    return _in_one_line(request, lambda: search_peak(suite, *peak_of))


def _in_one_line(request: pytest.FixtureRequest, make: Callable[[], _Made]) -> _Made:
    """What `make` makes; where that fails, the test fails with one line and no traceback."""
    try:
        return make()
    except SuiteError as error:
        failure = str(error)
    # Outside the handler, so that pytest shows no chain of exceptions.
    if not request.config.stash[SUITE].can_go_on:
        request.session.shouldfail = "no other run can be made in this session"
    pytest.fail(failure, pytrace=False)


@pytest.fixture
def expect(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """Call it with a verdict: passes, fails with its line, or skips what is not a pass."""

    def check(verdict: Verdict) -> None:
        if verdict.status == "failed":
            pytest.fail(verdict.line, pytrace=False)
        if not verdict.passed:
            request.node.user_properties.append((STATUS_PROPERTY, verdict.status))
            pytest.skip(verdict.line)

    return check


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, object] | None:
    status = dict(report.user_properties).get(STATUS_PROPERTY)
    if not report.skipped or status is None:
        return None
    return (
        str(status),
        "s" if status == "shortened" else "n",
        (str(status).upper(), {"yellow": True}),
    )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[EXIT_STATUS] = int(exitstatus)
    suite = session.config.stash.get(SUITE, None)
    if suite is not None:
        # An interrupt in a fixture can pass over its teardown.
        suite.close()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    suite = config.stash.get(SUITE, None)
    if suite is not None and suite.must_exit_hard:
        # LoadGen cannot be stopped, and goes on calling into a Python that is coming down.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash.get(EXIT_STATUS, int(pytest.ExitCode.INTERNAL_ERROR)))
