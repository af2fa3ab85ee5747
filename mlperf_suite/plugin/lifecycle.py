"""The life cycle of a session: planned after collection, checked, run on demand, always stopped."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

from mlperf_suite.errors import SuiteError
from mlperf_suite.plugin.baseline_gate import baselines_of, check_baselines
from mlperf_suite.plugin.cases import asks_for_engine, benchmarks_of, steps_of
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.own_folder import RESTARTED
from mlperf_suite.session.engine_source import EngineRequest, source_of
from mlperf_suite.session.plan import Plan
from mlperf_suite.session.timing.forecast import forecast, planned

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.session.executor import Session
    from mlperf_suite.session.inputs import Inputs

SUITE: pytest.StashKey[Session] = pytest.StashKey()
_PLAN = pytest.StashKey[Plan]()
_PLACEMENT = pytest.StashKey[list[str]]()
_OBSTACLES = pytest.StashKey[list[str]]()
_EXIT_STATUS = pytest.StashKey[int]()


class SuiteHooks:
    @pytest.hookspec(firstresult=True)
    def pytest_mlperf_load_engine(self, inputs: Inputs, request: EngineRequest) -> Engine | None:
        """Return a loaded engine; the first plugin that returns one wins.

        `inputs`: settings, benchmarks, samples and prompts of the session. `request`: what the
        engine is for (runs or scoring) and the file for its output.
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(SuiteHooks)


@pytest.hookimpl(trylast=True)
def pytest_mlperf_load_engine(inputs: Inputs, request: EngineRequest) -> Engine:
    from mlperf_suite.session.engines import load_engine

    return load_engine(inputs, request)


def plan_of(config: pytest.Config, items: Iterable[pytest.Item]) -> Plan:
    """The plan of what the session does for these tests."""
    items = list(items)
    steps = {item: steps_of(item) for item in items}
    scored = (steps[item] for item in items if item.get_closest_marker("accuracy") is not None)
    return planned(
        settings_of(config),
        list(dict.fromkeys(step for of_item in steps.values() for step in of_item)),
        frozenset(step for of_item in scored for step in of_item),
        engine=any(map(asks_for_engine, items)),
    )


def session_of(config: pytest.Config) -> Session:
    """The suite, which exists if a test uses the fixture `suite` or one based on it."""
    return config.stash[SUITE]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Plan what is left to run and check what could stop it, before anything slow begins."""
    config, settings = session.config, settings_of(session.config)
    if not any("suite" in getattr(item, "fixturenames", ()) for item in session.items):
        return
    plan = config.stash[_PLAN] = plan_of(config, session.items)
    if config.getoption("collectonly") and not settings.plan:
        return
    from mlperf_suite.plugin.progress import TerminalDisplay
    from mlperf_suite.session.executor import Session
    from mlperf_suite.session.typed_command import typed_command

    hook, display = config.hook, TerminalDisplay(config.get_terminal_writer())
    suite = Session(
        settings,
        plan,
        lambda inputs, request: hook.pytest_mlperf_load_engine(inputs=inputs, request=request),
        display,
        baselines_of(config),
        benchmarks=benchmarks_of(config, session.items),
    )
    # pytest-xdist starts its workers by a command of its own.
    worker = getattr(config, "workerinput", {})
    suite.recorder.command = typed_command(worker.get("mainargv", sys.argv), os.environ, RESTARTED)
    obstacles = suite.obstacles()
    try:
        if not obstacles:
            check_baselines(suite, plan, baselines_of(config))
            if settings.plan:
                config.stash[_PLACEMENT] = source_of(settings).placement(suite.inputs)
    except SuiteError as error:
        obstacles = [str(error)]
    if settings.plan:
        suite.close()
        config.stash[_OBSTACLES] = obstacles
    elif obstacles:
        raise pytest.UsageError(*obstacles)
    else:
        config.stash[SUITE] = suite


@pytest.hookimpl(trylast=True)
def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Show how long the session will take and, with --plan or --collect-only, each step.

    Otherwise, the steps are shown once the engine is loaded and probed.
    """
    plan = config.stash.get(_PLAN, None)
    if plan is None:
        return []
    settings, suite = settings_of(config), config.stash.get(SUITE, None)
    estimate = forecast(settings, plan)
    seconds, source = estimate.seconds, estimate.source
    notes = suite.inputs.not_judged(plan.at_engine) if suite else []
    wrapped = [part for line in notes for part in textwrap.wrap(f"note: {line}", 78)]
    if config.getoption("collectonly") or settings.plan:
        total_s = sum(seconds.values()) if seconds else None
        lines = plan.lines(seconds, source, total_s)
        if settings.plan and not config.stash.get(_OBSTACLES, []):
            place = ", servers" * source_of(settings).is_remote
            lines.append(f"ready: model, data, folders{place} are as a run needs them")
        return [*config.stash.get(_PLACEMENT, []), *lines]
    if suite is None or (seconds and not estimate.kept):
        # Of another machine: this one's time is measured once the engine is loaded.
        return [*wrapped, *plan.summary_lines()]
    total_s = suite.announce(seconds) if estimate.kept else None
    return [*wrapped, *plan.summary_lines(total_s, source, is_known=plan.is_known(seconds))]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With --plan, run nothing, and succeed if the session could start."""
    if not settings_of(session.config).plan or session.testsfailed:
        return None
    if obstacles := session.config.stash.get(_OBSTACLES, []):
        raise pytest.UsageError(*obstacles)
    return True


@pytest.fixture(scope="session")
def suite(pytestconfig: pytest.Config) -> Iterator[Session]:
    """The session's engine, data and runs; its engine is stopped at the end."""
    from mlperf_suite.engines.hang_detector import terminated_like_interrupted

    session = session_of(pytestconfig)
    with terminated_like_interrupted():
        yield session
        session.close()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_EXIT_STATUS] = int(exitstatus)
    suite = session.config.stash.get(SUITE, None)
    if suite is not None:
        # An interrupt in a fixture can skip its teardown.
        suite.close()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    suite = config.stash.get(SUITE, None)
    if suite is not None and suite.must_exit_hard:
        # LoadGen cannot be stopped and would keep calling into Python while it shuts down.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash.get(_EXIT_STATUS, int(pytest.ExitCode.INTERNAL_ERROR)))
