"""Controls Nsight Systems: records part of a run into the run's folder.

The user starts pytest under `nsys launch`, which prepares the processes and records nothing. The
suite then tells that session when to start, where to write, and when to stop. Source of the
commands: NVIDIA's user guide for Nsight Systems, "interactive CLI command sequences".
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mlperf_suite.errors import RunError, UsageError

SESSION = "mlperf-suite"
"""The required name of the session."""
LAUNCH = f"nsys launch --session-new={SESSION} --trace=cuda,nvtx,osrt"
TRACE = "trace.nsys-rep"
_TIMEOUT_S = 600.0


def check() -> None:
    """Raise UsageError if there is no such session, or nsys does not work."""
    if shutil.which("nsys") is None:
        raise UsageError(
            "--profile-run cuda: Nsight Systems (nsys) is not on the PATH: install it, and start "
            f"pytest as `{LAUNCH} pytest …`"
        )
    try:
        sessions = _run_nsys("sessions", "list")
    except RunError as error:
        raise UsageError(f"--profile-run cuda: Nsight Systems does not work: {error}") from error
    if SESSION not in sessions:
        raise UsageError(
            f"--profile-run cuda: there is no Nsight Systems session {SESSION}: start pytest as "
            f"`{LAUNCH} pytest …`"
        )


def begin(folder: Path) -> None:
    """Record from now on, into `folder`/trace.nsys-rep. Raises RunError."""
    where = ("--output", str(folder / TRACE), "--force-overwrite=true", "--sample=none")
    _run_nsys("start", f"--session={SESSION}", *where)


def end() -> None:
    """Stop recording, and return when nsys has written the trace. Raises RunError."""
    _run_nsys("stop", f"--session={SESSION}")


def traces(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("*.nsys-rep")))


def _run_nsys(*arguments: str) -> str:
    command: Sequence[str] = ("nsys", *arguments)
    try:
        process = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{' '.join(command)}: {error}") from error
    if process.returncode:
        message = " ".join((process.stderr or process.stdout).split())
        raise RunError(f"{' '.join(command)}: {message[-300:] or f'status {process.returncode}'}")
    return process.stdout
