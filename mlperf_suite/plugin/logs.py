"""Judging logs that already exist: with --logs, a test for each rule and run, and nothing runs."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

from mlperf_suite.judging.judge import Judged, judge_folder
from mlperf_suite.judging.tree import holds_logs
from mlperf_suite.plugin.options import SETTINGS
from mlperf_suite.plugin.terminal import terminal_console
from mlperf_suite.reports.terminal import judged_table
from mlperf_suite.results.run_folder import PEAK_FOLDER
from mlperf_suite.settings import Settings

JUDGED = pytest.StashKey[list[Judged]]()
_FIXTURE = "log_verdict"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    settings = config.stash[SETTINGS]
    if settings.logs is None:
        return
    if settings.baselines:
        raise pytest.UsageError("--baseline: --logs makes no run that could be compared")
    if not settings.logs.is_dir():
        raise pytest.UsageError(f"--logs {settings.logs}: no such folder")
    if not holds_logs(settings.logs):
        raise pytest.UsageError(f"--logs {settings.logs}: no LoadGen log (mlperf_log_*) in it")
    judged = judge_folder(
        settings.logs,
        settings.round if settings.round_given else None,
        high_accuracy=settings.high_accuracy,
    )
    if not judged:
        raise pytest.UsageError(
            f"--logs {settings.logs}: only trial runs of a search ({PEAK_FOLDER}) in it, which are "
            "no results"
        )
    chosen = [one for one in judged if _chosen(one, settings)]
    if not chosen:
        raise pytest.UsageError(
            f"--logs {settings.logs}: no run of this category and scenario in it"
        )
    config.stash[JUDGED] = chosen


def _chosen(judged: Judged, settings: Settings) -> bool:
    """Whether --category and --scenario leave the run in; what is of no category stays."""
    return all(
        wanted is None or found in (None, wanted)
        for wanted, found in (
            (settings.category, judged.category),
            (settings.scenario, judged.scenario),
        )
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Without --logs there is no test of logs."""
    if JUDGED in collector.config.stash or not inspect.isfunction(obj):
        return None
    return [] if _FIXTURE in inspect.signature(obj).parameters else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _FIXTURE not in metafunc.fixturenames:
        return
    metafunc.parametrize(
        _FIXTURE,
        [
            pytest.param(verdict, marks=_marks(judged, mode), id=f"{judged.name}-{verdict.rule}")
            for judged in metafunc.config.stash[JUDGED]
            for verdict, mode in zip(judged.verdicts, judged.modes, strict=True)
        ],
    )


def _marks(judged: Judged, mode: str) -> list[pytest.MarkDecorator]:
    of_mode = mode if mode in ("accuracy", "performance") else None
    of_scenario = judged.scenario.lower() if judged.scenario else None
    return [getattr(pytest.mark, m) for m in (judged.category, of_scenario, of_mode) if m]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --logs only logs are judged."""
    if JUDGED not in config.stash:
        return
    logs = [item for item in items if _FIXTURE in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in logs])
    items[:] = logs


def pytest_collection_finish(session: pytest.Session) -> None:
    """What -m and -k left out is not told of either."""
    stash = session.config.stash
    if JUDGED not in stash:
        return
    parameters = (getattr(item, "callspec", None) for item in session.items)
    selected = {id(one.params.get(_FIXTURE)) for one in parameters if one}
    stash[JUDGED] = [left for one in stash[JUDGED] if (left := _only(one, selected)).verdicts]


def _only(judged: Judged, selected: set[int]) -> Judged:
    pairs = zip(judged.verdicts, judged.modes, strict=True)
    kept = [(verdict, mode) for verdict, mode in pairs if id(verdict) in selected]
    verdicts, modes = tuple(v for v, _ in kept), tuple(mode for _, mode in kept)
    return replace(judged, verdicts=verdicts, modes=modes)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    judged = config.stash.get(JUDGED, None)
    if not judged:
        return
    console = terminal_console(config)
    terminalreporter.section(f"logs in {config.stash[SETTINGS].logs}")
    console.print(judged_table(judged), soft_wrap=True)
