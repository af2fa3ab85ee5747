"""A search for the highest valid rate on a stand-in engine that has one: each step and its end."""

from __future__ import annotations

import json
from pathlib import Path

from meta_tests.suite_runs import run_suite
from mlperf_suite.features.peak_search.figures import PeakFigures, peak_of

STAND_IN = ("-p", "meta_tests.stand_in_plugin")
SEARCH = ("mlperf_suite/features/peak_search/tests", "-m", "server", "--find-peak-qps")


def test_a_search_prints_each_step_and_what_it_found(tmp_path: Path) -> None:
    stand_in = json.dumps({"most_qps": 100})
    run = run_suite(tmp_path, *STAND_IN, *SEARCH, "--server-target-qps=80", STAND_IN=stand_in)
    assert run.exit_code == 0, run.output
    (search,) = [
        json.loads(path.read_text()) for path in run.results_dir.glob("*-server/peak_qps.json")
    ]
    trials = search["trials"]
    for number, trial in enumerate(trials, 1):
        step = f"run {number} of at most {search['max_runs']}: {trial['target_qps']:g} queries/s"
        assert step in run.output
    assert run.summary.meta.status == "complete"
    assert max(t["target_qps"] for t in trials if not t["valid"]) > search["peak_qps"]
    assert search["bounded"] is True
    assert peak_of(run.summary) == PeakFigures(search["peak_qps"], True, len(trials))
    words = f"Highest valid rate: {search['peak_qps']:g} queries/s"
    assert (
        words in run.output and f"{search['peak_qps']:g}" in (run.folder / "report.md").read_text()
    )
