"""What the demonstrations share: pytest in this terminal, and the end by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

CANNOT_START = 3
"""pytest's own status for an internal error."""


def run_pytest(arguments: Sequence[str]) -> int:
    """pytest in this terminal. Ctrl-C is for it to act on: it keeps what was measured so far."""
    # A function, unlike SIG_IGN, is not inherited by the process that is started.
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
    """End this process as a signal of this number would. What is stopped on the way is stopped to
    the end, though the signal comes again."""
    signal.signal(number, _leave_it)
    sys.exit(128 + number)
