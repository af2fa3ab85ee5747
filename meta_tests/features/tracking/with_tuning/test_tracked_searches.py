"""A search for settings, as `tune` leaves it, in a tracker."""

import json
from pathlib import Path

from meta_tests.features.tracking.kept_results import MODULE, kept
from mlperf_suite.__main__ import main
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
