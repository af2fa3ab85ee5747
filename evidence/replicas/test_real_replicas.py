"""Replicas of the real engine, from the command that a user types: alone, and on a Ray cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from meta_tests.features.replicas.nodes import replica_processes
from meta_tests.suite_runs import run_suite, start_suite, still_running, wait_until
from mlperf_suite.results.run_folder import read_summary
from scripts.local_nodes import LocalNodes, local_nodes

OFFLINE = ("-m", "offline and datacenter")


@pytest.fixture
def nodes() -> Iterator[LocalNodes]:
    pytest.importorskip("ray", reason="replicas need Ray: make ray")
    with local_nodes({"node-a": 1, "node-b": 1}) as cluster:
        yield cluster


def test_two_replicas_on_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="replicas need Ray: make ray")
    # The nodes of stand-ins, which other tests of this session share.
    before = set(psutil.Process().children(recursive=True))
    run = run_suite(tmp_path, *OFFLINE, "--replicas", "2", "--scaling")
    assert run.exit_code == 0, run.output
    assert "placement: 2 replicas on 1 node" in run.output
    report = (run.folder / "report.md").read_text()
    assert "Replicas and nodes" in report
    assert "scaling" in report.lower()
    left = set(psutil.Process().children(recursive=True)) - before
    assert not still_running(list(left))


def test_two_nodes_of_a_cluster(tmp_path: Path, nodes: LocalNodes) -> None:
    run = run_suite(tmp_path, *OFFLINE, "--ray", nodes.address, **nodes.variables)
    assert run.exit_code == 0, run.output
    assert "placement: 2 replicas on 2 nodes" in run.output
    assert "node-b" in (run.folder / "report.md").read_text()
    assert not replica_processes(nodes)


@pytest.mark.parametrize(
    ("fault", "exit_code", "reason"), [("Ctrl-C", 2, "interrupted"), ("lost node", 1, "node-b")]
)
def test_a_fault_in_the_middle_ends_the_session(
    tmp_path: Path, nodes: LocalNodes, fault: str, exit_code: int, reason: str
) -> None:
    process = start_suite(tmp_path, *OFFLINE, "--ray", nodes.address, **nodes.variables)
    # Two engines load at the same time.
    log = "2*/Accuracy/mlperf_log_detail.txt"
    wait_until(lambda: bool(list(tmp_path.glob(log))), process, 900)
    replicas = replica_processes(nodes)
    if fault == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)
    else:
        raylet = psutil.Process(nodes.raylets["node-b"])
        for lost in (raylet, *raylet.children(recursive=True)):
            lost.kill()
    # A guard against hanging; Ray takes some seconds to say why.
    output, _ = process.communicate(timeout=120)
    assert process.returncode == exit_code, output
    assert not psutil.wait_procs(replicas, timeout=120)[1]
    (folder,) = tmp_path.glob("2*")
    summary = read_summary(folder)
    assert summary is not None
    assert summary.meta.status == "failed"
    assert reason in (summary.meta.reason or "")
    assert "Traceback" not in output
