"""Ends what a process leaves behind, however it ends; runs as a separate program.

    python guard.py GROUP

Waits for the end of its standard input, which comes when the process that holds the other side
ends, and then ends every process of the group. Imports nothing from the suite.
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
    """Make this process the leader of its own group, and start a guard that ends the group with it.

    Returns a file descriptor that must stay open. Children belong to the group, unless they leave
    it, and end with it.
    """
    group = os.getpid()
    if os.getpgid(0) != group:
        os.setpgid(0, group)
    read_end, write_end = os.pipe()
    try:
        subprocess.Popen(
            # -S: it is started once for each replica and needs no site packages.
            [sys.executable, "-I", "-S", __file__, str(group)],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(read_end)
    return write_end


def _end(group: int) -> None:
    # Signalling an empty group raises OSError: nothing is left.
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
