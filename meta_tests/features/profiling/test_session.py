"""Runs under a profiler: how long, what they leave, and that nothing takes them for a result."""

import contextlib
import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.features.profiling.nsys_stand_in import put_nsys
from meta_tests.plugin.pytest_output import collect, collected_tests, reasons
from meta_tests.session.scripted_session import (
    LLAMA,
    PERFORMANCE,
    Make,
    ScriptedEngine,
    ScriptedSession,
)
from meta_tests.session.timing.kept_offline_run import keep_offline_run
from mlperf_suite import ranges
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.errors import EngineError, RunError, UsageError
from mlperf_suite.features.profiling.report import REPORT
from mlperf_suite.features.profiling.trace import PROFILE, Operation
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.reports.writing import index_markdown
from mlperf_suite.results.baseline import load_baselines
from mlperf_suite.results.run_folder import read_entries, read_summary, trends_of
from mlperf_suite.results.schema import PROFILED
from mlperf_suite.results.schema import STAND_IN_LABEL as LABEL
from mlperf_suite.session.engine_source import EngineRequest
from mlperf_suite.session.engines import load_vllm
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.load_run import samples_for
from mlperf_suite.settings import resolve_settings

SERVER = RunKey(LLAMA, "Server", "performance")
TORCH = {"profile_run": "torch", "profile_seconds": "0.2"}


class ProfilingEngine(ScriptedEngine):
    """Leaves a trace of two operations, or what it is told to."""

    leaves = "rank0.1.pt.trace.json.gz"
    refuses = ""
    on = False

    def start_profile(self) -> None:
        if self.refuses == "start":
            raise EngineError("vLLM's start_profile: no profiler today")
        self.on = True

    def stop_profile(self, folder: Path) -> None:
        if self.refuses == "stop":
            raise EngineError("vLLM's stop_profile: no")
        assert self.on
        self.on = False
        if self.leaves:
            event = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
            events = [
                event | {"name": "mm", "ts": 0, "dur": 30},
                event | {"name": "copy", "ts": 30, "dur": 10},
            ]
            text = json.dumps({"traceEvents": events})
            (folder / self.leaves).write_bytes(gzip.compress(text.encode()))


class LeavesNothing(ProfilingEngine):
    leaves = ""


class Refuses(ProfilingEngine):
    refuses = "start"


class RefusesAtTheEnd(LeavesNothing):
    refuses = "stop"


def profiled(make: Make, *keys: RunKey, **options: Any) -> ScriptedSession:
    values = {"offline_target_qps": "40", "kind": ProfilingEngine, **TORCH, **options}
    session = make(*keys, **values)
    for key in keys:
        assert session.suite.make(key).ok, session.suite.make(key).failure
    return session


def test_a_profiled_run_leaves_its_trace_and_is_no_result(make: Make, tmp_path: Path) -> None:
    session = profiled(make, PERFORMANCE)
    folder = session.folder
    summary = read_summary(folder)
    assert summary is not None and PROFILE in summary.parts
    profile, files = summary.parts[PROFILE], ("profile/rank0.1.pt.trace.json.gz",)
    assert (profile.profiler, profile.files) == ("torch", files)
    assert (folder / files[0]).is_file()
    assert profile.opens.endswith(f"chrome://tracing: {files[0]}.")
    assert profile.operations is not None
    mm, copy = Operation("mm", 1, 0.03, 0.75), Operation("copy", 1, 0.01, 0.25)
    assert profile.operations.operations == (mm, copy)
    detail = read_logs(folder / "Performance").detail
    assert detail["effective_min_duration_ms"] == 200
    # 0.2 s at 40 a second, of 84 samples.
    assert detail["effective_performance_sample_count"] == 8
    assert not session.engines[0].on
    assert summary.meta.label == f"{PROFILED}; {LABEL}"
    assert (summary.meta.profiler, summary.no_result) == ("torch", PROFILED)
    assert {(v.status, v.why) for v in summary.verdicts} == {("not judged", PROFILED)}
    for name in ("report.md", "report.html"):
        text = (folder / name).read_text()
        assert f"{summary.meta.label}:" in text
        assert "perfetto.dev" in text and "75.0" in text and "requests per hour" not in text
    said = [line.text for line in REPORT.closing(summary)]
    assert said == [profile.opens, "longest on the CPU: mm, 75.0%"]
    (judged,) = judge_folder(folder)
    statuses = {v.rule: v.status for v in judged.verdicts}
    assert statuses.pop("kept_run_unchanged") == "passed"
    assert statuses.pop("kept_run_figure_agrees") == "passed"
    # Its session shortened it, which excuses nothing here.
    assert set(statuses.values()) == {"not judged", "failed"}
    with pytest.raises(UsageError, match=f"{folder}: {PROFILED}"):
        load_baselines([folder])
    (entry,) = read_entries(tmp_path / "results")
    assert PROFILED in index_markdown([entry])
    assert trends_of([entry, entry]) == []
    assert json.loads((folder / "config.json").read_text())["settings"]["profile_run"] == "torch"


@pytest.mark.parametrize("kept", [False, True])
def test_servers_rate_is_not_profiled(make: Make, short: None, tmp_path: Path, kept: bool) -> None:
    """Also where a kept run's rate turns out to be another system's, once the engine is loaded."""
    if kept:
        options = {"warmup": "0", "offline_target_qps": "40", **TORCH}
        keep_offline_run(tmp_path / "results", **options)
    # Each sample is sent once; at the stand-in's rate that is soon over.
    session = profiled(make, SERVER)
    assert PROFILE not in session.summary(PERFORMANCE).parts
    assert session.summary(PERFORMANCE).no_result == PROFILED
    assert PROFILE in session.summary(SERVER).parts


