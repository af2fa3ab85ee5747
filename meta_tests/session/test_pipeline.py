"""The plan is what runs: the steps made are those planned, whatever was selected or fails."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.session.scripted_session import (
    ACCURACY,
    FULL,
    LLAMA,
    PERFORMANCE,
    TEST06,
    Make,
    check_made_as_planned,
    full_disk,
    told,
)
from meta_tests.session.timing.kept_offline_run import keep_offline_run
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from mlperf_suite.results.run_folder import RESERVED_FILE

SERVER = RunKey(LLAMA, "Server", "performance")
OPTIONS = {"warmup": "1"}
pytestmark = pytest.mark.usefixtures("short")


@pytest.mark.parametrize("options", [{"repeat": "2"}, {"server_target_qps": "50", "warmup": "1"}])
def test_the_steps_made_are_those_planned(make: Make, options: dict[str, str]) -> None:
    check_made_as_planned(make(SERVER, **options), SERVER)


@pytest.mark.parametrize("error", [RunError("died"), ValueError("nobody foresaw it")])
def test_a_failed_step_takes_later_ones(make: Make, monkeypatch: MonkeyPatch, error: Any) -> None:
    """Steps of other keys are made; what the failed run would have shown is measured instead."""

    def run(*arguments: Any, **keywords: Any) -> LoadRun:
        if arguments[0].mode == "accuracy":
            raise error
        return run_loadgen(*arguments, **keywords)

    monkeypatch.setattr("mlperf_suite.session.load_run.run_loadgen", run)
    suite = make(ACCURACY, PERFORMANCE, TEST06, **OPTIONS).suite
    with contextlib.suppress(ValueError):
        suite.make(ACCURACY)
    assert [suite.make(key).ok for key in (ACCURACY, PERFORMANCE, TEST06)] == [False, False, True]
    left_out = [step for step in suite.plan.steps if step not in suite.steps_made]
    assert {(step.kind, step.key) for step in left_out} == {
        ("run", ACCURACY),
        ("warm-up", PERFORMANCE),
        ("run", PERFORMANCE),
    }
    assert [step.kind for step in suite.steps_made].count("rate") == 1
    assert set(suite.steps_made) <= set(suite.plan.steps)


def test_an_offline_run_joins_where_no_kept_rate_is_its_own(make: Make, tmp_path: Path) -> None:
    keep_offline_run(tmp_path / "results", **OPTIONS)
    suite = make(SERVER, **OPTIONS).suite
    assert suite.plan.runs == (SERVER,)
    assert suite.make(SERVER).ok
    assert suite.plan.implicit_runs == {PERFORMANCE}
    assert sorted(map(str, suite.steps_made)) == sorted(map(str, suite.plan.steps))


def test_where_the_run_that_joins_fails_so_does_the_other(make: Make, tmp_path: Path) -> None:
    keep_offline_run(tmp_path / "results", **OPTIONS)
    suite = make(SERVER, dies_in=str(PERFORMANCE), **OPTIONS).suite
    assert suite.make(SERVER).failure == f"{SERVER}: {PERFORMANCE}: died as told"


# What could not be written says so: each result has room for its last word


@pytest.mark.parametrize("at", ["writing.write_reports", "writing.write_index"])
def test_a_run_not_written_says_so(make: Make, monkeypatch: MonkeyPatch, at: str) -> None:
    session = make(ACCURACY)
    assert session.suite.make(ACCURACY).ok
    result = session.recorder.results[0]
    assert (session.folder / RESERVED_FILE).stat().st_size == 16 * 1024
    monkeypatch.setattr(f"mlperf_suite.reports.{at}", full_disk)
    with pytest.raises(OSError):
        session.recorder.write(result)
    assert told(session.folder) == ("failed", f"not everything could be written: {FULL}")
