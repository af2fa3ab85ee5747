"""Packages of MLPerf Endpoints: honest ones pass, each damage is seen by its rules alone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evidence.endpoints.package_damages import (
    PACKAGE_DAMAGES,
    PREFIX,
    failed_rules,
    official_ids,
    rules_of_id,
)
from evidence.from_elsewhere import ENDPOINTS_CLI, needs_endpoints_cli
from meta_tests.features.endpoints.made_package import as_agentic, write_package
from meta_tests.features.endpoints.package_breaks import CURVE
from mlperf_suite.features.endpoints.judging.packages import judge_package
from mlperf_suite.features.endpoints.official_client_results.series import (
    AGENTIC_MODELS,
    SERIES_MODELS,
)
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.rules.registry import rules_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "endpoints-packages.md"
_ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?)(?: \(warns: .+\))? \|$", re.MULTILINE)
ANSWERED_OTHERWISE = {
    "a folder of another model": "no gate is known for what is no benchmark",
    "one data set scored twice": "the checker then reads no score of the file; here too many count",
    "config.yaml is nested deeply": "the checker's traceback",
    "point.yaml is nested deeply": "the checker's traceback",
    "result_summary.json is nested deeply": "the checker's traceback",
    "system_desc.json is nested deeply": "the checker's traceback",
}
"""Damages of which the checker says an id whose rule does not fail here, and why."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Path], Path]:
    """Makes a damage by its name in a new package in a folder, a copy of one made once."""
    root = tmp_path_factory.mktemp("honest")

    @cache
    def honest(dedicated: bool, turns: str) -> tuple[Path, Path]:
        package = write_package(root / f"{dedicated} {turns}", dedicated=dedicated)
        curve = as_agentic(package / CURVE, turns) if turns else package / CURVE
        return package, curve.relative_to(package)

    def make(name: str, folder: Path) -> Path:
        damage = PACKAGE_DAMAGES[name]
        package, curve = honest(damage.dedicated, damage.turns)
        copy = Path(shutil.copytree(package, folder / package.name))
        damage.apply(copy / curve)
        return copy

    return make


@pytest.mark.parametrize("model", SERIES_MODELS)
@pytest.mark.parametrize("dedicated", [False, True])
def test_an_honest_package_is_recognized_and_passes(
    tmp_path: Path, model: str, dedicated: bool
) -> None:
    package = write_package(tmp_path, model, dedicated=dedicated)
    (group,) = judge_folder(tmp_path)
    assert group.name == f"box-2026-box-{model}"
    assert group.round.name == "Endpoints v1.0"
    assert [v.rule for v in group.verdicts if not v.passed] == [f"{PREFIX}salt"]
    assert group.count("failed") == 0
    if ENDPOINTS_CLI.is_file():
        assert official_ids(package, ENDPOINTS_CLI)[0] == set()


@pytest.mark.parametrize("name", PACKAGE_DAMAGES)
def test_a_damage_is_seen_by_its_rules_alone(damaged: Any, tmp_path: Path, name: str) -> None:
    groups = judge_package(damaged(name, tmp_path))
    assert failed_rules(groups) == set(PACKAGE_DAMAGES[name].rules.split())
    assert all(verdict.line.isprintable() for group in groups for verdict in group.verdicts)


def test_every_rule_is_broken_by_a_damage() -> None:
    names = {rule.name.removeprefix(PREFIX) for rule in rules_of("package")}
    assert names == {rule for damage in PACKAGE_DAMAGES.values() for rule in damage.rules.split()}


def test_the_page_has_a_row_for_each_damage_with_its_rules() -> None:
    rows = {name: set(re.findall(r"`(\w+)`", ours)) for name, ours, _ in rows_of_page()}
    assert rows == {name: set(damage.rules.split()) for name, damage in PACKAGE_DAMAGES.items()}


def rows_of_page() -> list[tuple[str, str, str]]:
    """Damage, this suite's verdict and the checker's, without its warnings."""
    _, *rows = _ROW.findall(PAGE.read_text().partition("## Damage by damage")[2])
    return rows


def test_for_each_id_of_the_checker_a_rule_that_answers_for_it_fails_here() -> None:
    answers = rules_of_id()
    unanswered = {
        name
        for name, ours, official in rows_of_page()
        for identity in official.split(", ")
        # What cannot be read is judged no further here.
        if identity != "passes"
        and "`files_readable`" not in ours
        and not answers[identity] & set(re.findall(r"`(\w+)`", ours))
    }
    assert unanswered | {n for n in ANSWERED_OTHERWISE if "deeply" in n} == set(ANSWERED_OTHERWISE)


def test_what_the_checker_fails_fails_here() -> None:
    assert [name for name, ours, official in rows_of_page() if ours == "passes" != official] == []


@needs_endpoints_cli
@pytest.mark.parametrize(("name", "official"), [(n, o) for n, _, o in rows_of_page()])
def test_the_checker_says_what_the_page_says(
    damaged: Any, tmp_path: Path, name: str, official: str
) -> None:
    ids = official_ids(damaged(name, tmp_path), ENDPOINTS_CLI)[0]
    assert official == (", ".join(sorted(ids)) or "passes")


@pytest.mark.parametrize("model", AGENTIC_MODELS)
def test_an_honest_package_of_several_turns_passes(tmp_path: Path, model: str) -> None:
    package = write_package(tmp_path)
    curve = as_agentic(package / CURVE, model)
    (group,) = judge_package(package)
    assert [v.line for v in group.verdicts if not v.passed and v.rule != f"{PREFIX}salt"] == []
    if ENDPOINTS_CLI.is_file():
        assert official_ids(package, ENDPOINTS_CLI) == (set(), set())
    summary = curve / "r24/result_summary.json"
    content = json.loads(summary.read_text())
    del content["output_sequence_lengths_full_run"]
    summary.write_text(json.dumps(content))
    (group,) = judge_package(package)
    (status,) = {v.status for v in group.verdicts if v.rule == f"{PREFIX}agentic_accuracy"}
    assert status == "not judged"
