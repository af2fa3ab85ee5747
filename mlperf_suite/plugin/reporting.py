"""The closing table of each result."""

from __future__ import annotations

import pytest

from mlperf_suite.plugin.runs import SUITE
from mlperf_suite.plugin.terminal import terminal_console
from mlperf_suite.reports.terminal import closing_table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    suite = config.stash.get(SUITE, None)
    if suite is None:
        return
    console = terminal_console(config)
    for result in suite.results.values():
        terminalreporter.section(f"{result.benchmark.category} {result.scenario.name}")
        console.print(closing_table(suite.summary(result), result.folder.path))
