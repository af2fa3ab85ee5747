"""A wheel of the project, unpacked into an empty folder, in an environment without an engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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


def make_wheel(source: Path) -> Path:
    """Build the project's wheel in a copy, since a build leaves files where it is made."""
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


def without_engine(folders: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which the wheel is installed, and no engine."""
    packages = folders.mktemp("packages")
    with zipfile.ZipFile(make_wheel(folders.mktemp("source"))) as archive:
        archive.extractall(packages)
    (packages / "sitecustomize.py").write_text(WITHOUT_ENGINE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {
        "PYTHONPATH": str(packages),
        "XDG_CACHE_HOME": str(folders.mktemp("cache")),
        "MLPERF_SUITE_ASSETS": str(embedded_model_dir().parent),
    }


def command(folder: Path, environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run `mlperf-suite` there; its exit status and what it prints."""
    program = "import sys; from mlperf_suite.__main__ import main; sys.exit(main())"
    process = run_python("-c", program, *arguments, folder=folder, environment=environment)
    return process.returncode, process.stdout + process.stderr
