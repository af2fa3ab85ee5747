"""Judges existing logs: with --logs, there is one test for each rule and run, and nothing runs."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite.commands import check_output
from mlperf_suite.errors import UsageError
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.settings import Settings
from mlperf_suite.untrusted_files import printable

if TYPE_CHECKING:
    from mlperf_suite.judging.verdict_group import VerdictGroup

_JUDGED = pytest.StashKey["list[VerdictGroup] | None"]()
_FIXTURE = "log_verdict"
_NO_LIST_ASKED_FOR = ("fE", "a")
"""The values of -r where nobody gives it: pytest's, and that of pytest.ini."""


def judged_of(config: pytest.Config) -> list[VerdictGroup] | None:
    """The judged logs of --logs; None without --logs. Raises pytest.UsageError."""
    if _JUDGED not in config.stash:
        settings = settings_of(config)
        try:
            of_logs = None if settings.logs is None else _judge(settings, settings.logs)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        config.stash[_JUDGED] = of_logs
    return config.stash[_JUDGED]


def pytest_configure(config: pytest.Config) -> None:
    """Report at once any logs that cannot be judged, whatever is collected."""
    judged_of(config)


def _judge(settings: Settings, folder: Path) -> list[VerdictGroup]:
    # Imported late, so that collection without logs stays instant.
    from mlperf_suite.judging.judge import holds_logs, judge_folder

    if settings.baselines:
        raise UsageError("--baseline: cannot be combined with --logs, which makes no runs")
    check_output("--logs-html", settings.logs_html)
    check_output("--logs-csv", settings.logs_csv)
    if not folder.is_dir():
        raise UsageError(f"--logs {folder}: no such folder")
    if not holds_logs(folder):
        raise UsageError(
            f"--logs {folder}: no LoadGen log (mlperf_log_*) and no result_summary.json in it"
        )
    judged = judge_folder(
        folder,
        settings.round if settings.round_given else None,
        high_accuracy=settings.high_accuracy,
        smoke=settings.profile_given and settings.smoke,
        tokenizer=_tokenizer(settings),
    )
    if not judged:
        from mlperf_suite.results.run_folder import BLOCKS_FOLDER, PEAK_FOLDER

        raise UsageError(
            f"--logs {folder}: holds only trial runs of a peak search ({PEAK_FOLDER}) or blocks of "
            f"a caching audit ({BLOCKS_FOLDER}), which are not results"
        )
    runs = [run for run in judged if _is_selected(run, settings)]
    if not runs:
        raise UsageError(f"--logs {folder}: no run of this category and scenario in it")
    return runs


def _tokenizer(settings: Settings) -> Path | None:
    """The folder that --model names, if it has a tokenizer."""
    folder = Path(settings.model)
    return folder.resolve() if (folder / "tokenizer.json").is_file() else None


def _is_selected(run: VerdictGroup, settings: Settings) -> bool:
    """Whether --category and --scenario select the run; one without a category is selected."""
    options = ((settings.category, run.category), (settings.scenario, run.scenario))
    return all(option is None or value in (None, option) for option, value in options)


def log_cases(judged: Iterable[VerdictGroup]) -> list[Any]:
    """A case for each verdict, with the marks of its run."""
    return [
        pytest.param(verdict, marks=_marks(run, mode), id=f"{run.name}-{verdict.rule}")
        for run in judged
        for verdict, mode in zip(run.verdicts, run.modes, strict=True)
    ]


def is_of_logs(item: pytest.Item) -> bool:
    """Whether a test judges existing logs."""
    return _FIXTURE in getattr(item, "fixturenames", ())


def _marks(judged: VerdictGroup, mode: str) -> list[pytest.MarkDecorator]:
    of_mode = mode if mode in ("accuracy", "performance") else None
    of_scenario = judged.scenario.lower() if judged.scenario else None
    return [getattr(pytest.mark, m) for m in (judged.category, of_scenario, of_mode) if m]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Drop verdicts deselected by -m and -k, so that the closing summary shows the others only."""
    judged = judged_of(session.config)
    if judged is None:
        return
    parameters = (getattr(item, "callspec", None) for item in session.items)
    ids = {id(callspec.params.get(_FIXTURE)) for callspec in parameters if callspec}
    runs = []
    for run in judged:
        pairs = zip(run.verdicts, run.modes, strict=True)
        rest = [(verdict, mode) for verdict, mode in pairs if id(verdict) in ids]
        if rest:
            verdicts, modes = zip(*rest, strict=True)
            runs.append(replace(run, verdicts=verdicts, modes=modes))
    session.config.stash[_JUDGED] = runs


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if nothing could be judged."""
    if session.exitstatus == pytest.ExitCode.OK and _is_nothing_judged(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_nothing_judged(config: pytest.Config) -> bool:
    judged = config.stash.get(_JUDGED, None)
    verdicts = [verdict for run in judged or () for verdict in run.verdicts]
    return bool(verdicts) and all(verdict.status == "not judged" for verdict in verdicts)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    # pytest looks for the output of each failed test's teardown among all reports of this kind.
    silent = terminalreporter.stats.get("", [])
    silent[:] = [report for report in silent if report.sections]
    config = terminalreporter.config
    judged = config.stash.get(_JUDGED, None)
    failed = terminalreporter.stats.get("failed", [])
    every = list(failed)
    if judged and config.option.reportchars in _NO_LIST_ASKED_FOR:
        failed[:] = _not_of_verdicts(failed, judged)
    yield
    failed[:] = every
    if judged:
        _report(terminalreporter, judged)


def _not_of_verdicts(
    reports: Iterable[pytest.TestReport], judged: Iterable[VerdictGroup]
) -> list[pytest.TestReport]:
    """The reports of other failures than those of verdicts, which the closing summary names once,
    with all results that have them."""
    lines = {v.line for run in judged for v in run.verdicts if v.status == "failed"}
    return [report for report in reports if report.longreprtext.partition("\n")[0] not in lines]


def _report(terminalreporter: pytest.TerminalReporter, judged: list[VerdictGroup]) -> None:
    from mlperf_suite.plugin.progress import terminal_console
    from mlperf_suite.reports.html import html_page
    from mlperf_suite.reports.judged_report import judged_csv, judged_sections, judged_view
    from mlperf_suite.results.run_folder import write_whole

    config = terminalreporter.config
    settings = settings_of(config)
    assert settings.logs is not None
    terminalreporter.section(printable(f"logs in {settings.logs}"))
    console, view = terminal_console(config), judged_view(judged, settings.logs)
    # In a file a line stays whole, for programs.
    console.print(view, soft_wrap=not console.is_terminal, crop=False)
    if settings.logs_html:
        write_whole(settings.logs_html, html_page(judged_sections(judged, settings.logs)))
        terminalreporter.write_line(printable(f"page: {settings.logs_html}"))
    if settings.logs_csv:
        write_whole(settings.logs_csv, judged_csv(judged))
        terminalreporter.write_line(printable(f"table: {settings.logs_csv}"))
    if _is_nothing_judged(config):
        terminalreporter.write_line("ERROR: nothing of these logs could be judged", red=True)
