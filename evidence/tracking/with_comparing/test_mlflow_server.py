"""A team's day with a real MLflow server on SQLite: uploads, the gate, a server that goes away."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ci import gate
from evidence.from_elsewhere import MLFLOW, needs_mlflow
from meta_tests.suite_runs import run_suite
from mlperf_suite.__main__ import main
from mlperf_suite.features.tracking.plugin import send_results
from mlperf_suite.features.tracking.trackers import TrackingTarget
from mlperf_suite.results.run_folder import write_json

pytestmark = needs_mlflow
OFFLINE = (
    *("-m", "offline and datacenter and (accuracy or performance)", "--warmup=0"),
    *("--offline-target-qps=8.4", "-p", "meta_tests.stand_in_plugin", "--track=mlflow"),
)
DAYS = 10


class Server:
    """MLflow in a folder: it may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [
            *(str(MLFLOW), "server", "--host=127.0.0.1", f"--port={self.port}", "--workers=1"),
            f"--backend-store-uri=sqlite:///{self.folder}/mlflow.db",
            f"--artifacts-destination={self.folder}/artifacts",
        ]
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, env=os.environ | quiet, start_new_session=True
            )
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health"):
                return
            assert self._process.poll() is None, (self.folder / "server.log").read_text()
            time.sleep(0.5)

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def runs(self, experiment: str) -> list[Any]:
        from mlflow.tracking import MlflowClient

        client = MlflowClient(self.url)
        found = client.get_experiment_by_name(experiment)
        return list(client.search_runs([found.experiment_id])) if found else []


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    server.start()
    yield server
    server.kill()


def test_a_day_of_a_team(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "nightly")
    # A session's result, and from it those of two systems over ten days.
    own = run_suite(tmp_path / "own", *OFFLINE, STAND_IN='{"delays_s": [0, 10.2]}')
    assert f"\ntrack: {server.url}/#/experiments/" in own.output
    (first,) = server.runs("nightly")
    team = tmp_path / "team"
    for system in ("CPU A", "CPU B"):
        for day in range(1, DAYS + 1):
            copy_result(own.folder, team, system, day)
    # The server goes away in the middle of the upload.
    uploading = threading.Thread(target=main, args=(["track", str(team)],))
    uploading.start()
    while sum(run.info.status == "FINISHED" for run in server.runs("nightly")) < 1 + DAYS // 2:
        time.sleep(0.2)
    server.kill()
    uploading.join()
    assert "not sent: the server does not answer" in capsys.readouterr().out
    server.start()
    for _ in range(2):
        assert main(["track", str(team)]) == 0
        assert f"track: {2 * DAYS} of {2 * DAYS} results are kept" in capsys.readouterr().out
    runs = server.runs("nightly")
    assert len(runs) == 1 + 2 * DAYS and {run.info.status for run in runs} == {"FINISHED"}
    assert len({run.data.tags["mlperf.checksum"] for run in runs}) == len(runs)
    assert all("performance/tokens_per_sec" in run.data.metrics for run in runs)
    # The gate takes this machine's, although others are newer, and the server goes away meanwhile.
    gated = run_suite(
        tmp_path / "own",
        *OFFLINE,
        "--baseline=mlflow:nightly@last-good",
        "-p",
        "evidence.tracking.server_that_goes",
        STAND_IN='{"delays_s": [0, 10.2]}',
        SERVER_GROUP=str(server._process.pid if server._process else 0),
    )
    assert gated.exit_code == 0, gated.output
    regression = gated.summary.regression
    assert regression and regression.baseline == f"mlflow:nightly@{first.info.run_id}"
    assert {c.metric for c in regression.metrics} >= {"tokens_per_sec", "rouge1"}
    rouge = regression.of("rouge1")
    assert rouge and rouge.noise_from == "the same samples"
    assert "track: mlflow: the server does not answer: 1 queued" in gated.output
    server.kill()
    server.start()
    assert main(["track", str(tmp_path / "own")]) == 0
    assert len(server.runs("nightly")) == 2 + 2 * DAYS
    assert not (tmp_path / "own" / ".track-queue").exists()
    # The newest results of all nodes: the two systems', and this machine's.
    capsys.readouterr()
    nodes = tmp_path / "nodes.json"
    files = (f"--json={nodes}", f"--plot={tmp_path}/nodes.png", f"--html={tmp_path}/nodes.html")
    assert main(["compare", "mlflow:nightly", *files]) == 0
    machines = [run.get("node_name") for run in json.loads(nodes.read_text())["runs"]]
    assert sorted(filter(None, machines)) == ["CPU A", "CPU B"] and len(machines) == 3


