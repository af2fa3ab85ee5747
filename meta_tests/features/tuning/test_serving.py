"""Trials on servers that a command template starts: what a server may do wrong, and who is left."""

import shlex
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from pytest import MonkeyPatch

from meta_tests.features.tuning.scripted_runs import is_gone
from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning import serving
from mlperf_suite.features.tuning.serving import ServerTemplate, run_served
from mlperf_suite.features.tuning.space import Settings, Trial
from mlperf_suite.features.tuning.target import TARGETS, TuneTarget
from mlperf_suite.features.tuning.trial_run import Command, EarlyEndCheck, MeasuredTrial

SERVER = """
import http.server, pathlib, subprocess, sys, time
port, folder, how = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
(folder / "flags").write_text(" ".join(sys.argv[4:]))
if how == "crash":
    raise SystemExit("CUDA out of memory")
if how == "hang":
    time.sleep(600)
if how == "leaves":
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    (folder / "child").write_text(str(child.pid))
if how == "mumbles":
    import socket
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        peer = listener.accept()[0]
        peer.recv(1000)
        peer.sendall(b"220 mail.example ESMTP\\r\\n")
        peer.close()
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Page).serve_forever()
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path, {"max_num_seqs": 16, "fast": True}, (), ("--model=x",), 600)


@pytest.fixture
def asked(monkeypatch: MonkeyPatch) -> list[str]:
    """What the suite would have been called with."""
    options: list[str] = []

    def run_trial(
        command: Command, target: TuneTarget, watch: EarlyEndCheck, *, engine: bool
    ) -> MeasuredTrial:
        assert not engine
        options.extend(command.options)
        return MeasuredTrial(Trial(command.settings, 100.0), command.folder.name)

    monkeypatch.setattr(serving, "run_trial", run_trial)
    monkeypatch.setattr(serving, "_CHILDREN_S", 0.3)
    monkeypatch.setattr(serving, "_POLL_S", 0.1)
    return options


def template(folder: Path, how: str) -> ServerTemplate:
    (folder / "server.py").write_text(SERVER)
    return ServerTemplate(f"{sys.executable} {folder}/server.py {{port}} {folder} {how} {{flags}}")


def measured(command: Command, how: str) -> MeasuredTrial:
    return run_served(template(command.folder, how), command, TARGETS["offline"])


def test_a_server_is_started_and_ended(command: Command, asked: list[str]) -> None:
    assert measured(command, "well").trial.rate == 100
    assert (command.folder / "flags").read_text() == "--max-num-seqs 16 --fast"
    assert asked[0] == "--model=x"
    assert asked[1].startswith("--endpoint=http://127.0.0.1:")
    assert not [p for p in psutil.Process().children() if "server.py" in " ".join(p.cmdline())]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("crash", "the server ended with status 1: CUDA out of memory"),
        ("hang", "the server was not ready after 1 s"),
        # Its port answers in another protocol.
        ("mumbles", "the server was not ready after 1 s"),
    ],
)
def test_a_server_that_does_not_start_is_a_failed_trial(
    command: Command, asked: list[str], monkeypatch: MonkeyPatch, how: str, reason: str
) -> None:
    monkeypatch.setattr(serving, "_START_S", 300.0 if how == "crash" else 1.0)
    assert measured(command, how).trial.reason.startswith(reason)
    assert not asked


def test_a_server_that_leaves_processes_fails(command: Command, asked: list[str]) -> None:
    trial = measured(command, "leaves").trial
    assert trial.rate is None
    assert trial.reason == "the server left processes behind: sleep"
    assert is_gone(int((command.folder / "child").read_text()))
    trial = run_served(ServerTemplate("/no/such {flags} {port}"), command, TARGETS["offline"]).trial
    assert trial.reason.startswith("the server's command cannot be started")


def test_an_interrupted_tuning_ends_its_server(command: Command, asked: list[str]) -> None:
    def stop() -> None:
        while not (command.folder / "flags").exists():
            time.sleep(0.05)
        command.stopped.set()

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        measured(command, "hang")
    assert not [p for p in psutil.Process().children() if "server.py" in " ".join(p.cmdline())]


def test_flags_in_a_script_are_quoted_for_its_shell() -> None:
    settings: Settings = {"a": "it's $x", "b": True}
    text = "sh -c 'exec serve m {flags} --port {port}'"
    words = ServerTemplate(text).command(settings, "80")
    assert words[:2] == ["sh", "-c"]
    assert shlex.split(words[2]) == ["exec", "serve", "m", "--a", "it's $x", "--b", "--port", "80"]


@pytest.mark.parametrize(
    "text",
    [
        *("vllm serve m", "vllm serve m {flags}", "a {flags} {port} 'b"),
        *("a {flags} {port} | tee log", "a {flags} {port} 2>&1", "A=1 a {flags} {port}"),
    ],
)
def test_a_template_that_starts_no_server_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--serve"):
        ServerTemplate(text).check()


def test_the_command_to_paste_leaves_the_port_open() -> None:
    settings: Settings = {"OMP_X": "0,1", "a_b": 2}
    text = "vllm serve '/m y' {flags} --port {port}"
    line = "OMP_X=0,1 vllm serve '/m y' --a-b 2 --port PORT"
    assert ServerTemplate(text).line(settings) == line
