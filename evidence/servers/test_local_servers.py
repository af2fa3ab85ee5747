"""Servers on this machine: they are ready when the block begins and gone when it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from evidence.servers import other_servers
from meta_tests.suite_runs import ROOT, still_running
from mlperf_suite.errors import EngineError, UsageError
from scripts.local_servers import free_port, local_server

_SERVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], {options})
from http.server import HTTPServer, SimpleHTTPRequestHandler
HTTPServer(("127.0.0.1", int(sys.argv[1])), SimpleHTTPRequestHandler).serve_forever()
"""
"""A server with a child of its own."""


def command(code: str, port: int) -> list[str]:
    return [sys.executable, "-c", code, str(port)]


def test_leaving_the_block_ends_the_server_and_a_child_that_escapes() -> None:
    port = free_port()
    server = command(_SERVES.format(options="start_new_session=True"), port)
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


_HOLDS = """
import sys, time
from scripts.local_servers import local_server
port = int(sys.argv[1])
with local_server("s", [sys.executable, "-c", sys.argv[2], sys.argv[1]], port=port, ready="/") as s:
    print(s.launcher.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_process_that_asked(number: signal.Signals) -> None:
    port = str(free_port())
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, port, _SERVES.format(options="start_new_session=True")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
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
    monkeypatch.setattr(other_servers, "LLAMA_CPP_PYTHON", tmp_path / "python")
    with pytest.raises(UsageError, match="make stacks"), other_servers.llama_cpp_server():
        pytest.fail("there is nothing to start")


def test_nothing_is_left_when_the_parent_is_killed() -> None:
    program = (
        "from meta_tests.features.servers.stand_in_server import stand_in_server\n"
        "with stand_in_server() as server:\n"
        "    print(server.process.pid, flush=True)\n"
        "    input()\n"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program]
    parent = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))
    assert still_running([server])
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    psutil.wait_procs([server], timeout=120)
    assert still_running([server]) == []
