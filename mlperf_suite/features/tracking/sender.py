"""Talks to trackers in a process of its own: `python -m mlperf_suite.features.tracking.sender`.

A tracker's library may hang, print and need seconds to be imported. Here it can be ended at any
moment, and its output goes nowhere. The process reads one request as JSON from its standard input
and writes a line of JSON for each answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from mlperf_suite.errors import SuiteError, one_line
from mlperf_suite.features.tracking.trackers import (
    PINNED_TAG,
    BaselineTracker,
    Tracker,
    TrackingTarget,
)
from mlperf_suite.features.tracking.upload_queue import Upload, copy_result
from mlperf_suite.secrets import redact_files, remember_named

KEPT_HERE = (
    *("answers.json", "samples.json", "details.jsonl", "events.jsonl"),
    *("responses.jsonl", "scored.jsonl"),
)
"""The texts of prompts, questions and answers, which are not sent."""
MAX_FILE_BYTES = 2**26
"""Of a file that is sent. A run's logs are far below; traces of a profiler are not."""
_AWAY = {"ConnectionError", "ConnectionRefusedError", "ConnectTimeout", "ReadTimeout", "gaierror"}
"""What requests and Python raise where a server cannot be reached or does not answer."""
_AWAY_WORDS = "the server does not answer"
_MOST_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """What became of an upload: the place where it is kept, or why it is not."""

    where: str = ""
    fault: str = ""


# This side


def send(uploads: Sequence[Upload], limit_s: float) -> list[SendOutcome]:
    """Send results, one after another, within `limit_s` seconds. Never raises because of a
    tracker."""
    request = [
        {
            "folder": str(upload.folder),
            "target": upload.target.as_json(),
            "logs_of": upload.logs_of and str(upload.logs_of),
            "pinned": upload.pinned,
        }
        for upload in uploads
    ]
    rows, fault = _ask({"uploads": request}, limit_s)
    answers = [SendOutcome(str(row.get("where", "")), str(row.get("fault", ""))) for row in rows]
    missing = len(uploads) - len(answers)
    return [*answers, *[SendOutcome(fault=fault)] * missing]


def fetch(
    target: TrackingTarget, which: str, system: str | None, into: Path, limit_s: float
) -> list[Path]:
    """The folders of kept results, see `BaselineTracker`. Raises SuiteError."""
    request = {"target": target.as_json(), "which": which, "system": system, "into": str(into)}
    rows, fault = _ask({"fetch": request}, limit_s)
    fault = str(rows[0].get("fault", "")) if rows else fault
    if fault:
        raise SuiteError(fault)
    return [Path(folder) for folder in rows[0]["folders"]]


def _ask(request: object, limit_s: float) -> tuple[list[dict[str, Any]], str]:
    """The answers as far as there are any, and why there are no more."""
    paths = os.pathsep.join(filter(None, sys.path))
    try:
        # A process that is killed leaves its temporary files.
        with tempfile.TemporaryDirectory(prefix="mlperf-track-") as room:
            process = subprocess.run(
                [sys.executable, "-m", "mlperf_suite.features.tracking.sender"],
                input=json.dumps(request).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": paths, "TMPDIR": room},
                timeout=limit_s,
                start_new_session=True,
                check=False,
            )
        output, fault = process.stdout, f"its process ended with status {process.returncode}"
    except subprocess.TimeoutExpired as error:
        output, fault = error.stdout or b"", f"no answer within {limit_s:g} s"
    except OSError as error:
        output, fault = b"", one_line(error)
    return [json.loads(line) for line in output.split(b"\n")[:-1]], fault


# The other side


def main() -> None:
    remember_named(os.environ)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    rows = _sent(request["uploads"]) if "uploads" in request else _fetched(request["fetch"])
    for row in rows:
        answers.write(json.dumps(row) + "\n")
        answers.flush()


def _sent(uploads: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row for each. A server that is away is asked once."""
    trackers: dict[TrackingTarget, Tracker] = {}
    away: set[TrackingTarget] = set()
    for upload in uploads:
        target = TrackingTarget(**upload["target"])

        def keep(
            target: TrackingTarget = target, upload: dict[str, Any] = upload
        ) -> dict[str, Any]:
            if target not in trackers:
                trackers[target] = target.open()
            logs_of = upload["logs_of"] and Path(upload["logs_of"])
            folder, pinned = Path(upload["folder"]), upload["pinned"]
            where = keep_result(trackers[target], folder, logs_of, pinned=pinned)
            return {"where": where or target.words}

        row = {"fault": _AWAY_WORDS} if target in away else _outcome(keep)
        if row.get("fault") == _AWAY_WORDS:
            away.add(target)
        yield row


def _fetched(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    def fetch() -> dict[str, Any]:
        tracker = cast(BaselineTracker, TrackingTarget(**request["target"]).open())
        into = Path(request["into"])
        return {"folders": [*map(str, tracker.fetch(request["which"], request["system"], into))]}

    yield _outcome(fetch)


def _outcome(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What it returns, or why a tracker's library gave up."""
    try:
        return work()
    except SuiteError as error:
        return {"fault": str(error)}
    except Exception as error:
        return {"fault": _words(error)}


def _words(error: Exception) -> str:
    """A library's error in a line. That of a server which is away names each attempt otherwise."""
    chain: list[BaseException] = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    away = _AWAY & {type(link).__name__ for link in chain}
    return _AWAY_WORDS if away else one_line(error)[:_MOST_CHARACTERS]


def keep_result(
    tracker: Tracker, folder: Path, logs_of: Path | None = None, *, pinned: bool = False
) -> str:
    """Send a copy of a result, in which every known secret is redacted. All that is sent of it is
    read from the copy. `logs_of`, `pinned`: as in `Upload`."""
    from mlperf_suite.features.tracking.tracked_logs import tracked_logs
    from mlperf_suite.features.tracking.tracked_result import tracked_result
    from mlperf_suite.features.tracking.tracked_search import TRIALS_JSONL, tracked_search

    is_search = (folder / TRIALS_JSONL).is_file()
    with tempfile.TemporaryDirectory() as made:
        copy = Path(made) / folder.name
        # The runs of a search's trials have folders of their own below it.
        copy_result(
            folder, copy, is_left_out=lambda f: _stays(f) or (is_search and f.parent != folder)
        )
        redact_files([copy])
        if logs_of:
            run = tracked_logs(folder, logs_of)
        else:
            run = tracked_search(copy) if is_search else tracked_result(copy)
        pin = {PINNED_TAG: "true"} if pinned else {}
        return tracker.keep(replace(run, tags={**run.tags, **pin}), copy)


def _stays(file: Path) -> bool:
    return file.name in KEPT_HERE or file.stat().st_size > MAX_FILE_BYTES


if __name__ == "__main__":
    main()
