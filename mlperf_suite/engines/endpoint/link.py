"""The engine's end of a client process and its socket."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from mlperf_suite.engines.endpoint.messages import Hello
from mlperf_suite.engines.frames import Frames, frame


class Link:
    """One client process and the socket to it."""

    def __init__(self, hello: Hello, log_file: Path | None) -> None:
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.enter_context(theirs)
            log = (
                subprocess.DEVNULL if log_file is None else stack.enter_context(log_file.open("ab"))
            )
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "mlperf_suite.engines.endpoint.client",
                    str(theirs.fileno()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.socket = ours
        self.frames = Frames()
        self._sending = threading.Lock()
        self.send(hello)

    def send(self, message: object) -> None:
        """Raises OSError if the process is gone."""
        with self._sending:
            self.socket.sendall(frame(message))

    def cpu_s(self) -> float:
        """The CPU time that the process used so far, in s."""
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self.process.pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

    def close(self) -> None:
        """Close the socket, which ends the process."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
