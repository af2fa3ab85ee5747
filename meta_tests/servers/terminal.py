"""Shared by the demonstrations: running pytest in this terminal, and ending by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

CANNOT_START = 3
"""pytest's exit status for an internal error."""


def run_pytest(arguments: Sequence[str]) -> int:
    """Run pytest in this terminal. pytest handles Ctrl-C: it keeps what was measured so far."""
    # Unlike SIG_IGN, a handler function is not inherited by the started process.
    before = signal.signal(signal.SIGINT, _leave_it)
    process = subprocess.Popen([sys.executable, "-m", "pytest", *arguments])
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        if process.poll() is None:
            process.terminate()
            process.wait()


def _leave_it(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


def end(number: int, frame: FrameType | None) -> NoReturn:
    """End this process as a signal of this number would. Cleanup on the way out completes even if
    the signal arrives again."""
    signal.signal(number, _leave_it)
    sys.exit(128 + number)
