"""Runs the official client as a process: its progress, its end, and why it failed, in one line."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path

from mlperf_suite import SUITE_FOLDER
from mlperf_suite.errors import RunError
from mlperf_suite.features.endpoints.official_client.client_job import (
    REPORT_FOLDER,
    OfficialClientJob,
    write_job,
)
from mlperf_suite.features.endpoints.official_client.installation import (
    OFFICIAL_CLIENT,
    OfficialClientInstallation,
)
from mlperf_suite.untrusted_files import printable

LOG_FILE = "client.log"
SILENCE_S = 300.0
"""How long the client may print nothing, in s. It prints with each answer that ends, so that one
long answer after another is the longest silence of a run that works."""
INTERRUPT_S = 20.0
"""How long the client gets to write what it has after an interrupt, in s."""
_END_S = 10.0
"""How long ending the client's processes may take after that, in s."""
_POLL_S = 0.25
_TAIL_BYTES = 16_384
_FULL_BYTES = 2**16
"""A file system with less is full: the client's own files are larger."""
_EVENTS_PLACE = Path("/dev/shm")  # noqa: S108 - read only
"""Where the client writes its events during a run; 64 MB in a container by default."""
_COUNT = re.compile(r"(\d{1,12})/(\d{1,12}) \[[^\]]{0,999}\]?")
_ERRORS = re.compile(r"errors=(\d+)")


@dataclass(frozen=True, slots=True)
class OfficialClientProgress:
    """How far a run is, by the client's own progress bar. `total`: the requests that it issues; 0
    before it says."""

    completed: int = 0
    total: int = 0
    failed: int = 0


class OfficialClientRunError(RunError):
    """The client ended without a result, in one line. `folder`: what it left is there."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


def run_official_client(
    client: OfficialClientInstallation,
    job: OfficialClientJob,
    folder: Path,
    *,
    on_progress: Callable[[OfficialClientProgress], None] | None = None,
    silence_s: float = SILENCE_S,
    interrupt_s: float = INTERRUPT_S,
) -> Path:
    """Run one job in a folder; returns the folder of the client's files, which nobody has changed.

    It has config.yaml, performance/ and, of an accuracy run, accuracy/, as a scenario's folder of a
    submission has them. Beside it lie the configuration and data that were written and what the
    client printed. `silence_s`: it is ended when it prints nothing for so long. However this ends,
    no process of the client is left; on Ctrl-C or silence it gets `interrupt_s` to write what it
    has.

    Raises OfficialClientRunError, and OSError where the disk is full or a folder cannot be written.
    """
    folder = folder.absolute()
    if (folder / REPORT_FOLDER).exists():
        raise OfficialClientRunError(
            f"{folder} has files of another run of {OFFICIAL_CLIENT}", folder
        )
    command = [str(client.program), "benchmark", "from-config", "--mode", job.mode]
    command += ["--config", str(write_job(job, folder))]
    watch = _Watch(folder, silence_s)
    with _started(client, command, folder, interrupt_s) as process:
        while process.poll() is None:
            if on_progress is not None:
                on_progress(watch.progress)
            if reason := watch.fault():
                raise OfficialClientRunError(f"{reason}; what it wrote is in {folder}", folder)
            # A plain wait, so that Ctrl-C comes through at once.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
    if process.returncode:
        raise _death(process.returncode, folder)
    if on_progress is not None:
        on_progress(watch.progress)
    return folder / REPORT_FOLDER


@contextlib.contextmanager
def _started(
    client: OfficialClientInstallation, command: list[str], folder: Path, interrupt_s: float
) -> Iterator[subprocess.Popen[bytes]]:
    """The client under its guard, in a session of its own; both are gone afterwards."""
    guard = [
        sys.executable,
        "-m",
        f"{__package__}.guard",
        f"{interrupt_s:g}",
    ]
    guard.append(str(client.folder))
    with (folder / LOG_FILE).open("wb") as log:
        process = subprocess.Popen(
            [*guard, *command],
            # The guard imports the suite from there; the client runs in a folder of its own.
            cwd=SUITE_FOLDER,
            env=client.environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process, interrupt_s)


def _end(process: subprocess.Popen[bytes], interrupt_s: float) -> None:
    """Close the guard's input, which ends the client; kill all of them if that does not help."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(interrupt_s + _END_S)
    finally:
        # A second Ctrl-C arrives here: then nobody waits.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _Watch:
    """Follows what the client prints."""

    def __init__(self, folder: Path, silence_s: float) -> None:
        self._folder, self._silence_s = folder, silence_s
        self._sign_s = time.monotonic()
        self._size = -1

    @property
    def progress(self) -> OfficialClientProgress:
        """The last state of the client's progress bar."""
        return progress_in(_tail(self._folder))

    def fault(self) -> str:
        """Why the client must be ended, in one line; "" if nothing is wrong."""
        now_s = time.monotonic()
        size = _size_of(self._folder / LOG_FILE)
        if size != self._size:
            self._size, self._sign_s = size, now_s
        if now_s - self._sign_s > self._silence_s:
            progress = self.progress
            of_all = f" of {progress.total:,}" if progress.total else ""
            return (
                f"{OFFICIAL_CLIENT} hangs: it printed nothing for {self._silence_s:g} s, with "
                f"{progress.completed:,}{of_all} requests ended"
            )
        return ""


def progress_in(output: str) -> OfficialClientProgress:
    """The last state of a progress bar in what the client printed."""
    states = list(_COUNT.finditer(output))
    if not states:
        return OfficialClientProgress()
    completed, total = map(int, states[-1].groups())
    errors = _ERRORS.search(states[-1].group())
    failed = int(errors.group(1)) if errors else 0
    return OfficialClientProgress(completed, total, failed)


def _death(status: int, folder: Path) -> Exception:
    """Why the client died, by its last lines. A full disk is no fault of the run: an OSError."""
    how = f"by signal {status - 128}" if status > 128 else f"with status {status}"
    death = f"{OFFICIAL_CLIENT} died {how}"
    for place in filter(_is_full, (folder, _EVENTS_PLACE)):
        return OSError(ENOSPC, f"no space left, {death}; what it wrote is in {folder}", str(place))
    reason = last_words(_tail(folder)) or "it printed nothing"
    return OfficialClientRunError(f"{death}: {reason} ({folder / LOG_FILE})", folder)


def _is_full(place: Path) -> bool:
    try:
        return shutil.disk_usage(place).free < _FULL_BYTES
    except OSError:
        return False


def last_words(output: str) -> str:
    """What a client that died said of it: its last error, or its last lines without the bar."""
    lines = [
        line.strip() for line in re.split(r"[\r\n]+", output) if line.strip() and "it/s" not in line
    ]
    errors = [line.rpartition(" - ERROR - ")[2] for line in lines if " - ERROR - " in line]
    # An exception that nobody caught is its last line.
    died = errors and re.match(r"[\w.]+(Error|Exception|Interrupt)\b", lines[-1])
    words = errors[-1] if errors and not died else " | ".join(lines[-2:])
    return printable(words)[-300:]


def _tail(folder: Path) -> str:
    """The end of what the client printed."""
    try:
        with (folder / LOG_FILE).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
