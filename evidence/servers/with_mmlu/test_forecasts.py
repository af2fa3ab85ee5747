"""What is told of the time of a session on a server before it answered, with MMLU and without."""

from __future__ import annotations

from pathlib import Path

from meta_tests.session.timing.kept_offline_run import keep_offline_run, settings_of
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.session.timing.forecast import forecast, planned

ONE = "http://one:8000"
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