def test_ten_nodes_in_one_experiment_are_compared_by_one_command(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "ten-nodes")
    own = run_suite(tmp_path / "own", *OFFLINE, "--track=off", STAND_IN='{"delays_s": [0, 10.2]}')
    names = [f"node-{number:02}" for number in range(10)]
    for day in (1, 2):
        for node in names:
            copy_result(own.folder, tmp_path / node, node, day)
    assert main(["track", *(str(tmp_path / node) for node in names)]) == 0
    capsys.readouterr()
    files = (f"--json={tmp_path}/nodes.json", f"--plot={tmp_path}/nodes.png")
    assert main(["compare", "mlflow:ten-nodes", *files]) == 0
    compared = json.loads((tmp_path / "nodes.json").read_text())
    assert [run["name"] for run in compared["runs"]] == names
    assert {run["started"][:10] for run in compared["runs"]} == {"2099-11-02"}
    said = " ".join(capsys.readouterr().out.split())
    assert "| 10 | node-09 (" in said and "What differs between run 1 and run 10" in said


class Job:
    """A CI job: its variables, and a session of the stand-in in place of the GPU's."""

    def __init__(self, folder: Path, **variables: str) -> None:
        told = {"OUT": str(folder), "BASELINES": "mlflow:gate@last-good", "PROFILE": "smoke"}
        told |= {"REPEAT": "1", "KEEP": "true", **variables}
        self.job = gate.Job.of({f"MLPERF_{name}": value for name, value in told.items()})

    def measure(self) -> int:
        return gate.measure(self.job, self._run)

    def table(self) -> str:
        return (self.job.out / "table.md").read_text()

    def _run(self, command: Sequence[str], into: Path | None) -> int:
        if "pytest" not in command:
            return gate._run(command, into)
        session = ["-p", "meta_tests.stand_in_plugin", "--warmup=0", "--offline-target-qps=8.4"]
        return gate._run([*command, *session, "-k", "not test06"], into)


def test_a_ci_job_keeps_its_baselines_there_and_passes_nothing_without_the_server(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", '{"delays_s": [0, 10.2]}')
    monkeypatch.setattr(gate, "GATES", ("offline",))
    first = Job(tmp_path / "first")
    assert first.measure() == 0, first.table()
    assert "no last-good baseline of offline in mlflow:gate" in first.table()
    assert not server.runs("mlperf-suite") and not server.runs("gate")
    assert gate.keep(first.job) == 0
    (kept,) = server.runs("gate")
    assert kept.data.tags["mlperf.pinned"] == "true"
    second = Job(tmp_path / "second")
    assert second.measure() == 0, second.table()
    assert "Against the pinned baseline:" in second.table()
    assert kept.info.run_name in second.table()
    server.kill()
    third = Job(tmp_path / "third")
    assert third.measure() == 2
    assert "Nothing was measured: mlflow:gate: the server does not answer" in third.table()
    assert gate.keep(second.job) == 2


def copy_result(folder: Path, team: Path, system: str, day: int) -> None:
    """The result as one of another day and system."""
    name = f"202611{day:02}-{'12' if system == 'CPU A' else '13'}0000-llama3.1-8b-offline"
    shutil.copytree(folder, team / name)
    text = (folder / "summary.json").read_text()
    content = json.loads(text)
    content["meta"]["started"] = f"2099-11-{day:02}T12:00:00+00:00"
    content["meta"]["node_name"] = content["system"]["cpu"] = system
    write_json(team / name / "summary.json", content)


class Refusing(BaseHTTPRequestHandler):
    """Answers with the status that its port's server has: MLflow forbids, or a proxy is full."""

    def do_GET(self) -> None:
        status = self.server.status  # type: ignore[attr-defined]
        forbidden = {"error_code": "PERMISSION_DENIED", "message": "not for you"}
        body = json.dumps(forbidden).encode() if status == 403 else b"Insufficient Storage"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, *_: object) -> None:
        pass


def sent_to(port: int, results: Path) -> str:
    """The line about a result that is sent to a tracker at this port."""
    (results / "one").mkdir(parents=True)
    write_json(results / "one" / "summary.json", {"meta": {"status": "complete"}})
    target = TrackingTarget("mlflow", f"http://127.0.0.1:{port}", "team")
    (line,) = send_results([results / "one"], target, results, 600.0)
    return line


@pytest.mark.parametrize(("status", "fault"), [(403, "not for you"), (507, "507")])
def test_a_tracker_that_refuses_costs_a_line(tmp_path: Path, status: int, fault: str) -> None:
    with HTTPServer(("127.0.0.1", 0), Refusing) as http:
        http.status = status  # type: ignore[attr-defined]
        threading.Thread(target=http.serve_forever, daemon=True).start()
        line = sent_to(http.server_port, tmp_path)
        http.shutdown()
    assert fault in line and "1 queued" in line and "\n" not in line


def test_a_tracker_that_says_nothing_costs_its_time(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        line = sent_to(silent.getsockname()[1], tmp_path)
    assert "the server does not answer: 1 queued" in line
