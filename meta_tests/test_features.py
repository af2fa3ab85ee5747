"""Features are folders: the core works without them, and finds those of other packages."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT, run_python
from mlperf_suite.feature import features

REPOSITORY = ("conftest.py", "pytest.ini", "mlperf_suite", "fixtures", "tests")
PUBLISHED = """
from argparse import Namespace

from mlperf_suite.commands.command import Subcommand, say
from mlperf_suite.feature import Feature

FEATURE = Feature(name="greeting", summary="a command", commands={"greet": "greeting"})


def run(options: Namespace) -> int:
    say("hello from another package")
    return 0


COMMAND = Subcommand("greet whoever runs it", lambda parser: None, run)
"""


@pytest.fixture(scope="module")
def without_features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository whose features are gone."""
    copy = tmp_path_factory.mktemp("copy")
    for name in REPOSITORY:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, copy / name)
    for folder in (copy / "mlperf_suite/features").iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    return copy


def python(folder: Path, *arguments: str, path: str = "") -> str:
    """What Python prints that runs there."""
    paths = os.pathsep.join(filter(None, (str(folder), path)))
    environment = os.environ | {"PYTHONPATH": paths}
    process = run_python(*arguments, folder=folder, environment=environment)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_the_core_collects_and_speaks_of_no_feature(without_features: Path) -> None:
    output = python(without_features, "-m", "pytest", "-m", "offline", "--collect-only", "-q")
    assert "tests/performance/test_offline.py" in output
    spoken = python(without_features, "-m", "mlperf_suite", "--help")
    spoken += python(without_features, "-m", "pytest", "--markers")
    commands = {command for feature in features() for command in feature.commands}
    assert commands == {"aggregate", "replay", "submission", "tune"}
    words = {line.split()[0] for line in spoken.splitlines() if line.startswith("    ")}
    assert not words & commands
    assert "pytest.mark.tune" not in spoken


def test_a_package_of_its_own_adds_a_feature(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text(PUBLISHED)
    info = tmp_path / "greeting-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[mlperf_suite.features]\ngreeting = greeting:FEATURE\n")
    output = python(ROOT, "-m", "mlperf_suite", "greet", path=str(tmp_path))
    assert output == "hello from another package\n"
    assert "greet whoever runs it" in python(ROOT, "-m", "mlperf_suite", "-h", path=str(tmp_path))


def test_a_feature_whose_need_is_missing_is_an_error(without_features: Path) -> None:
    folder = without_features / "mlperf_suite/features/alone"
    folder.mkdir()
    source = (
        'from mlperf_suite.feature import Feature\nFEATURE = Feature(name="alone", summary="", '
    )
    (folder / "__init__.py").write_text(source + 'needs=("another",))\n')
    program = (
        "import json\nfrom mlperf_suite.feature import features\n"
        "try:\n    features()\nexcept ImportError as error:\n    print(json.dumps(str(error)))"
    )
    try:
        output = python(without_features, "-c", program)
    finally:
        shutil.rmtree(folder)
    assert json.loads(output) == "the feature alone needs another"
