"""What the terminal shows of a session: its first lines, and the closing table of each result.

The closing tables include MMLU's from pytest-xdist's workers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.options import NOTES, settings_of
from mlperf_suite.plugin.workers import collects_suite
from mlperf_suite.results.schema import Summary
from mlperf_suite.settings import Settings

_EMBEDDED = (
    "model: embedded, the suite's own small model (SmolLM2-135M-Instruct); measure\n"
    "  another with --model OWNER/NAME or --model FOLDER"
)
_OF_WORKERS = pytest.StashKey[list[tuple[Summary, Path]]]()
"""The summary and folder of each MMLU run that a worker made."""


# The first lines


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = settings_of(config)
    notes = [f"nothing to set: {line}" for line in config.stash.get(NOTES, [])]
    if settings.logs is not None or not collects_suite(config):
        return notes
    return [*notes, *header_lines(settings)]


def header_lines(settings: Settings) -> list[str]:
    """What is measured, in lines of at most 80 columns unless a name is longer."""
    if settings.smoke:
        rules = "profile: smoke, not an MLPerf result (--profile official: MLPerf's own rules)"
    else:
        rules = f"profile: official, the rules of round {settings.round.name}"
    is_embedded = settings.model == EMBEDDED.model
    model = _EMBEDDED if is_embedded else f"model: {settings.model}"
    if settings.endpoints:
        model = f"model: {settings.model}, at {', '.join(t.url for t in settings.endpoints)}"
    return [rules, *model.splitlines(), f"data: {settings.dataset}; for MMLU: {settings.mmlu_data}"]


# The closing tables


def mmlu_folders(config: pytest.Config) -> list[Path]:
    """The folders of the MMLU runs made by this process or its workers."""
    suite = config.stash.get(SUITE, None)
    own = suite.recorder.mmlu if suite is not None else None
    return [
        *([own.folder.path] if own else []),
        *(path for _, path in config.stash.get(_OF_WORKERS, [])),
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """On a worker of pytest-xdist: send the controller what was made."""
    config = session.config
    suite = config.stash.get(SUITE, None)
    own = suite.recorder.mmlu if suite is not None else None
    if hasattr(config, "workeroutput") and suite is not None and own is not None:
        summary = json.dumps(suite.recorder.summary(own).as_json())
        config.workeroutput["mmlu"] = [summary, str(own.folder.path)]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hook of pytest-xdist: collect what a worker that ended has made."""
    if output := getattr(node, "workeroutput", {}).get("mmlu"):
        of_workers = node.config.stash.setdefault(_OF_WORKERS, [])
        of_workers.append((Summary.read(json.loads(output[0])), Path(output[1])))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    suite = config.stash.get(SUITE, None)
    tables = [(summary, path) for summary, path in config.stash.get(_OF_WORKERS, [])]
    if suite is not None:
        recorder = suite.recorder
        if recorder.mmlu is not None:
            tables.insert(0, (recorder.summary(recorder.mmlu), recorder.mmlu.folder.path))
        tables = [*((recorder.summary(r), r.folder.path) for r in recorder.results), *tables]
    # Imported late, so that collection stays instant.
    from mlperf_suite.plugin.progress import terminal_console
    from mlperf_suite.reports.terminal import closing_table

    console = terminal_console(config)
    for summary, path in tables:
        terminalreporter.section("MMLU" if summary.meta.benchmark == "mmlu" else summary.meta.title)
        console.print(closing_table(summary, path))
    for file in suite.recorder.node_files if suite is not None else ():
        console.print(f"node: {file}", soft_wrap=True, markup=False)
    if suite is not None and suite.time_line:
        console.print(suite.time_line)
