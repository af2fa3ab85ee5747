"""Trees of round v6.1 from the official HTTP client's results, alone and beside LoadGen's.

MLPERF_INFERENCE names a checkout of github.com/mlcommons/inference, whose checker is then run too.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from meta_tests.made_client import write_client_submission
from meta_tests.made_runs import system_fields
from meta_tests.submission.result_folders import write_result
from meta_tests.tampering.verdicts import CHECKER, official_verdict
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.results.schema import Meta, Summary
from mlperf_suite.rules.submission_rules import MEASUREMENT_FIELDS

CHECKOUT = Path(os.environ.get("MLPERF_INFERENCE") or "absent")
SCENARIOS = ("Offline", "Server", "Interactive")
V6_1 = ROUNDS["v6.1"]


def client_folders(root: Path, name: str = "llama3.1-8b") -> dict[str, Path]:
    """A stand-in of the client's result folder for each scenario: drawn, not a measurement."""
    submission = write_client_submission(root / "made", name, SCENARIOS, with_events="Server")
    folders = {}
    for scenario in SCENARIOS:
        folders[scenario] = root / f"client-{scenario.lower()}"
        shutil.move(submission / "results/box" / name / scenario, folders[scenario])
        for file in ("measurements.json", "README.md"):
            (folders[scenario] / file).unlink()
    shutil.rmtree(root / "made")
    return folders


def submit(root: Path, *results: str, round_: str = "v6.1", measurements: bool = True) -> int:
    described = system_fields() | {"system_name": "box", "status": "available"}
    for determined in ("submitter", "division", "system_type"):
        described.pop(determined, None)
    (root / "system.json").write_text(json.dumps(described))
    (root / "weights.json").write_text(json.dumps(dict.fromkeys(MEASUREMENT_FIELDS, "made up")))
    options = {"--submitter": "Someone", "--system": str(root / "system.json")}
    options |= {"--division": "closed", "--round": round_, "--out": str(root / "tree")}
    options |= {"--measurements": str(root / "weights.json")} if measurements else {}
    words = [word for pair in options.items() for word in pair]
    return main(["submission", *words, "--results", *results])


def check(tree: Path) -> None:
    """The suite's rules and the official checker accept a tree."""
    groups = judge_folder(tree, V6_1)
    assert [v.line for g in groups for v in g.verdicts if v.status == "failed"] == []
    if (CHECKOUT / CHECKER).is_dir():
        assert official_verdict(tree, CHECKOUT, V6_1) == "passes"


def test_the_clients_results_make_a_tree(tmp_path: Path) -> None:
    folders = client_folders(tmp_path)
    # A run that the suite made with the client has the client's files in report/.
    (tmp_path / "run").mkdir()
    folders["Offline"] = folders["Offline"].rename(tmp_path / "run" / "report").parent
    results = [f"llama3.1-8b/{name}={folder}" for name, folder in folders.items()]
    assert submit(tmp_path, *results) == 0
    tree = tmp_path / "tree"
    names = {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()}
    home, scenario = "closed/Someone", "closed/Someone/results/box/llama3.1-8b/Server"
    assert {n for n in names if n.startswith(scenario)} == {
        f"{scenario}/{name}"
        for name in (
            *("config.yaml", "performance/result_summary.json", "measurements.json"),
            *("accuracy/accuracy_results.json", "README.md"),
        )
    }
    assert {f"{home}/systems/box.json", f"{home}/src/llama3.1-8b/README.md"} <= names
    check(tree)


def test_they_stand_beside_loadgens(tmp_path: Path) -> None:
    folders = client_folders(tmp_path)
    of_loadgen = [
        str(write_result(tmp_path / "results", LLAMA3_1_8B, scenario))
        for scenario in LLAMA3_1_8B.scenarios
        if scenario.name == "Offline"
    ]
    of_client = [f"llama3.1-8b/{n}={folders[n]}" for n in SCENARIOS if n != "Offline"]
    assert submit(tmp_path, *of_loadgen, *of_client) == 0
    check(tmp_path / "tree")


def test_a_path_may_name_benchmark_and_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = client_folders(tmp_path)
    (tmp_path / "llama3.1-8b").mkdir()
    paths = [tmp_path / "llama3.1-8b" / scenario for scenario in SCENARIOS]
    for scenario, path in zip(SCENARIOS, paths, strict=True):
        shutil.move(folders[scenario], path)
    # What only a person can fill in is listed, as for LoadGen's results.
    assert submit(tmp_path, *map(str, paths), measurements=False) == 1
    assert "  weight_data_types" in capsys.readouterr().out


def test_a_run_of_the_suite_is_named_by_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    folders = client_folders(tmp_path)
    shutil.move(folders["Server"], run / "report")
    offline = f"llama3.1-8b/Offline={folders['Offline']}"
    meta = Meta(
        benchmark="llama3.1-8b", scenario="Server", load_generator="inference-endpoint 0.1.0"
    )
    (run / "summary.json").write_text(json.dumps(Summary(meta=meta).as_json()))
    assert submit(tmp_path, str(run), offline, measurements=False) == 1
    assert "  weight_data_types" in capsys.readouterr().out
    config = run / "report" / "config.yaml"
    content = yaml.safe_load(config.read_text())
    content["datasets"] = [{"accuracy_config": {"eval_method": "string_match"}}]
    config.write_text(yaml.safe_dump(content))
    shutil.rmtree(tmp_path / "tree")
    said = refusals(tmp_path, capsys, str(run), offline)
    assert "no score of the client's own scorer (string_match)" in said


def refusals(
    root: Path, capsys: pytest.CaptureFixture[str], *results: str, round_: str = "v6.1"
) -> str:
    assert submit(root, *results, round_=round_) == 2
    assert not (root / "tree").exists()
    return capsys.readouterr().err


def test_what_cannot_be_submitted_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = client_folders(tmp_path)["Server"]
    named = f"llama3.1-8b/Server={folder}"
    assert f"write, for example, llama3.1-8b/Server={folder}" in refusals(
        tmp_path, capsys, str(folder)
    )
    assert "v6.0 takes no results of the official client" in refusals(
        tmp_path, capsys, named, round_="v6.0"
    )
    assert "llama3.1-8b Server is in" in refusals(tmp_path, capsys, named, named)
    # Events of another run.
    (folder / "events.jsonl").write_text(
        '{"event_type": "session.start_performance_tracking", "timestamp_ns": 1}\n'
    )
    assert "client_events_agree: found issued" in refusals(tmp_path, capsys, named)
    (folder / "accuracy/accuracy_results.json").unlink()
    assert f"{folder}: no accuracy_results.json" in refusals(tmp_path, capsys, named)
