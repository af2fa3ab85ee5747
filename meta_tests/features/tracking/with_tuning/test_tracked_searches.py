"""A search for settings, as `tune` leaves it, and the points of a curve, in a tracker."""

import json
from pathlib import Path

from meta_tests.features.tracking.kept_results import MODULE, kept
from mlperf_suite.__main__ import main
from mlperf_suite.features.tracking.tracked_result import tracked_result
from mlperf_suite.features.tuning.space import Trial
from mlperf_suite.features.tuning.trial_run import MeasuredTrial, Records


def test_the_trials_of_a_search_are_its_parts(tmp_path: Path) -> None:
    """As `tune` keeps them, of which a crash may cut the last."""
    folder = tmp_path / "tuned"
    kept(folder / "trial-1")
    records = Records(folder / "trials.jsonl")
    for value, rate in ((64, 900.5), (128, None)):
        trial = Trial({"max_num_seqs": value}, rate, reason="" if rate else "out of memory")
        records.add(MeasuredTrial(trial, "trial-1", seconds=20.0))
    with (folder / "trials.jsonl").open("a") as file:
        file.write('3\n{"settings": {"max_')
    assert main(["track", str(folder), f"--track={MODULE}:{tmp_path}/tracker"]) == 0
    (sent,) = (tmp_path / "tracker").iterdir()
    run = json.loads((sent / "run.json").read_text())
    assert [part["params"] for part in run["parts"]] == [{"max_num_seqs": n} for n in ("64", "128")]
    assert run["metrics"] == {"trials": 2.0, "best_rate": 900.5}
    assert run["parts"][0]["metrics"]["seconds"] == 20.0
    assert run["parts"][1]["tags"]["reason"] == "out of memory"
    assert {path.name for path in (sent / "files").rglob("*") if path.is_file()} == {"trials.jsonl"}


def test_the_points_of_a_curve_are_parts_of_its_result(tmp_path: Path) -> None:
    run = tracked_result(kept(tmp_path))
    (point,) = (part for part in run.parts if part.name == "point 1")
    assert (point.metrics["concurrency"], point.tags["outcome"]) == (8, "measured")
    assert point.series == {"blocks/tokens_per_sec": (20.0, 20.0)}
    assert run.tags["mlperf.verdict"] == "not a result"
