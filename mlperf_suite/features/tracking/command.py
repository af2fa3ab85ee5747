"""The command `track`: sends kept results, and those that are queued."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mlperf_suite.commands import Subcommand, say
from mlperf_suite.errors import UsageError
from mlperf_suite.features.tracking.options import TARGET
from mlperf_suite.features.tracking.trackers import (
    EXPERIMENT,
    EXPERIMENT_VARIABLE,
    MLFLOW,
    PINNED_TAG,
    URI_VARIABLE,
    TrackingTarget,
)
from mlperf_suite.features.tracking.upload_queue import QUEUE_FOLDER, Upload

_LIMIT_S, _A_RESULT_S = 60.0, 60.0
"""What a tracker may take, and how much more for each result, in s."""


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        default=[Path("results")],
        metavar="FOLDER",
        help="folders of results, or of several, with those that are queued there (results); or of "
        "LoadGen logs of others, which are judged as by --logs",
    )
    parser.add_argument(
        "--track",
        metavar="TARGET",
        help=f"mlflow, mlflow:URI or MODULE:PLACE; by default mlflow if {URI_VARIABLE} is set",
    )
    parser.add_argument(
        "--track-experiment",
        metavar="NAME",
        help=f"name of the experiment ({EXPERIMENT_VARIABLE}, or {EXPERIMENT})",
    )
    parser.add_argument(
        "--pin",
        action="store_true",
        help=f"give each result the tag {PINNED_TAG}, which --baseline mlflow:EXPERIMENT@pinned "
        "looks for",
    )


def _run(arguments: Namespace) -> int:
    from mlperf_suite.features.tracking.sender import send
    from mlperf_suite.features.tracking.upload_queue import dequeue
    from mlperf_suite.secrets import remember_named

    remember_named(os.environ)
    uploads = [upload for folder in arguments.folders for upload in _found(folder, arguments)]
    answers = send(uploads, _LIMIT_S + _A_RESULT_S * len(uploads)) if uploads else []
    faults: dict[str, list[str]] = {}
    for upload, answer in zip(uploads, answers, strict=True):
        if answer.where:
            say(f"{upload.name}: {answer.where}")
        else:
            fault = answer.fault + (" (stays queued)" if upload.entry else "")
            faults.setdefault(fault, []).append(upload.name)
    for fault, names in faults.items():
        say(f"{', '.join(names)}: not sent: {fault}")
    dequeue(u for u, answer in zip(uploads, answers, strict=True) if answer.where)
    failed = sum(bool(answer.fault) for answer in answers)
    say(f"track: {len(answers) - failed} of {len(answers)} results are kept")
    return 2 if failed else 0


def _found(folder: Path, arguments: Namespace) -> list[Upload]:
    """What waits in a folder, and its results or logs. Raises UsageError if it has neither, or no
    target for them."""
    from mlperf_suite.features.tracking.upload_queue import queued

    waiting, kept = queued(folder), _results(folder)
    logs = [] if kept or waiting else _logs(folder)
    target = _target(arguments)
    if not (kept or waiting or logs):
        found = f"no result that has ended, no logs and no {QUEUE_FOLDER}"
        raise UsageError(f"track: {folder}: {found} in it")
    if target is None:
        if not waiting:
            raise UsageError(f"track: where to? --track mlflow:URI, or {URI_VARIABLE}")
        return waiting
    names = {upload.folder.name for upload in waiting}
    own = [Upload(path, target, pinned=arguments.pin) for path in kept if path.name not in names]
    return [*waiting, *own, *(Upload(p, target, logs_of=folder.absolute()) for p in logs)]


def _results(folder: Path) -> list[Path]:
    """The results that have ended: the folder itself, be it a search's, or those in it, oldest
    first."""
    from mlperf_suite.features.tracking.tracked_search import TRIALS_JSONL
    from mlperf_suite.results.run_folder import SUMMARY_JSON, read_summary, run_folders

    if (folder / TRIALS_JSONL).is_file():
        return [folder.resolve()]
    is_result = (folder / SUMMARY_JSON).is_file()
    kept = [folder.resolve()] if is_result else run_folders(folder)[::-1]
    return [path for path in kept if (s := read_summary(path)) and s.meta.status != "running"]


def _logs(folder: Path) -> list[Path]:
    from mlperf_suite.features.tracking.tracked_logs import log_folders

    return list(log_folders(folder.absolute()))


def _target(arguments: Namespace) -> TrackingTarget | None:
    """Raises UsageError."""
    text = arguments.track or (MLFLOW if os.environ.get(URI_VARIABLE) else "")
    experiment = arguments.track_experiment or os.environ.get(EXPERIMENT_VARIABLE) or EXPERIMENT
    try:
        target = TrackingTarget.parse(text, experiment) if text else None
    except ValueError:
        raise UsageError.for_option("--track", text, TARGET.allowed) from None
    if target == TrackingTarget(MLFLOW, "", experiment) and not os.environ.get(URI_VARIABLE):
        raise UsageError(f"--track mlflow: needs {URI_VARIABLE}, or --track mlflow:URI")
    return target


COMMAND = Subcommand(
    "send kept results to MLflow or another tracker, each once, and those that are queued",
    _add_options,
    _run,
)
