"""MMLU: its verdicts as tests, its progress by subject, its closing table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.mmlu.mmlu_rules import MMLU_RULES
from mlperf_suite.plugin.runs import STATUS_PROPERTY, SUITE
from mlperf_suite.plugin.terminal import terminal_console, terminal_stream
from mlperf_suite.plugin.workers import SHARDS
from mlperf_suite.reports.terminal import closing_table
from mlperf_suite.session.executor import Session
from mlperf_suite.session.mmlu_run import MmluRun, Share

RUN = pytest.StashKey[MmluRun]()
PROGRESS = pytest.StashKey["SubjectProgress"]()
SUMMARIES = pytest.StashKey[list[tuple[dict[str, Any], Path]]]()
"""Of each MMLU run that this process, or a worker of it, made: summary.json and its folder."""
_Made = TypeVar("_Made")


class SubjectProgress:
    """One line with the subject that is scored; silent where the output is not a terminal."""

    def __init__(self, terminal_writer: Any) -> None:
        file = terminal_stream(terminal_writer)
        self._bar = Progress(
            TextColumn("MMLU {task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(file=file, force_terminal=True),
            transient=True,
        )
        self._shown = file.isatty()

    def __call__(self, done: int, total: int, subject: str) -> None:
        if not self._shown:
            return
        if not self._bar.tasks:
            self._bar.add_task(subject, total=total)
            self._bar.start()
        self._bar.update(self._bar.tasks[0].id, completed=done, description=subject)

    def stop(self) -> None:
        self._bar.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mmlu_verdict" in metafunc.fixturenames:
        metafunc.parametrize("mmlu_rule", MMLU_RULES)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Read the questions before anything slow begins, so that a bad row is a usage error."""
    config = session.config
    suite = config.stash.get(SUITE, None)
    if suite is None or not suite.wants_scoring:
        return
    progress = config.stash[PROGRESS] = SubjectProgress(config.get_terminal_writer())
    run = MmluRun(suite, progress, config.stash.get(SHARDS, None))
    try:
        run.check()
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[RUN] = run


@pytest.fixture(scope="session")
def mmlu(suite: Session, pytestconfig: pytest.Config) -> MmluRun:
    """The session's MMLU run; the engine is the one that `suite` stops at the end."""
    return pytestconfig.stash[RUN]


@pytest.fixture
def mmlu_verdict(request: pytest.FixtureRequest, mmlu: MmluRun, mmlu_rule: str) -> Verdict:
    """What the rule says of the MMLU run; the first test that asks makes the run.

    Where the run died, that first test fails and the other rules are not judged.
    """
    if mmlu.failure is not None:
        request.node.user_properties.append((STATUS_PROPERTY, "not judged"))
        pytest.skip(f"{mmlu_rule}: not judged: the run failed: {mmlu.failure}")
    (found,) = [v for v in _in_one_line(request, mmlu.verdicts) if v.rule == mmlu_rule]
    return found


@pytest.fixture
def mmlu_share(request: pytest.FixtureRequest, mmlu: MmluRun, share_index: int) -> Share:
    """A share of the subjects, scored now on this worker's engine."""
    return _in_one_line(request, lambda: mmlu.score_share(share_index))


def _in_one_line(request: pytest.FixtureRequest, make: Callable[[], _Made]) -> _Made:
    """What `make` makes; where that fails, the test fails with one line and no traceback."""
    try:
        return make()
    except SuiteError as error:
        failure = str(error)
    finally:
        request.config.stash[PROGRESS].stop()
    # Outside the handler, so that pytest shows no chain of exceptions.
    if not request.config.stash[SUITE].can_go_on:
        request.session.shouldfail = "no other run can be made in this session"
    pytest.fail(failure, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    run = config.stash.get(RUN, None)
    if run is None or run.folder is None:
        return
    if hasattr(config, "workeroutput"):
        config.workeroutput["mmlu"] = [json.dumps(run.summary()), str(run.folder.path)]
    else:
        config.stash[SUMMARIES] = [(run.summary(), run.folder.path)]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """pytest-xdist: a worker is over, and says what it made."""
    if found := getattr(node, "workeroutput", {}).get("mmlu"):
        summaries = node.config.stash.setdefault(SUMMARIES, [])
        summaries.append((json.loads(found[0]), Path(found[1])))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    console = terminal_console(config)
    for summary, folder in config.stash.get(SUMMARIES, []):
        terminalreporter.section("MMLU")
        console.print(closing_table(summary, folder))
