"""Packages of MLPerf Endpoints that the command builds from the client's files and submission.toml.

MLPERF_ENDPOINTS_CLI names an installed endpoints-submission-cli, the official checker.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from meta_tests.made_curve import FACTS, write_curve, write_facts
from meta_tests.tampering.package_damages import official_ids
from mlperf_suite.__main__ import main
from mlperf_suite.client_results.series import SERIES_MODELS
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.results.curve_figures import REHEARSAL, CurveFigures
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import Summary

NEEDED = re.compile(r"(?!tensor|data_par|cooling|accelerator|count_per|tdp|method)\w+ = ")
"""A line of submission.toml that no package can do without."""
CLI = Path(os.environ.get("MLPERF_ENDPOINTS_CLI") or "absent")


def build(root: Path, *more: str) -> int:
    options = ["--facts", str(root / "submission.toml"), "--out", str(root / "out"), *more]
    return main(["submission", "--series", "endpoints", *options, str(root / "curve")])


def point_of(root: Path, concurrency: int) -> dict[str, Any]:
    (path,) = (root / "out").glob(f"*/*/results/*/*/r{concurrency}/point.yaml")
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


@pytest.mark.parametrize("model", SERIES_MODELS)
@pytest.mark.parametrize("dedicated", [False, True])
def test_a_package_of_complete_points_stands(tmp_path: Path, model: str, dedicated: bool) -> None:
    write_curve(tmp_path, model, dedicated=dedicated)
    write_facts(tmp_path, model)
    assert build(tmp_path) == 0
    package = tmp_path / "out" / "Someone" / "box-2026"
    (group,) = judge_folder(package)
    assert [v.line for v in group.verdicts if v.status == "failed"] == []
    if CLI.is_file():
        assert official_ids(package, CLI)[0] == set()


def test_what_can_be_computed_is(tmp_path: Path) -> None:
    write_curve(tmp_path)
    write_facts(tmp_path)
    assert build(tmp_path) == 0
    names = {16: "low_latency", 24: "low_concurrency", 64: "med_concurrency"}
    names |= dict.fromkeys((128, 256, 512, 1024), "high_concurrency")
    assert {c: point_of(tmp_path, c)["region"] for c in names} == names
    highest = point_of(tmp_path, 1024)
    assert highest["offline"] == "elected"
    assert highest["seed_set"] == "A"
    assert highest["dataset_type"] == "Accuracy + Performance"
    assert point_of(tmp_path, 512)["dataset_type"] == "Performance"


@pytest.mark.parametrize("line", [line for line in FACTS.splitlines() if NEEDED.match(line)])
def test_each_missing_fact_is_named(
    tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_curve(tmp_path)
    (tmp_path / "submission.toml").write_text(FACTS.replace(line + "\n", "", 1))
    assert build(tmp_path) == 2
    refusals = [e for e in capsys.readouterr().err.splitlines() if e.startswith("refused: ")]
    name = line.partition(" ")[0]
    assert len(refusals) == 1
    assert re.search(rf"submission.toml lacks .*\b{name}\b", refusals[0])


def test_a_rehearsal_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = write_curve(tmp_path)
    write_facts(tmp_path)
    summary = Summary(curve=CurveFigures("mlperf-suite 1.0", rehearsal=True))
    write_json(curve / "summary.json", summary.as_json())
    assert build(tmp_path) == 2
    refusal, outcome = capsys.readouterr().err.splitlines()
    assert refusal.startswith(f"refused: {curve}: {REHEARSAL}")
    assert outcome.startswith("no package was written")


def test_all_that_is_missing_is_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_curve(tmp_path)
    assert build(tmp_path) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) > 15
    assert all(" lacks " in line for line in errors[:-1])
    assert not (tmp_path / "out").exists()


def test_a_curve_that_would_not_stand_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = write_curve(tmp_path)
    write_facts(tmp_path)
    (curve / "c24").rename(tmp_path / "elsewhere")
    assert build(tmp_path) == 2
    error = capsys.readouterr().err
    assert "package_points: found 6 points" in error
    assert "no point in low" in error
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")] == []
