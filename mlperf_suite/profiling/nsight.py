"""Nsight Systems around a part of a run, so that its trace lies where the suite wants it.

The user starts pytest under `nsys launch`, which prepares the processes and records nothing; the
suite tells that session when to begin, where to write, and when to end. The commands are those of
NVIDIA's user guide for Nsight Systems, "interactive CLI command sequences".
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mlperf_suite.errors import RunError, UsageError

SESSION = "mlperf-suite"
"""The name that the session must have."""
LAUNCH = f"nsys launch --session-new={SESSION} --trace=cuda,nvtx,osrt"
TRACE = "trace.nsys-rep"
_TIMEOUT_S = 600.0


def check() -> None:
    """Raise UsageError where there is no session to tell."""
    if shutil.which("nsys") is None:
        raise UsageError(
            "--profile-run cuda: Nsight Systems (nsys) is not on the PATH: install it, and start "
            f"pytest as `{LAUNCH} pytest …`"
        )
    if SESSION not in _told("sessions", "list"):
        raise UsageError(
            f"--profile-run cuda: there is no Nsight Systems session {SESSION}: start pytest as "
            f"`{LAUNCH} pytest …`"
        )


def begin(folder: Path) -> None:
    """Record from now on, into `folder`/trace.nsys-rep. Raises RunError."""
    where = ("--output", str(folder / TRACE), "--force-overwrite=true", "--sample=none")
    _told("start", f"--session={SESSION}", *where)


def end(folder: Path) -> tuple[Path, ...]:
    """Stop recording; the trace, once nsys has written it. Raises RunError."""
    _told("stop", f"--session={SESSION}")
    return tuple(sorted(folder.glob("*.nsys-rep")))


def _told(*arguments: str) -> str:
    command: Sequence[str] = ("nsys", *arguments)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise RunError(f"{' '.join(command)}: {said[-300:] or f'status {done.returncode}'}")
    return done.stdout
