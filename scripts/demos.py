"""Start servers or nodes on this machine, run pytest against them, stop them.

    python -m scripts.demos endpoint|curve|cluster [PYTEST OPTIONS]
    python -m scripts.demos serve [--model FOLDER] [--port N] [OPTIONS OF VLLM'S SERVER]

`endpoint`: vLLM's own server, measured like any other endpoint; `curve`: its curve. `cluster`: two
Ray nodes, each with one core and one replica of the real engine with the embedded model; it
compares one replica with both, and runs Offline and Server on both. Exits with pytest's status.
`serve`: vLLM's own server alone, until Ctrl-C, to measure from another terminal.
`make endpoint`, `make curve`, `make cluster` and `make serve` do the same.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import FrameType
from typing import NoReturn

from mlperf_suite.errors import EngineError, SuiteError, UsageError
from scripts.local_nodes import local_nodes
from scripts.local_servers import last_words, vllm_server

_CANNOT_START, _USAGE = 3, 4
"""pytest's exit status for an internal error and for a wrong command."""
_BOTH = "(offline or server) and datacenter"
"""Without the edge benchmark, whose Offline would otherwise be the latest result."""


@contextlib.contextmanager
def _endpoint(selection: str = _BOTH) -> Iterator[list[str]]:
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
        selected = ["-m", f"{_BOTH} and performance"]
        yield [*selected, "--ray", nodes.address, "--replicas", "2", "--scaling"]
    print("the Ray nodes have stopped")


def _serve(words: Sequence[str]) -> int:
    """Run vLLM's server until Ctrl-C. Raises EngineError if it ends by itself."""
    parser = argparse.ArgumentParser("make serve", add_help=False, allow_abbrev=False)
    parser.add_argument("--model")
    parser.add_argument("--port", type=int, default=8000)
    ours, arguments = parser.parse_known_args(words)
    print(f"starting vLLM's own server with {ours.model or 'the embedded model'}", flush=True)
    try:
        with vllm_server(ours.model, arguments, ours.port) as server:
            options = ["--endpoint", server.url, *(["--model", ours.model] if ours.model else [])]
            print("vLLM's server is ready; Ctrl-C ends it. To measure it, in another terminal:")
            print(
                f'\n    .venv/bin/pytest -m "{_BOTH}" {shlex.join(options)}\n',
                flush=True,
            )
            server.launcher.wait()
            raise EngineError(f"vLLM's server ended: {last_words(server.log_file)}")
    except KeyboardInterrupt:
        print("\nvLLM's server has stopped")
        return 0


_DEMOS: dict[str, Callable[[], AbstractContextManager[list[str]]]] = {
    "endpoint": _endpoint,
    "curve": partial(_endpoint, "curve"),
    "cluster": _cluster,
}


def main(name: str, options: Sequence[str]) -> int:
    """Run a demonstration; return pytest's exit status, or 128 + N if signal N ended it."""
    if name not in {*_DEMOS, "serve"}:
        print(f"usage: demos {'|'.join(_DEMOS)}|serve [OPTIONS]", file=sys.stderr)
        return _USAGE
    signal.signal(signal.SIGTERM, _end)
    try:
        if name == "serve":
            return _serve(options)
        with _DEMOS[name]() as measuring:
            return run_pytest([*measuring, *options])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SuiteError as error:
        print(error, file=sys.stderr)
        return _USAGE if isinstance(error, UsageError) else _CANNOT_START


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