def test_server_after_a_profiled_offline_run_takes_its_rate_from_a_few_prompts(make: Make) -> None:
    session = profiled(make, PERFORMANCE, SERVER)
    assert all(PROFILE in session.summary(key).parts for key in (PERFORMANCE, SERVER))
    assert [step.key for step in session.suite.steps_made if step.kind == "rate"] == [PERFORMANCE]


@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        (ScriptedEngine, "--profile-run torch: stand-in engine has no profiler"),
        (LeavesNothing, "--profile-run torch: the profiler left no trace in "),
        (Refuses, "vLLM's start_profile: no profiler today"),
    ],
)
def test_a_profile_that_fails_is_said(make: Make, kind: type[ScriptedEngine], failure: str) -> None:
    session = make(PERFORMANCE, kind=kind, offline_target_qps="40", **TORCH)
    assert (session.suite.make(PERFORMANCE).failure or "").startswith(f"{PERFORMANCE}: {failure}")
    meta = session.summary(PERFORMANCE).meta
    assert (meta.status, meta.profiler) == ("failed", "torch")


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: MonkeyPatch) -> Path:
    """Put a stand-in for nsys on the path. Returns the file with the commands that it was given."""
    nvtx = SimpleNamespace(start_range=lambda **names: 1, end_range=lambda number: None)
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    put_nsys(tmp_path, monkeypatch)
    return tmp_path / "told"


def test_nsight_systems_writes_into_the_runs_folder(make: Make, nsys: Path) -> None:
    session = profiled(make, PERFORMANCE, kind=LeavesNothing, profile_run="cuda")
    assert ranges.are_on()
    profile = session.summary(PERFORMANCE).parts[PROFILE]
    assert profile.files == ("profile/trace.nsys-rep",)
    assert profile.operations is None and "nsys-ui" in profile.opens
    assert len(REPORT.closing(session.summary(PERFORMANCE))) == 1
    session.suite.close()
    assert not ranges.are_on()


@pytest.mark.parametrize(
    ("kind", "ends", "failure"),
    [
        (Refuses, None, "vLLM's start_profile: no profiler today"),
        (RefusesAtTheEnd, None, "vLLM's stop_profile: no"),
        (RefusesAtTheEnd, EngineError("died of old age"), "died of old age"),
        (LeavesNothing, RunError("out of disk"), "out of disk"),
        (LeavesNothing, KeyboardInterrupt(), "interrupted (KeyboardInterrupt)"),
    ],
)
def test_nsight_systems_stops_recording_however_a_run_ends(
    make: Make, nsys: Path, monkeypatch: MonkeyPatch, kind: Any, ends: Any, failure: str
) -> None:
    options = TORCH | {"profile_run": "cuda"}
    session = make(PERFORMANCE, kind=kind, offline_target_qps="40", **options)

    def dies(*arguments: Any, **keywords: Any) -> None:
        session.engines[0]._died = isinstance(ends, EngineError)
        raise ends

    if ends is not None:
        monkeypatch.setattr("mlperf_suite.session.load_run.run_loadgen", dies)
    with contextlib.suppress(KeyboardInterrupt):
        assert session.suite.make(PERFORMANCE).failure == f"{PERFORMANCE}: {failure}"
    assert session.summary(PERFORMANCE).meta.reason.endswith(failure)
    commands = nsys.read_text().split()
    assert commands.count("start") == commands.count("stop") == 1
    assert not isinstance(ends, RunError) or not session.engines[0].on


def test_a_failed_check_leaves_no_ranges(make: Make, nsys: Path, monkeypatch: MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise UsageError("no such thing")

    with monkeypatch.context() as patch:
        patch.setattr("mlperf_suite.session.loadgen_kind.LoadGenRuns.check", fails)
        with pytest.raises(UsageError, match="no such thing"):
            make(PERFORMANCE, kind=ProfilingEngine, profile_run="cuda")
    assert not ranges.are_on()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="--profile-run cuda: Nsight Systems"):
        make(PERFORMANCE, kind=ProfilingEngine, profile_run="cuda")


def test_a_run_takes_as_many_samples_as_its_time_holds() -> None:
    rates = (3, 0.1, 1000, None)
    assert [samples_for(5, per_second, 84) for per_second in rates] == [15, 1, 84, 84]


def test_a_profile_is_of_performance_runs_and_leaves_no_record() -> None:
    output, tests = collect("--profile-run=torch"), collected_tests("--profile-run=torch")
    assert tests and set(tests) <= set(collected_tests("-m", "performance"))
    assert not any("test_run.py" in test for test in tests)
    assert "(--profile-run makes performance runs)" in reasons(output)
    assert "benchmark record (--profile-run makes no result)" in reasons(output)
    assert "--profile-seconds: can only be used with" in collect("--profile-seconds=1", code=4)
    output = collect("--profile-run=torch", "--repeat=2", code=4)
    assert "--repeat: cannot be used with --profile-run torch" in output


def test_only_the_engine_of_runs_is_profiled(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    configs: list[VllmConfig] = []
    monkeypatch.setattr(VllmEngine, "load", configs.append)
    inputs = Inputs(resolve_settings({"profile_run": "torch"}, {}), [])
    monkeypatch.setattr(Inputs, "context_needed", SimpleNamespace())
    for role in ("runs", "scoring"):
        load_vllm(inputs, EngineRequest(role, tmp_path / "run" / "engine.log"))
    assert [config.profiler for config in configs] == ["torch", None]
    assert configs[0].profile_folder == tmp_path / "run" / "profile"
