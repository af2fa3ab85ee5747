"""How many engines share the questions of MMLU, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meta_tests.suite_runs import run_suite
from mlperf_suite.features.mmlu.journal import gpus_per_engine
from mlperf_suite.features.mmlu.plugin import pytest_mlperf_engine_count
from mlperf_suite.settings import resolve_settings

ARGUMENTS = ("--mmlu-limit=57", "-p", "meta_tests.scoring_plugin")


@pytest.mark.parametrize(
    ("marker", "shares"), [("mmlu", 1), ("mmlu or (offline and compliance and datacenter)", 0)]
)
def test_mmlu_is_not_scored_beside_a_loadgen_run(tmp_path: Path, marker: str, shares: int) -> None:
    run = run_suite(
        tmp_path / "results",
        *("-m", marker, *ARGUMENTS, "--collect-only", "-q"),
        SCORING='{"engines": 2}',
        PYTEST_XDIST_WORKER_COUNT="2",
        PYTEST_XDIST_TESTRUNUID="x",
    )
    assert run.output.count("::test_share[") == shares, run.output


@pytest.mark.parametrize(
    ("options", "engines", "gpus"),
    [
        ({}, 1, 4),
        ({"tensor_parallel_size": "1"}, 4, 1),
        ({"engine_arg": ["tensor_parallel_size=2"]}, 2, 2),
        ({"tensor_parallel_size": "1", "engine_arg": ["data-parallel-size=2"]}, 2, 2),
        (
            {
                "tensor_parallel_size": "2",
                "engine_arg": ["pipeline_parallel_size=2", "data_parallel_size=x"],
            },
            1,
            4,
        ),
        ({"tensor_parallel_size": "1", "engine_arg": ["data_parallel_size=8"]}, 1, 8),
    ],
)
def test_an_engine_has_the_gpus_that_its_arguments_need(
    options: dict[str, Any], engines: int, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    settings = resolve_settings(options, {})
    assert (pytest_mlperf_engine_count(settings), gpus_per_engine(settings)) == (engines, gpus)


def test_endpoints_are_one_engine_whatever_gpus_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    here = resolve_settings({"tensor_parallel_size": "1"}, {})
    assert pytest_mlperf_engine_count(here) == 2
    there = resolve_settings({"endpoint": ["http://one", "http://two"]}, {})
    assert pytest_mlperf_engine_count(there) == 1
