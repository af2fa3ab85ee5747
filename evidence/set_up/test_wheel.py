"""A wheel of the project, unpacked into an empty folder, is the command `mlperf-suite`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_tests.features.servers.stand_in_server import RunningStandIn, stand_in_server
from meta_tests.suite_runs import ROOT, run_python
from mlperf_suite.assets import embedded_model_dir

WITHOUT_ENGINE = """
import functools
from importlib.machinery import PathFinder

ABSENT = {"datasets", "lm_eval", "pandas", "pylatexenc", "sympy", "torch", "vllm"}
_find_spec = PathFinder.find_spec


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in ABSENT else _find_spec(name, path, target)


PathFinder.find_spec = functools.partial(find_spec)  # no method of whoever keeps it
"""


SOURCES = (
    *("pyproject.toml", "setup.py", "README.md", "LICENSE", "conftest.py", "pytest.ini"),
    *("mlperf_suite", "tests", "fixtures", "requirements"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made in a copy, since a build leaves files where it is made."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=unwanted)
        else:
            shutil.copyfile(ROOT / name, source / name)
    # As pip builds it in this environment, without pip's own time.
    program = "from setuptools.build_meta import build_wheel; build_wheel('out')"
    subprocess.run(
        [sys.executable, "-c", program], cwd=source, check=True, stdout=subprocess.DEVNULL
    )
    (made,) = (source / "out").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which the wheel is installed, and no engine."""
    packages = tmp_path_factory.mktemp("packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "sitecustomize.py").write_text(WITHOUT_ENGINE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    cache = str(tmp_path_factory.mktemp("cache"))
    assets = str(embedded_model_dir().parent)
    return kept | {
        "PYTHONPATH": str(packages),
        "XDG_CACHE_HOME": cache,
        "MLPERF_SUITE_ASSETS": assets,
    }


@pytest.fixture(scope="module")
def server() -> Iterator[RunningStandIn]:
    with stand_in_server() as running:
        yield running


def command(folder: Path, environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run `mlperf-suite` there; its exit status and what it prints."""
    program = "import sys; from mlperf_suite.__main__ import main; sys.exit(main())"
    process = run_python("-c", program, *arguments, folder=folder, environment=environment)
    return process.returncode, process.stdout + process.stderr


def test_the_command_is_pytest_on_the_suites_tests(tmp_path: Path, client: dict[str, str]) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    status, output = command(tmp_path, client, "-m", "offline and datacenter", "--collect-only")
    assert status == 0, output
    assert "test_offline.py" in output and "warning" not in output
    # pytest-benchmark makes its folder in every session; a client's environment has none.
    assert {path.name for path in tmp_path.iterdir()} <= {"pytest.ini", ".benchmarks"}


def test_a_server_is_measured_without_an_engine_installed(
    tmp_path: Path, client: dict[str, str], server: RunningStandIn
) -> None:
    # A short run: at its own rate, the server would work for 10 s.
    selection = ("-m", "offline and datacenter and performance", "--offline-target-qps=8.4")
    target = ("--endpoint", server.url, "--model", str(embedded_model_dir()))
    _, output = command(tmp_path, client, *selection, *target, "--served-model-name", "stand-in")
    assert "tokens/s" in output and "PyTorch was not found" not in output, output
    assert (tmp_path / "results" / "latest" / "report.html").is_file()
    run = (tmp_path / "results" / "latest").resolve()
    status, output = command(tmp_path, client, "compare", str(run), str(run))
    assert status == 0 and "tokens/s" in output, output
    status, output = command(tmp_path, client, "-m", "compliance", "--logs", str(run))
    assert re.search(r"Performance v\d\.\d: not valid; \d+ passed", output), output


def test_what_a_client_lacks_is_one_line(tmp_path: Path, client: dict[str, str]) -> None:
    status, output = command(tmp_path, client, "-m", "offline and datacenter")
    assert status != 0 and "install vllm into this environment" in output, output
    assert "Traceback" not in output
    selection = ("--benchmark", "deepseek-r1", "--endpoint", "http://127.0.0.1:9")
    status, output = command(tmp_path, client, "-m", "offline", *selection)
    assert status != 0 and "deepseek-r1's answers need pylatexenc and sympy" in output, output
