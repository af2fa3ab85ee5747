"""What is told of a session's time from kept runs, before anything answered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from meta_tests.session.timing.kept_offline_run import keep_offline_run, settings_of
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_summary, write_json
from mlperf_suite.results.schema import PlanRow
from mlperf_suite.session.timing.forecast import forecast, planned

OFFLINE = RunKey(LLAMA3_1_8B.id, "Offline", "performance")


@pytest.mark.parametrize(
    ("status", "load_s", "factor"),
    # Died after 14 s: no sign of how long its steps take.
    [("complete", 41.5, 1.5), ("failed", 30.0, 1.0)],
)
def test_a_kept_run_teaches_how_long_loading_and_the_runs_take_unless_it_died(
    tmp_path: Path, status: str, load_s: float, factor: float
) -> None:
    rows = (
        PlanRow("load the engine", None, 41.5),
        PlanRow("llama3.1-8b Offline accuracy", 20.0, 31.0),
        PlanRow("llama3.1-8b Offline performance", 10.0, 14.0),
        PlanRow("llama3.1-8b Offline test06", 10.0, None),
    )
    settings = settings_of(tmp_path)
    plan = planned(settings, [OFFLINE])
    keep_offline_run(tmp_path)
    before = forecast(settings, plan).seconds
    file = next(tmp_path.glob(f"*/{SUMMARY_JSON}"))
    summary = read_summary(file.parent)
    assert summary is not None
    meta = replace(summary.meta, status=status)
    write_json(file, replace(summary, meta=meta, plan=rows).as_json())
    after = forecast(settings, plan).seconds
    by_kind = {step.kind: (before[step], after[step]) for step in plan.steps if step in after}
    assert by_kind["load"] == (30.0, load_s)
    assert by_kind["probe"][0] == by_kind["probe"][1]
    assert by_kind["run"][1] == pytest.approx(factor * by_kind["run"][0])
