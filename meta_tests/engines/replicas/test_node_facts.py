"""What a node tells of itself, and what a process leaves behind when it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

import mlperf_suite
from mlperf_suite.engines.replicas.node_facts import look_around, suite_version


def model(folder: Path, weights: bytes = b"w" * 5_000_000) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 8}')
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_a_node_tells_of_its_model(tmp_path: Path) -> None:
    facts, other_facts = (look_around(str(model(tmp_path / name))) for name in ("a", "b"))
    tuned = look_around(str(model(tmp_path / "tuned", b"v" * 5_000_000)))
    assert facts.weights == 5_000_000
    assert facts.model == other_facts.model != tuned.model


def test_a_model_that_is_not_there_has_no_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    names = [str(tmp_path / "nothing"), str(tmp_path / "empty")]
    for name in [*names, "owner/no-such-model-was-ever-fetched", "no repository at all!"]:
        facts = look_around(name)
        assert (facts.model, facts.weights) == (None, None)


def test_a_node_tells_of_its_cores_and_versions() -> None:
    facts = look_around("")
    assert facts.cores
    assert facts.suite == suite_version()
    assert facts.suite.startswith(f"{mlperf_suite.__version__} (")
    assert facts.vllm is not None


_PARENT = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from mlperf_suite.engines.replicas.actor import start_guard
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
