"""Runs a server as long as the process that asked for it lives.

    python -m scripts.launcher PARENT COMMAND ...

The server and everything it started end when PARENT (a process id) is gone, however it ended, when
standard input receives data or is closed, or on SIGTERM. Processes that the server leaves behind
become children of this process, so that none escapes. Exits with the server's status. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

import psutil

from mlperf_suite.engines.hang_detector import end_processes

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.2
PATIENCE_S = 10.0
"""Seconds that a server gets to end when asked, before it and its children are killed."""


def main(parent: int, command: list[str]) -> int:
    """Run the command; return its exit status, or 128 + N if signal N ended it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        while server.poll() is None and os.getppid() == parent and not _told_to_end():
            pass
    finally:
        _end(server)
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server and everything it started."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
    end_processes(psutil.Process().children(recursive=True))


def _told_to_end() -> bool:
    """Whether input or its end arrived; waits a moment for it."""
    return bool(select.select([sys.stdin], [], [], _POLL_S)[0])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
