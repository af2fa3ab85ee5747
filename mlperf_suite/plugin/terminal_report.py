"""What a session shows and leaves: its first lines, the closing summary of each result, and no
token or key in the output and files of pytest and its plugins.

The closing summaries include those that features hand over from pytest-xdist's workers.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.options import NOTES, settings_of
from mlperf_suite.plugin.workers import collects_suite
from mlperf_suite.secrets import redact, redact_files
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.settings import OPTIONS_OF_FEATURES
from mlperf_suite.untrusted_files import printable

if TYPE_CHECKING:
    from mlperf_suite.results.schema import Summary
    from mlperf_suite.settings import Settings

_EMBEDDED = (
    "model: embedded, the suite's own small model (SmolLM2-135M-Instruct); measure\n"
    "  another with --model OWNER/NAME or --model FOLDER"
)
OF_WORKERS: pytest.StashKey[list[tuple[Summary, Path]]] = pytest.StashKey()
"""The summary and folder of each result that a worker made for the controller to show."""


# The first lines


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = settings_of(config)
    notes = [f"ignored: {line}" for line in config.stash.get(NOTES, [])]
    if settings.logs is not None or not collects_suite(config):
        return notes
    return [*notes, *map(printable, header_lines(settings))]


def header_lines(settings: Settings) -> list[str]:
    """What is measured, in lines of at most 80 columns unless a name is longer."""
    if settings.smoke:
        rules = "profile: smoke, not an MLPerf result (--profile official: MLPerf's own rules)"
    else:
        rules = f"profile: official, the rules of round {settings.round.name}"
    is_embedded = settings.model == EMBEDDED.model
    model = _EMBEDDED if is_embedded else f"model: {settings.model}"
    if urls := source_of(settings).urls(settings):
        model = f"model: {settings.model}, at {', '.join(urls)}"
    of_features = OPTIONS_OF_FEATURES.items()
    own = [f"for {s.data_of}: {settings.feature_options[n]}" for n, s in of_features if s.data_of]
    return [rules, *model.splitlines(), f"data: {'; '.join([settings.dataset, *own])}"]


# The closing summaries


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """The results come last, after the tracebacks, lists and tables of pytest and its plugins."""
    yield
    config = terminalreporter.config
    suite = config.stash.get(SUITE, None)
    results = []
    if suite is not None:
        summary_of = suite.recorder.summary
        results = [(summary_of(record), record.folder.path) for record in suite.recorder.results]
    results = [*results, *config.stash.get(OF_WORKERS, [])]
    if suite is None and not results:
        return
    # Imported late, so that collection stays instant.
    from mlperf_suite.plugin.progress import terminal_console
    from mlperf_suite.reports.feature_report import feature_reports
    from mlperf_suite.reports.terminal import closing_view

    console = terminal_console(config)
    for file in suite.recorder.node_files if suite is not None else ():
        console.print(printable(f"node: {file}"), soft_wrap=True, markup=False)
    for summary, path in results:
        own = "".join(report.name(summary) for report in feature_reports(summary))
        terminalreporter.section(own or summary.meta.title)
        every_rule = config.get_verbosity() > 0
        console.print(closing_view(summary, path, every_rule=every_rule), soft_wrap=True)
    if suite is not None and suite.time_line:
        console.print(suite.time_line)


# Secrets


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Redact secrets in tracebacks, with or without local variables, and in captured output."""
    report: pytest.TestReport = yield
    if report.longrepr is not None and not isinstance(report.longrepr, tuple):
        text = str(report.longrepr)
        if redact(text) != text:
            report.longrepr = redact(text)
    report.sections = [(redact(name), redact(content)) for name, content in report.sections]
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """Redact secrets in files of others: the engine's log, JUnit's XML, Allure's results."""
    suite = config.stash.get(SUITE, None)
    options = [config.getoption(name, None) for name in ("xmlpath", "allure_report_dir")]
    paths = [Path(path) for path in options if path]
    if suite is not None:
        from mlperf_suite.results.run_folder import ENGINE_LOG

        paths += [record.folder.path for record in suite.recorder.results]
        # That of an engine which no run took over.
        paths.append(suite.settings.results_dir / ENGINE_LOG)
    paths += [path for _, path in config.stash.get(OF_WORKERS, [])]
    redact_files(paths)
