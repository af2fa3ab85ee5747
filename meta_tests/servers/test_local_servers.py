"""Servers on this machine: they are ready when the block begins and gone when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from meta_tests.servers import demos, local_servers
from meta_tests.servers.local_servers import free_port, local_server, vllm_server
from meta_tests.suite_runs import ROOT, hear_ctrl_c, still_running, wait_until
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.errors import EngineError, UsageError

_SERVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], {options})
from http.server import HTTPServer, SimpleHTTPRequestHandler
HTTPServer(("127.0.0.1", int(sys.argv[1])), SimpleHTTPRequestHandler).serve_forever()
"""
"""A server with a child of its own."""
_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def command(code: str, port: int) -> list[str]:
    return [sys.executable, "-c", code, str(port)]


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(_SERVES.format(options=""), id="plain"),
        pytest.param(_SERVES.format(options="start_new_session=True"), id="child escapes"),
        pytest.param(_DEAF + _SERVES.format(options=""), id="deaf to SIGTERM"),
    ],
)
def test_leaving_the_block_ends_the_server_and_its_children(code: str) -> None:
    port = free_port()
    server = command(code, port)
    with (
        pytest.raises(KeyboardInterrupt),
        local_server("the server", server, port=port, ready="/") as running,
    ):
        family = [running.launcher, *running.launcher.children(recursive=True)]
        assert len(family) == 3
        raise KeyboardInterrupt
    assert still_running(family) == []
    assert not running.log_file.exists()


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    failing = command("print('loading'); raise ValueError('no such model')", 0)
    with (
        pytest.raises(EngineError) as caught,
        local_server("the server", failing, port=free_port(), ready="/", log_file=log),
    ):
        pytest.fail("it was never ready")
    message = f"the server ended while it started: ValueError: no such model (see {log})"
    assert str(caught.value) == message


def test_a_server_that_is_not_ready_in_time_is_stopped(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "print('reading weights', flush=True); time.sleep(600)"
    )
    with (
        pytest.raises(EngineError, match="was not ready within 2 s: reading weights"),
        local_server("the server", command(code, 0), port=free_port(), ready="/", start_s=2),
    ):
        pytest.fail("it was never ready")
    assert not psutil.pid_exists(int(note.read_text()))


def test_an_answer_other_than_200_is_not_ready() -> None:
    port = free_port()
    server = command(_SERVES.format(options=""), port)
    with (
        pytest.raises(EngineError, match="was not ready within 2 s"),
        local_server("the server", server, port=port, ready="/health", start_s=2),
    ):
        pytest.fail("it was never ready")


_HOLDS = """
import sys, time
from meta_tests.servers.local_servers import local_server
port = int(sys.argv[1])
with local_server("s", [sys.executable, "-c", sys.argv[2], sys.argv[1]], port=port, ready="/") as s:
    print(s.launcher.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_process_that_asked(number: signal.Signals) -> None:
    port = str(free_port())
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, port, _SERVES.format(options="start_new_session=True")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=hear_ctrl_c,  # noqa: PLW1509 - it takes no lock
    )
    assert holder.stdout is not None
    launcher = psutil.Process(int(holder.stdout.readline()))
    family = [launcher, *launcher.children(recursive=True)]
    assert len(family) == 3
    holder.send_signal(number)
    holder.wait(60)
    holder.stdout.close()
    psutil.wait_procs(family, timeout=60)
    assert still_running(family) == []


def test_llama_cpp_is_no_part_of_the_base_set_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local_servers, "LLAMA_CPP_PYTHON", tmp_path / "python")
    with pytest.raises(UsageError, match="make stacks"), local_servers.llama_cpp_server():
        pytest.fail("there is nothing to start")


@pytest.mark.slow
def test_vllms_server_answers_and_stops() -> None:
    with vllm_server() as server:
        family = [server.launcher, *server.launcher.children(recursive=True)]
        (card,) = get(f"{server.url}/v1/models")["data"]
        assert card["id"] == card["root"] == server.model == str(embedded_model_dir())
        assert "version" in get(f"{server.url}/version")
    assert still_running(family) == []


@pytest.mark.slow
def test_vllms_server_says_why_it_does_not_start() -> None:
    with (
        pytest.raises(EngineError, match=r"^vLLM's server ended while it started: .*max_model_len"),
        vllm_server(arguments=["--max-model-len", "10000000"]),
    ):
        pytest.fail("it was never ready")


@pytest.mark.parametrize("name", ["endpoint", "cluster"])
def test_a_demonstration_passes_the_users_options_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, nodes = (
        SimpleNamespace(url="http://here"),
        SimpleNamespace(address="here", variables={}),
    )
    monkeypatch.setattr(demos, "vllm_server", lambda: nullcontext(server))
    monkeypatch.setattr(demos, "local_nodes", lambda cores: nullcontext(nodes))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    run_pytest = Mock(return_value=5)
    monkeypatch.setattr(demos, "run_pytest", run_pytest)
    assert demos.main(name, ["--smoke"]) == 5
    *options, last = run_pytest.call_args.args[0]
    assert last == "--smoke" and len(set(options)) == len(options)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_demonstration_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C goes to the group, as a terminal sends it; SIGKILL to the demonstration alone."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "meta_tests.servers.demos", "endpoint", "--results-dir", tmp_path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=hear_ctrl_c,  # noqa: PLW1509 - it takes no lock
    )
    wait_until(lambda: bool(list(tmp_path.glob("2*/Accuracy/mlperf_log_detail.txt"))), demo)
    family = psutil.Process(demo.pid).children(recursive=True)
    if number == signal.SIGINT:
        os.killpg(demo.pid, number)
    else:
        demo.send_signal(number)
    output, _ = demo.communicate(timeout=120)
    assert demo.returncode == (2 if number == signal.SIGINT else -signal.SIGKILL), output
    deadline = time.monotonic() + 120
    while still_running(family) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert still_running(family) == []


@pytest.mark.parametrize("name", ["", "endpoints"])
def test_an_unknown_demonstration_is_a_line_that_names_the_others(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demos.main(name, []) == 4
    assert "endpoint|curve|cluster" in capsys.readouterr().err
