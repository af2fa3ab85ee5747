"""make stacks: what it installs and where, on a Python that only writes down what it is asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from meta_tests.suite_runs import ROOT

_PYTHON = """#!/bin/sh
echo "$@" >> asked
case "$*" in
  "-m venv .venv-llama-cpp") mkdir -p .venv-llama-cpp/bin && cp "$0" .venv-llama-cpp/bin/python ;;
  "-m mlperf_suite.assets gguf") touch .assets/model.gguf ;;
esac
"""


def prepare(folder: Path) -> None:
    """A copy of what the script needs after make setup, and a compiler."""
    for name in ("scripts", "requirements", ".assets", ".venv/bin", "bin"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "set_up_stacks.sh", folder / "scripts")
    (folder / "requirements" / "llama-cpp.lock").write_text("llama-cpp-python==1\n")
    for program in (".venv/bin/python", "bin/g++"):
        (folder / program).write_text(_PYTHON)
        (folder / program).chmod(0o755)


def set_up(folder: Path, path: str) -> tuple[int, str, str]:
    """Run it: its exit status, what Python was asked, and what it said."""
    requests = folder / "asked"
    requests.write_text("")
    run = subprocess.run(
        ["/bin/bash", folder / "scripts" / "set_up_stacks.sh"],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, requests.read_text(), run.stdout + run.stderr


def test_a_stack_has_an_environment_of_its_own_and_is_installed_once(tmp_path: Path) -> None:
    prepare(tmp_path)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    status, requests, output = set_up(tmp_path, path)
    assert status == 0, output
    assert "-m venv .venv-llama-cpp\n" in requests
    assert "install -qq --no-deps --no-cache-dir -r requirements/llama-cpp.lock\n" in requests
    assert "-m mlperf_suite.assets gguf\n" in requests
    assert [line for line in output.splitlines() if not line.startswith("set-up: ")] == []
    assert set_up(tmp_path, path) == (0, "", "")
    (tmp_path / "requirements" / "llama-cpp.lock").write_text("llama-cpp-python==2\n")
    assert "-m venv" in set_up(tmp_path, path)[1]


def test_no_compiler_is_said_in_a_line(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "bin" / "g++").unlink()
    for program in ("dirname", "cat", "sha256sum", "cut", "rm"):
        (tmp_path / "bin" / program).symlink_to(str(shutil.which(program)))
    status, requests, output = set_up(tmp_path, f"{tmp_path}/bin")
    assert (status, requests) == (1, "")
    assert "there is no g++: apt-get install g++" in output
