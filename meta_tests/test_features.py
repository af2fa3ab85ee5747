"""Features are folders: the core works without them, and finds those of other packages."""

import json
import os
import re
import shutil
from functools import cache, partial
from importlib import import_module
from pathlib import Path

import pytest

from meta_tests.made_runs import MadeRun, write_run
from meta_tests.suite_runs import ROOT, run_python, run_suite
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.feature import features
from mlperf_suite.results.run_folder import read_summary
from mlperf_suite.rules import rule_named
from mlperf_suite.settings import OPTIONS_OF_FEATURES

REPOSITORY = ("conftest.py", "pytest.ini", "mlperf_suite", "fixtures", "tests")
PUBLISHED = """
from argparse import Namespace

from mlperf_suite.commands import Subcommand, say
from mlperf_suite.feature import Feature

FEATURE = Feature(name="greeting", summary="a command", commands={"greet": "greeting"})


def run(options: Namespace) -> int:
    say("hello from another package")
    return 0


COMMAND = Subcommand("greet whoever runs it", lambda parser: None, run)
"""


@pytest.fixture(scope="module")
def without_features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a session reads, whose features are gone."""
    copy = tmp_path_factory.mktemp("copy")
    for name in REPOSITORY:
        if (ROOT / name).is_dir():
            # With the compiled modules: each session would compile them again.
            shutil.copytree(ROOT / name, copy / name)
        else:
            shutil.copyfile(ROOT / name, copy / name)
    for folder in (copy / "mlperf_suite/features").iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    (copy / ".assets").symlink_to(ROOT / ".assets")
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
    flags = {spec.flag for spec in OPTIONS_OF_FEATURES.values()}
    helped = python(without_features, "-m", "pytest", "--help")
    assert "--engine-silence" in helped and not flags & set(re.findall(r"--[\w-]+", helped))
    commands = {command for feature in features() for command in feature.commands}
    assert len(commands) >= 4
    words = {line.split()[0] for line in spoken.splitlines() if line.startswith("    ")}
    assert not words & commands
    assert "pytest.mark.tune" not in spoken


OFFLINE = (
    *("-m", "offline and datacenter and (accuracy or performance)"),
    # So that the performance run takes the 84 samples once.
    *("--warmup=0", "--offline-target-qps=8.4"),
)
STAND_IN = ("-p", "meta_tests.stand_in_plugin", "-p", "meta_tests.reports.undrawn")


def test_without_features_a_run_has_the_same_verdicts_and_figures(
    without_features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", json.dumps({"delays_s": [0, 10.2]}))
    with_all = run_suite(tmp_path / "with", *OFFLINE, *STAND_IN).summary
    words = ("-m", "pytest", *OFFLINE, *STAND_IN, "-q", f"--results-dir={tmp_path}/without")
    python(without_features, *words, path=str(ROOT))
    without = read_summary((tmp_path / "without" / "latest").resolve())
    assert without is not None
    statuses = {v.rule: v.status for v in with_all.verdicts if not is_of_a_feature(v.rule)}
    assert {v.rule: v.status for v in without.verdicts} == statuses
    figures = [summary.as_json()["run"] for summary in (with_all, without)]
    assert [sorted(run["performance"]) for run in figures] == [
        sorted(figures[0]["performance"])
    ] * 2
    assert figures[0]["accuracy"] == figures[1]["accuracy"]


def is_of_a_feature(name: str) -> bool:
    """Whether a verdict is one of a feature's rules, which go with it."""
    rule = rule_named(name)
    assert rule is not None
    return rule.check.__module__.startswith("mlperf_suite.features.")


def test_without_features_loose_logs_are_judged(without_features: Path, tmp_path: Path) -> None:
    write_run(
        tmp_path / "run", MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance")
    )
    words = ("-m", "pytest", "-m", "compliance", f"--logs={tmp_path}", "-q")
    output = python(without_features, *words)
    assert " passed" in output
    assert "failed" not in output


def collected(folder: Path) -> frozenset[str]:
    """The ids of the suite's tests, without pytest-benchmark's and the time of other plugins."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        output = python(folder, "-m", "pytest", "--collect-only", "-q")
    return frozenset(line for line in output.splitlines() if "::" in line)


collected_here = cache(partial(collected, ROOT))


def needing(name: str) -> set[str]:
    """The feature and those that need it, be it through another."""
    direct = [feature.name for feature in features() if name in feature.needs]
    return {name}.union(*map(needing, direct))


@pytest.mark.parametrize("name", [feature.name for feature in features()])
def test_without_a_feature_everything_else_is_collected(without_features: Path, name: str) -> None:
    """Those that need it go with it."""
    gone, place = needing(name), "mlperf_suite/features"
    links = [without_features / place / f.name for f in features() if f.name not in gone]
    for link in links:
        link.symlink_to(ROOT / place / link.name)
    try:
        ids = collected(without_features)
    finally:
        for link in links:
            link.unlink()
    folders = tuple(f"{place}/{feature}/" for feature in gone)
    assert ids == {id_ for id_ in collected_here() if not id_.startswith(folders)}


def test_without_features_their_benchmarks_are_unknown(without_features: Path) -> None:
    of_features = {
        benchmark.id
        for feature in features()
        for module in feature.benchmarks
        for benchmark in import_module(module).BENCHMARKS
    }
    environment = os.environ | {"PYTHONPATH": str(without_features)}
    words = ("-m", "pytest", "--collect-only", f"--benchmark={min(of_features)}")
    process = run_python(*words, folder=without_features, environment=environment)
    allowed = ", ".join(id_ for id_ in BENCHMARKS if id_ not in of_features)
    assert process.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"must be one of {allowed}\n" in process.stdout + process.stderr


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
