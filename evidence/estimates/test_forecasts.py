"""What is told of a session's time before anything answered, from kept runs and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from meta_tests.session.timing.kept_offline_run import keep_offline_run, settings_of
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_summary, write_json
from mlperf_suite.results.schema import PlanRow
from mlperf_suite.session.timing.forecast import forecast, planned

ONE, TWO = "http://one:8000", "http://two:8000"
OFFLINE = RunKey(LLAMA3_1_8B.id, "Offline", "performance")
SERVER = RunKey(LLAMA3_1_8B.id, "Server", "performance")


def test_the_speed_of_the_embedded_model_is_not_that_of_an_endpoint(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, endpoint=[ONE])
    unknown = forecast(settings, planned(settings, [SERVER, MMLU]))
    assert not unknown.seconds
    assert unknown.source == "the time is estimated once the endpoint answered and was probed"
    settings = settings_of(tmp_path)
    typical = forecast(settings, planned(settings, [SERVER, MMLU]))
    assert typical.seconds and not typical.kept


def test_an_endpoint_that_was_measured_is_expected_to_take_as_long(tmp_path: Path) -> None:
    keep_offline_run(tmp_path, endpoint=[ONE])
    settings = settings_of(tmp_path, endpoint=[ONE])
    plan = planned(settings, [SERVER, MMLU])
    kept = forecast(settings, plan)
    assert kept.kept
    assert kept.source == "estimated from the run 20261121-101500-llama3.1-8b-offline"
    loads = {step.what: kept.seconds[step] for step in plan.steps if step.kind == "load"}
    assert loads == {"connect to the endpoint": 2.0, "connect to the endpoint for MMLU": 2.0}


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
