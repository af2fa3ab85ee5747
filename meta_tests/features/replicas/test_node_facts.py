"""What a node tells of itself, and what a process leaves behind when it is killed."""

import subprocess
import sys
from pathlib import Path

import psutil

import mlperf_suite
from meta_tests.engines.model_folder import SIZE, model
from mlperf_suite.engines.model_files import model_files_sha256
from mlperf_suite.features.replicas.nodes import node_facts, suite_version


def test_a_node_tells_of_its_cores_versions_and_model(tmp_path: Path) -> None:
    folder = str(model(tmp_path / "model"))
    facts = node_facts(folder)
    assert (facts.weights, facts.model) == (SIZE, model_files_sha256(folder))
    assert facts.cores
    assert facts.suite == suite_version()
    assert facts.suite.startswith(f"{mlperf_suite.__version__} (")
    assert facts.vllm is not None


_PARENT = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from mlperf_suite.features.replicas.actor import start_guard
held = start_guard()
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_started_is_ended() -> None:
    root = str(Path(mlperf_suite.__file__).parent.parent)
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    assert child.is_running()
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs([child], 30)
    assert not alive or child.status() == psutil.STATUS_ZOMBIE
