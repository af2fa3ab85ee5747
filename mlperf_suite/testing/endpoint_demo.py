"""Measure vLLM's own server as any other endpoint: start it, run pytest against it, stop it.

    python -m mlperf_suite.testing.endpoint_demo [PYTEST OPTIONS]

Exits as pytest does. `make endpoint` is the same.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.errors import SuiteError
from mlperf_suite.testing.local_servers import vllm_server

_SELECTED = "(offline or server) and datacenter"
_CANNOT_START = 3
"""pytest's own status for an internal error."""


def main(options: Sequence[str]) -> int:
    """Run the demonstration; pytest's exit status, or 128 and more where a signal ended it."""
    signal.signal(signal.SIGTERM, _end)
    try:
        model = embedded_model_dir()
        print("starting vLLM's own server with the embedded model (a minute)", flush=True)
        with vllm_server(model) as server:
            print(f"vLLM's server is ready: --endpoint {server.url}", flush=True)
            status = _pytest(["-m", _SELECTED, "--endpoint", server.url, *options])
        print("vLLM's server has stopped")
        return status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SuiteError as error:
        print(error, file=sys.stderr)
        return _CANNOT_START


def _pytest(arguments: Sequence[str]) -> int:
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


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
