"""Start servers or nodes on this machine, run pytest against them, stop them.

    python -m scripts.demos endpoint|curve|cluster [PYTEST OPTIONS]

`endpoint`: vLLM's own server, measured like any other endpoint; `curve`: its curve. `cluster`: two
Ray nodes, each with one core and one replica of the real engine with the embedded model; it
compares one replica with both, and runs Offline and Server on both. Exits with pytest's status.
`make endpoint`, `make curve` and `make cluster` do the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import FrameType
from typing import NoReturn

from meta_tests.servers.local_nodes import local_nodes
from mlperf_suite.errors import SuiteError
from scripts.local_servers import vllm_server

_CANNOT_START, _USAGE = 3, 4
"""pytest's exit status for an internal error and for a wrong command."""


@contextlib.contextmanager
def _endpoint(selection: str = "(offline or server) and datacenter") -> Iterator[list[str]]:
    """Run vLLM's server; yields the options that measure it."""
    print("starting vLLM's own server with the embedded model (a minute)", flush=True)
    with vllm_server() as server:
        print(f"vLLM's server is ready: --endpoint {server.url}", flush=True)
        yield ["-m", selection, "--endpoint", server.url]
    print("vLLM's server has stopped")


@contextlib.contextmanager
def _cluster() -> Iterator[list[str]]:
    """Run two Ray nodes; yields the options that measure replicas on them."""
    print("starting two Ray nodes of one core each on this machine", flush=True)
    with local_nodes({"node-a": 1, "node-b": 1}) as nodes:
        print(f"the nodes are ready: --ray {nodes.address}", flush=True)
        os.environ.update(nodes.variables)
        selected = ["-m", "(offline or server) and datacenter and performance"]
        yield [*selected, "--ray", nodes.address, "--replicas", "2", "--scaling"]
    print("the Ray nodes have stopped")


_DEMOS: dict[str, Callable[[], AbstractContextManager[list[str]]]] = {
    "endpoint": _endpoint,
    "curve": partial(_endpoint, "curve"),
    "cluster": _cluster,
}


def main(name: str, options: Sequence[str]) -> int:
    """Run a demonstration; return pytest's exit status, or 128 + N if signal N ended it."""
    if name not in _DEMOS:
        print(f"usage: demos {'|'.join(_DEMOS)} [PYTEST OPTIONS]", file=sys.stderr)
        return _USAGE
    signal.signal(signal.SIGTERM, _end)
    try:
        with _DEMOS[name]() as measuring:
            return run_pytest([*measuring, *options])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SuiteError as error:
        print(error, file=sys.stderr)
        return _CANNOT_START


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


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End this process as the signal would. Cleanup on the way out completes even if the signal
    arrives again."""
    signal.signal(number, _leave_it)
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if sys.argv[1:] else "", sys.argv[2:]))
