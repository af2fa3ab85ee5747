"""Keeps tokens and keys out of the output and files of pytest and its plugins."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.terminal_report import mmlu_folders
from mlperf_suite.plugin.workers import shares_folder
from mlperf_suite.results.run_folder import ENGINE_LOG
from mlperf_suite.secrets import scrub, sweep


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Redact secrets in tracebacks, with or without local variables, and in captured output."""
    report: pytest.TestReport = yield
    if report.longrepr is not None and not isinstance(report.longrepr, tuple):
        text = str(report.longrepr)
        if scrub(text) != text:
            report.longrepr = scrub(text)
    report.sections = [(scrub(name), scrub(content)) for name, content in report.sections]
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """Redact secrets in files of others: the engine's log, JUnit's XML, Allure's results."""
    suite = config.stash.get(SUITE, None)
    options = [config.getoption(name, None) for name in ("xmlpath", "allure_report_dir")]
    paths = [Path(path) for path in options if path]
    if suite is not None:
        paths += [result.folder.path for result in suite.recorder.results]
        paths.append(suite.settings.results_dir / ENGINE_LOG)
    # Include those of pytest-xdist's workers, and an engine's log that no run took over.
    paths += [*mmlu_folders(config), *shares_folder(config)]
    sweep(paths)
