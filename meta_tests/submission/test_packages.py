"""Packages of MLPerf Endpoints that the command builds from the client's files and submission.toml.

MLPERF_ENDPOINTS_CLI names an installed endpoints-submission-cli, the official checker.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from meta_tests.made_curve import (
    FACTS,
    write_curve,
    write_facts,
    write_replay,
    write_tokenizer,
)
from meta_tests.made_package import CONCURRENCIES
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


def write_replayed_facts(root: Path) -> None:
    """Facts for points with events, whose warm-up has two requests of which one was answered."""
    warmup = '[warmup]\ndata_source = "made up"\nlogs_retained = true\n\n'
    facts = FACTS.replace("llama3_1-8b", "deepseek-r1")
    (root / "submission.toml").write_text(
        write_tokenizer(root) + facts.replace("[system]", f"{warmup}[system]", 1)
    )


def test_the_steady_state_and_the_warm_up_are_computed_from_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = write_curve(tmp_path, "deepseek-r1")
    write_replay(curve, 64, "deepseek-r1")
    write_replayed_facts(tmp_path)
    assert build(tmp_path) == 0
    point = point_of(tmp_path, 64)
    state, samples = point["steady_state"], SERIES_MODELS["deepseek-r1"].samples
    assert (state["status"], state["verdict"]) == ("windowable", "STEADY STATE")
    assert state["window"]["super_pass_size"] == samples
    assert (state["window"]["super_pass_start"], state["window"]["super_pass_end"]) == (1, 5)
    assert state["window"]["n_samples"] == 5 * samples
    assert state["window"]["duration_s"] == pytest.approx(1500, rel=0.02)
    assert (point["warmup"]["requests_issued"], point["warmup"]["requests_completed"]) == (1, 1)
    assert point["warmup"]["data_source"] == "made up"
    assert "steady_state" not in point_of(tmp_path, 128)
    output = capsys.readouterr().out
    assert "r64: steady state from super-pass 1 to 5" in output
    assert "r16, r24, r128, r256, r512, r1024: no steady-state window" in output
    assert not list((tmp_path / "out").rglob("events.jsonl"))


def test_events_of_another_run_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    curve = write_curve(tmp_path, "deepseek-r1")
    write_replay(curve, 64, "deepseek-r1")
    write_replayed_facts(tmp_path)
    shutil.copyfile(curve / "c64/events.jsonl", curve / "c128/events.jsonl")
    assert build(tmp_path) == 2
    assert "package_distributions: found r128: issued" in capsys.readouterr().err


@pytest.mark.slow
def test_a_full_size_package_of_replays_stands(tmp_path: Path) -> None:
    curve = write_curve(tmp_path)
    for concurrency in CONCURRENCIES:
        write_replay(curve, concurrency)
    facts = FACTS.replace(
        "[system]", '[warmup]\ndata_source = "made up"\nlogs_retained = true\n\n[system]', 1
    )
    (tmp_path / "submission.toml").write_text(write_tokenizer(tmp_path) + facts)
    assert build(tmp_path) == 0
    states = [point_of(tmp_path, c)["steady_state"]["status"] for c in CONCURRENCIES]
    assert states == ["windowable"] * len(CONCURRENCIES)
    if CLI.is_file():
        assert official_ids(tmp_path / "out" / "Someone" / "box-2026", CLI) == (set(), set())


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
