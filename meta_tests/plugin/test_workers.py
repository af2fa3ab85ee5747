"""pytest-xdist: two engines never measure each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meta_tests.suite_runs import run_suite
from mlperf_suite.mmlu.journal import gpus_per_engine
from mlperf_suite.plugin.workers import pytest_mlperf_engine_count
from mlperf_suite.settings import resolve_settings

ARGUMENTS = ("-m", "mmlu", "--mmlu-limit=57", "-p", "meta_tests.scoring_plugin")


@pytest.mark.parametrize("paths", [(), (".",), ("tests/mmlu/test_mmlu.py::test_mmlu_score",)])
@pytest.mark.parametrize("dist", [(), ("--dist=worksteal",), ("--dist=each",)])
def test_workers_with_an_engine_each_are_refused_before_they_start(
    tmp_path: Path, paths: tuple[str, ...], dist: tuple[str, ...]
) -> None:
    run = run_suite(tmp_path / "results", *ARGUMENTS, "-n", "2", *dist, *paths)
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR, run.output
    (message,) = [line for line in run.output.splitlines() if line.startswith("ERROR")]
    assert "use --dist loadgroup" in message
    assert not run.results_dir.exists()


@pytest.mark.parametrize("number", ["0", "1"])
def test_a_single_worker_has_a_single_engine(tmp_path: Path, number: str) -> None:
    run = run_suite(tmp_path / "results", *ARGUMENTS, "-n", number)
    assert run.exit_code == 0, run.output
    assert len(list(run.results_dir.glob("*-mmlu"))) == 1


def test_tests_that_load_no_engine_may_be_spread_as_one_likes(tmp_path: Path) -> None:
    run = run_suite(tmp_path / "results", "-n", "2", "meta_tests/tampering/test_damages.py")
    assert run.exit_code == 0, run.output


def test_a_plan_needs_no_workers(tmp_path: Path) -> None:
    run = run_suite(tmp_path / "results", *ARGUMENTS, "-n", "2", "--dist=loadgroup", "--plan")
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR, run.output
    assert "--plan: runs nothing that workers could share" in run.output


def test_mmlu_is_not_scored_beside_a_loadgen_run(tmp_path: Path) -> None:
    marks = ("-m", "mmlu or (offline and compliance and datacenter)", "-v")
    run = run_suite(
        tmp_path / "results",
        *ARGUMENTS[2:],
        *marks,
        *("-n", "2", "--dist=loadgroup"),
        SCORING='{"engines": 2}',
    )
    workers = {line[:5] for line in run.output.splitlines() if line.startswith("[gw")}
    assert len(workers) == 1, run.output
    assert "test_share" not in run.output
    assert len(list(run.results_dir.glob("*-mmlu"))) == 1
    assert not list(run.results_dir.glob("*/engine-1.log"))


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
