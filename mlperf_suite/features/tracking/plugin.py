"""A session's part: sends its results once the engine has stopped, and takes baselines from MLflow.

Nothing of it can change a run: the tracker is asked only before the engine is loaded and after it
was stopped.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite.errors import UsageError, os_error_line
from mlperf_suite.features.tracking.options import target_of
from mlperf_suite.features.tracking.trackers import is_tracked
from mlperf_suite.plugin.baseline_gate import BASELINES
from mlperf_suite.plugin.lifecycle import SUITE, plan_of
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.workers import collects_suite
from mlperf_suite.untrusted_files import printable

if TYPE_CHECKING:
    from mlperf_suite.features.tracking.trackers import TrackingTarget

SEND_S = 60.0
"""What sending may add to a session, in s; what is not sent by then is queued."""
_LINES = pytest.StashKey[list[str]]()
_OUTPUT = "tracking"
"""The name of a worker's lines in what it hands over."""


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = settings_of(config)
    target = target_of(settings)
    if target is None or settings.logs is not None or not collects_suite(config):
        return []
    if target.fault:
        return [f"track: nothing is sent to {target.words}: {target.fault}"]
    return [f"track: results go to {target.words}, experiment {target.experiment}"]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read baselines from MLflow before anything asks for them."""
    settings = settings_of(config)
    if any(map(is_tracked, settings.baselines)) and settings.logs is None:
        from mlperf_suite.features.tracking.tracked_runs import tracked_baselines

        try:
            config.stash[BASELINES] = tracked_baselines(settings)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Compare only what is selected with what an experiment has."""
    if baselines := session.config.stash.get(BASELINES, {}):
        from mlperf_suite.features.tracking.tracked_runs import drop_unselected

        keys = plan_of(session.config, session.items).keys
        drop_unselected(baselines, {key.benchmark_and_scenario for key in keys})


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The engine is stopped by now, and its log whole. Of pytest-xdist's processes, the worker with
    the engine sends."""
    config = session.config
    target, suite = target_of(settings_of(config)), config.stash.get(SUITE, None)
    folders = [result.folder.path for result in suite.recorder.results] if suite else []
    if target and not target.fault and folders:
        lines = send_results(folders, target, settings_of(config).results_dir, SEND_S)
        config.stash[_LINES] = lines
        if hasattr(config, "workeroutput"):
            config.workeroutput[_OUTPUT] = lines


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hook of pytest-xdist: the lines of a worker that ended."""
    lines = getattr(node, "workeroutput", {}).get(_OUTPUT, [])
    node.config.stash.setdefault(_LINES, []).extend(lines)


def send_results(
    folders: list[Path], target: TrackingTarget, results_dir: Path, limit_s: float
) -> list[str]:
    """Send results, and queue what cannot be sent; what became of them, in lines."""
    from mlperf_suite.features.tracking.sender import send
    from mlperf_suite.features.tracking.upload_queue import Upload, enqueue
    from mlperf_suite.secrets import redact_files

    # Only this process knows the secrets among its options.
    redact_files(folders)
    uploads = [Upload(folder, target) for folder in folders]
    answers = send(uploads, limit_s)
    lines = [f"track: {answer.where}" for answer in answers if answer.where]
    late = [upload for upload, answer in zip(uploads, answers, strict=True) if not answer.where]
    if late:
        fault = next(answer.fault for answer in answers if answer.fault)
        how = f"`mlperf-suite track {results_dir}` sends"
        try:
            for upload in late:
                enqueue(results_dir, upload)
            lines.append(f"track: {target.words}: {fault}: {len(late)} queued, {how} them")
        except OSError as error:
            why = os_error_line(error, results_dir)
            lines.append(f"track: {target.words}: {fault}; not queued either: {why}; {how} them")
    return lines


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    yield
    for line in terminalreporter.config.stash.get(_LINES, []):
        terminalreporter.write_line(printable(line))
