"""Ends what a process leaves behind, however it ends: run as a program beside it.

    python guard.py GROUP

Waits for the end of its standard input, which comes with that of the process that holds the other
side, and then ends every process of the group. Imports nothing of the suite.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

_PATIENCE_S = 3.0
_LOOK_S = 0.1


def start_guard() -> int:
    """Make this process's group its own, and have a guard end it when this process ends.

    Returns the file descriptor that must stay open until then. Children belong to the group, unless
    they leave it.
    """
    group = os.getpid()
    if os.getpgid(0) != group:
        os.setpgid(0, group)
    theirs, ours = os.pipe()
    try:
        subprocess.Popen(
            # -S -E: started once for each replica, and it needs nothing.
            [sys.executable, "-I", "-S", __file__, str(group)],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    return ours


def _end(group: int) -> None:
    # A signal to nobody raises: then nothing is left.
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    _end(int(sys.argv[1]))
