"""make setup: which build it installs, on a Python that only writes down what it is asked."""

from __future__ import annotations

import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from evidence.set_up.set_up_runs import copy_of_suite, run_script, write_python
from meta_tests.suite_runs import ROOT

_CASES = """
  "-m venv "*".venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "scripts/check_machine.py "*) exec {machine} ;;
"""
CPU, GPU = ["requirements/cpu.lock"], ["requirements/gpu.lock"]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A copy of what the script needs, and locks of a line each."""
    copy_of_suite(tmp_path, "scripts/set_up.sh", "pyproject.toml", "mlperf_suite/assets.py")
    write_python(tmp_path, _CASES.format(machine="/bin/true"))
    for name in ("requirements", ".assets"):
        (tmp_path / name).mkdir()
    for lock in ("cpu", "gpu", "assets"):
        (tmp_path / "requirements" / f"{lock}.lock").write_text(f"{lock}\n")
    return tmp_path


def set_up(folder: Path, *arguments: str, **environment: str) -> tuple[list[str], str]:
    """The locks that were installed, and what was said."""
    status, requests, output = run_script(folder, "set_up.sh", *arguments, **environment)
    assert status == 0, output
    return re.findall(r"--require-hashes -r (requirements/\S+)", requests), output


def refusal(folder: Path, **environment: str) -> str:
    status, _, output = run_script(folder, "set_up.sh", **environment)
    assert (status, output.count("\n")) == (1, 1)
    return output


def test_the_build_that_is_there_stays(suite: Path) -> None:
    installed, output = set_up(suite)
    assert installed == CPU
    # Each line says what comes now, and how much of it.
    assert [line for line in output.splitlines() if not line.startswith("set-up: ")] == []
    assert "packages of requirements/cpu.lock (3.3 GB on disk" in output
    assert set_up(suite) == ([], "")
    (suite / ".venv" / "of the cpu build").touch()
    installed, output = set_up(suite, BUILD="gpu")
    assert installed == GPU
    assert "replacing the cpu build in .venv with the gpu build" in output
    assert not (suite / ".venv" / "of the cpu build").exists()
    assert set_up(suite) == ([], "")
    (suite / "requirements" / "gpu.lock").write_text("newer\n")
    assert set_up(suite)[0] == GPU


def test_packages_are_installed_once_for_a_lock(suite: Path) -> None:
    """An image has them in a layer of their own, below the code."""
    code, asked = suite / "mlperf_suite" / "assets.py", suite / "asked"
    code.unlink()
    assert set_up(suite, "packages")[0] == CPU
    assert "mlperf_suite.assets" not in asked.read_text()
    assert set_up(suite, "packages") == ([], "")
    code.write_text("changed")
    for arguments, brings_assets in ((["assets"], True), ([], False)):
        assert set_up(suite, *arguments)[0] == []
        assert ("-m mlperf_suite.assets" in asked.read_text()) == brings_assets
        assert ("-e ." in asked.read_text()) != brings_assets


def test_what_cannot_be_installed_is_refused_in_a_line(suite: Path) -> None:
    assert refusal(suite, BUILD="rocm") == "set-up: BUILD=rocm: must be cpu or gpu\n"
    assert "/bin/false is : Python 3.11 to 3.13 is needed" in refusal(suite, PYTHON="/bin/false")
    write_python(suite, _CASES.format(machine="/bin/false"))
    assert "nothing was installed; SET_UP_ANYWAY=1" in refusal(suite)
    assert not (suite / ".venv").exists()
    assert set_up(suite, SET_UP_ANYWAY="1")[0] == CPU
    (suite / "requirements" / "cpu.lock").write_text("newer\n")
    write_python(suite, '*"-m pip"*"-r "*) exit 1 ;;', ".venv/bin/python")
    write_python(suite, "")
    assert "pip could not install requirements/cpu.lock" in run_script(suite, "set_up.sh")[2]
    assert not (suite / ".venv" / ".packages").exists()


def test_an_environment_that_has_vllm_is_taken_as_it_is(suite: Path) -> None:
    assert set_up(suite, VLLM="present")[0] == []
    asked = (suite / "asked").read_text()
    assert "-m venv --system-site-packages .venv\nscripts/present_packages.py .venv\n" in asked
    assert "install -qq -c .venv/present.txt -e .[present]\n" in asked and asked.count("-e") == 1
    # It stays, as a build does, and gives way to one.
    assert set_up(suite) == ([], "")
    assert set_up(suite, BUILD="cpu")[0] == CPU
    assert "VLLM=rocm: must be present" in refusal(suite, VLLM="rocm")
    assert "leave one out" in refusal(suite, VLLM="present", BUILD="gpu")
    write_python(suite, "*find_spec*) exit 1 ;;")
    assert "is no Python 3.11 to 3.13 that has vLLM" in refusal(suite, VLLM="present")


def test_what_a_virtual_environment_has_is_seen_and_keeps_its_version(tmp_path: Path) -> None:
    for name in ("theirs", ".venv"):
        venv.create(tmp_path / name, symlinks=True)
    (packages,) = (tmp_path / "theirs").glob("lib/python*/site-packages")
    info = packages / "vllm-0.32.0+rocm.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: vllm\nVersion: 0.32.0+rocm\n")
    (packages / "vllm.py").touch()
    theirs, own = tmp_path / "theirs/bin/python", tmp_path / ".venv"
    script = ROOT / "scripts/present_packages.py"
    subprocess.run([theirs, str(script), own], check=True)
    assert (own / "present.txt").read_text() == "vllm==0.32.0+rocm\n"
    subprocess.run([own / "bin/python", "-I", "-c", "import vllm"], check=True)


@pytest.mark.parametrize("name", ["cpu", "gpu", "llama-cpp", "uv", "assets"])
def test_each_line_of_a_lock_names_one_version_and_its_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.lock").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    whole = re.compile(r"[a-z0-9.-]+===?[^ ;]+( ;[^#]*?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    assert [line[:80] for line in lines if not whole.fullmatch(line)] == []
    locked = {line.split("=")[0]: line for line in lines}
    if name == "gpu":
        assert all(locked[line].startswith(f"{line}===") for line in ("torch", "torchvision"))
    if name == "cpu":
        # One for each of Python 3.11 to 3.13.
        assert locked["torch"].count("--hash") >= 3


def test_tokens_stay_out_of_the_repository_and_of_the_image(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    paths = [".env", ".env.local", "docker/.env", "a/b/.env.production"]
    command = ["git", "check-ignore", *paths]
    ignored = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert ignored.stdout.split() == paths
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert not any(line.startswith("!") for line in patterns)
    # For Docker, a pattern without **/ holds at the top alone.
    assert {".env", ".env.*", "**/.env", "**/.env.*", ".git", ".venv", "results"} <= {*patterns}
