"""Runs the official client as long as the process that started this one lives.

    python -m mlperf_suite.features.endpoints.official_client.guard PATIENCE_S COMMAND ...

When standard input is closed, which the end of the starting process does, the client is interrupted
as Ctrl-C does it, so that it writes what it has; after PATIENCE_S it and everything that it started
are ended. Processes that it leaves behind become children of this one. Exits with its status.
"""

from __future__ import annotations

import contextlib
import ctypes
import select
import signal
import subprocess
import sys
import time

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.1
_TERM_S = 3.0
"""How long processes have to end after SIGTERM, in s."""


def main(patience_s: float, folder: str, command: list[str]) -> int:
    """Run the command in a folder; return its exit status, or 128 + N if signal N ended it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(128))
    with contextlib.suppress(AttributeError):
        # Linux; elsewhere what left its parent is not found.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    client = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)
    try:
        # Until standard input ends; each look waits a moment for that.
        while client.poll() is None and not select.select([sys.stdin], [], [], _POLL_S)[0]:
            pass
        _interrupt(client, patience_s)
    finally:
        _end_children()
    status = client.wait()
    return status if status >= 0 else 128 - status


def _interrupt(client: subprocess.Popen[bytes], patience_s: float) -> None:
    """Give the client time to write what it has; nothing if it has ended."""
    if client.poll() is not None:
        return
    client.send_signal(signal.SIGINT)
    limit = time.monotonic() + patience_s
    while client.poll() is None and time.monotonic() < limit:
        time.sleep(_POLL_S)


def _end_children() -> None:
    """End everything below this process: asked first, then killed."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.terminate()
    _, stubborn = psutil.wait_procs(children, timeout=_TERM_S)
    # A stubborn one may have started more in the meantime.
    for child in {*stubborn, *psutil.Process().children(recursive=True)}:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(stubborn, timeout=_TERM_S)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
