"""Results that could not be sent, kept in the results folder until they are.

An entry is a copy of the result, since the next run of its kind removes the result itself. Files
are linked where the file system can, and take no room.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.features.tracking.trackers import TrackingTarget
from mlperf_suite.results import typed_json
from mlperf_suite.results.run_folder import RESERVED_FILE, read_object, write_json

QUEUE_FOLDER = ".track-queue"
_TARGET_JSON = "target.json"


@dataclass(frozen=True, slots=True)
class Upload:
    """A result to send. `entry`: its folder in the queue; None if it is not in one. `logs_of`: of
    logs without a result, the folder with all that are judged together. `pinned`: whether later
    runs are to be compared with it."""

    folder: Path
    target: TrackingTarget
    entry: Path | None = None
    logs_of: Path | None = None
    pinned: bool = False

    @property
    def name(self) -> str:
        """For people: the result's, or where logs are."""
        if self.logs_of:
            return str(self.folder.relative_to(self.logs_of.parent))
        return self.folder.name


def queued(results_dir: Path) -> list[Upload]:
    """The uploads that wait in a results folder, oldest first. What is no entry is passed over."""
    queue = results_dir / QUEUE_FOLDER
    entries = sorted(queue.iterdir()) if queue.is_dir() else []
    uploads = []
    for entry in entries:
        target = typed_json.read(TrackingTarget, read_object(entry / _TARGET_JSON))
        folders = [path for path in entry.iterdir() if path.is_dir()] if target else []
        if target and len(folders) == 1:
            uploads.append(Upload(folders[0], target, entry))
    return uploads


def enqueue(results_dir: Path, upload: Upload) -> None:
    """Keep an upload that does not wait yet for later. Raises OSError."""
    entry = results_dir / QUEUE_FOLDER / upload.folder.name
    partial = entry.with_name(f".{entry.name}.{os.getpid()}.part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        copy_result(upload.folder, partial / upload.folder.name, _link)
        write_json(partial / _TARGET_JSON, upload.target.as_json())
        shutil.rmtree(entry, ignore_errors=True)
        partial.rename(entry)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def dequeue(uploads: Iterable[Upload]) -> None:
    """Remove uploads that were sent. What cannot be removed is sent again, which is nothing."""
    for upload in uploads:
        if upload.entry is not None:
            shutil.rmtree(upload.entry, ignore_errors=True)
            with contextlib.suppress(OSError):
                upload.entry.parent.rmdir()


def copy_result(
    folder: Path,
    copy: Path,
    copy_file: object = shutil.copyfile,
    is_left_out: Callable[[Path], bool] = lambda path: False,
) -> None:
    """Copy a result's files: no links, and nothing that a run needs only while it goes on.
    Raises OSError. `is_left_out`: of a regular file, whether it is no part of the copy."""

    def left_out(place: str, names: list[str]) -> set[str]:
        entries = (Path(place) / name for name in names)
        return {
            path.name
            for path in entries
            if path.is_symlink()
            or not (path.is_dir() or path.is_file())
            or path.name == RESERVED_FILE
            or path.suffix == ".part"
            or (path.is_file() and is_left_out(path))
        }

    shutil.copytree(folder, copy, ignore=left_out, copy_function=copy_file)  # type: ignore[arg-type]


def _link(source: str, copy: str) -> None:
    try:
        os.link(source, copy)
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(source, copy)
