"""What a node tells of itself, and what a process leaves behind when it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

import mlperf_suite
from mlperf_suite.engines.replicas.node_facts import (
    look_around,
    model_fingerprint,
    suite_version,
)


def model(folder: Path, weights: bytes = b"w" * 5_000_000) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 8}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_the_same_model_elsewhere_has_the_same_fingerprint(tmp_path: Path) -> None:
    one, other = model(tmp_path / "a"), model(tmp_path / "b" / "c")
    print_, weights = model_fingerprint(str(one))
    assert (print_, weights) == model_fingerprint(str(other))
    assert weights == 5_000_000
    # A file of nobody's business.
    (other / "README.md").write_text("read me")
    assert model_fingerprint(str(other))[0] == print_


def test_another_revision_has_another(tmp_path: Path) -> None:
    found = {model_fingerprint(str(model(tmp_path / "same")))[0]}
    found.add(model_fingerprint(str(model(tmp_path / "tuned", b"v" * 5_000_000)))[0])
    found.add(model_fingerprint(str(model(tmp_path / "longer", b"w" * 5_000_001)))[0])
    # Between the first block that is read and the last.
    middle = b"w" * 2_500_000 + b"v" * 500_000 + b"w" * 2_000_000
    found.add(model_fingerprint(str(model(tmp_path / "middle", middle)))[0])
    config = model(tmp_path / "config")
    (config / "config.json").write_text('{"hidden_size": 9}')
    found.add(model_fingerprint(str(config))[0])
    assert len(found) == 5


def test_a_model_that_is_not_there_has_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in (tmp_path / "nothing", tmp_path / "empty"):
        assert model_fingerprint(str(name)) == (None, None)
    assert model_fingerprint("owner/no-such-model-was-ever-fetched") == (None, None)
    assert model_fingerprint("no repository at all!") == (None, None)


def test_a_node_tells_of_its_cores_and_versions() -> None:
    facts = look_around("")
    assert facts.cores
    assert facts.suite == suite_version()
    assert facts.suite.startswith(f"{mlperf_suite.__version__} (")
    assert facts.vllm is not None


_PARENT = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from mlperf_suite.engines.replicas.guard import start_guard
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
    _, left = psutil.wait_procs([child], 30)
    assert not left or child.status() == psutil.STATUS_ZOMBIE
