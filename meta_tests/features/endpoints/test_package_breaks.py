"""Packages of MLPerf Endpoints: honest ones pass, each break is seen by its rules alone."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import pytest

from meta_tests.features.endpoints.made_package import as_agentic, write_package
from meta_tests.features.endpoints.package_breaks import BREAKS, CURVE, PackageBreak
from mlperf_suite.features.endpoints.judging.packages import judge_package
from mlperf_suite.features.endpoints.official_client_results.series import (
    AGENTIC_MODELS,
    SERIES_MODELS,
)
from mlperf_suite.features.endpoints.rules.agentic_rules import _swe_bench_settings
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.rules.registry import rules_of

pytestmark = pytest.mark.usefixtures("yaml_once")
PREFIX = "package_"
Honest = Callable[[bool, str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Honest:
    """Makes a package once: whether its Offline point is dedicated, and its benchmark of several
    turns, "" for none. Returns it and the place of its curve in it."""
    root = tmp_path_factory.mktemp("honest")

    @cache
    def make(dedicated: bool, turns: str) -> tuple[Path, Path]:
        package = write_package(root / f"{dedicated} {turns}", dedicated=dedicated)
        curve = as_agentic(package / CURVE, turns) if turns else package / CURVE
        return package, curve.relative_to(package)

    return make


@pytest.mark.parametrize("model", SERIES_MODELS)
@pytest.mark.parametrize("dedicated", [False, True])
def test_an_honest_package_passes(tmp_path: Path, model: str, dedicated: bool) -> None:
    write_package(tmp_path, model, dedicated=dedicated)
    (group,) = judge_folder(tmp_path)
    assert group.name == f"box-2026-box-{model}"
    assert group.round.name == "Endpoints v1.0"
    # Without events.jsonl nothing is said of the prompts.
    assert {v.rule: v.status for v in group.verdicts if not v.passed} == {
        f"{PREFIX}salt": "not judged"
    }


@pytest.mark.parametrize("case", BREAKS, ids=str)
def test_a_break_is_seen_by_its_rules(honest: Honest, tmp_path: Path, case: PackageBreak) -> None:
    package, curve = honest(case.dedicated, case.turns)
    copy = Path(shutil.copytree(package, tmp_path / package.name))
    case.apply(copy / curve)
    verdicts = [verdict for group in judge_package(copy) for verdict in group.verdicts]
    failed = {v.rule.removeprefix(PREFIX) for v in verdicts if v.status == "failed"}
    assert failed == set(case.rules.split())
    assert all(verdict.line.isprintable() for verdict in verdicts)


def test_every_rule_has_a_break() -> None:
    names = {rule.name.removeprefix(PREFIX) for rule in rules_of("package")}
    assert names == {rule for case in BREAKS for rule in case.rules.split()}


@pytest.mark.parametrize("model", AGENTIC_MODELS)
def test_an_honest_package_of_turns_passes(honest: Honest, tmp_path: Path, model: str) -> None:
    package, curve = honest(False, model)
    (group,) = judge_package(package)
    assert [v.line for v in group.verdicts if not v.passed and v.rule != f"{PREFIX}salt"] == []
    copy = Path(shutil.copytree(package, tmp_path / package.name))
    summary = copy / curve / "r24/result_summary.json"
    content = json.loads(summary.read_text())
    del content["output_sequence_lengths_full_run"]
    summary.write_text(json.dumps(content))
    (group,) = judge_package(copy)
    (status,) = {v.status for v in group.verdicts if v.rule == f"{PREFIX}agentic_accuracy"}
    assert status == "not judged"


def test_the_problems_of_swe_bench_are_told_or_that_there_are_none() -> None:
    scored = {"eval_method": "swe_bench_scorer", "extras": {"num_instances": 20}}
    for datasets, said in (([], "none"), ([{"accuracy_config": scored}], "20")):
        (fault,) = _swe_bench_settings(Mock(datasets=datasets))
        assert fault == f"SWE-bench of {said} problems, not 200"
