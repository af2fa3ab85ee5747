"""Runs LoadGen, and returns also if the engine dies or hangs.

LoadGen cannot be aborted: a run ends once it has its answers and its minimum duration. It therefore
runs on its own thread. When the engine fails or the user interrupts, the SUT gives every query an
empty answer. A run that still does not end within a grace period is abandoned: its thread goes on,
and this process can start no other run (`abandoned`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib.metadata
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlperf_loadgen as lg

from mlperf_suite import ranges
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS, Round, round_of_seeds
from mlperf_suite.engines.hang_detector import HangDetector
from mlperf_suite.engines.protocol import SILENCE_S, Engine, EngineTrace, TracingEngine
from mlperf_suite.errors import RunError, UsageError
from mlperf_suite.loadgen.clock_watch import ClockWatch
from mlperf_suite.loadgen.load_plan import LoadPlan, loadgen_mode
from mlperf_suite.loadgen.logs import RunLogs, read_logs
from mlperf_suite.loadgen.request_parts import issued_s, parts_of_requests
from mlperf_suite.loadgen.timeline import Timeline, timeline_of, write_timeline

if TYPE_CHECKING:
    from mlperf_suite.loadgen.sut import Sut

USER_CONF, AUDIT_CONF = "user.conf", "audit.config"
_GRACE_S = 5.0
_TURN_S = 0.0002
"""How long a Python thread may run while another waits, in s, during a run. LoadGen's call waits
this long for the engine's thread; Python's default is 5 ms, at which 18,000 queries/s were held,
and 40,000 at this value."""
_TICK_S = 0.25

_abandoned: threading.Event | None = None
"""Set when the abandoned run has finished after all."""
_documented_call_spent = False


def abandoned() -> bool:
    """Whether an abandoned LoadGen run is still going on in this process."""
    return _abandoned is not None and not _abandoned.is_set()


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: samples issued and done, output tokens, seconds since its start."""

    samples_issued: int
    samples_done: int
    tokens: int
    elapsed_s: float


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class LoadRun:
    """A completed run: LoadGen's logs, and the counts during it.

    `elapsed_s`: from LoadGen's start to its end. `timeline`: None if nothing was answered, no times
    were kept, or it could not be made; `untimed` then gives the reason. `span_s`: the measured span
    in s of time.monotonic, from the first request's issue to the last answer; None as `timeline`.
    `rerun_reason`: why a run before it did not count, empty if there was none.
    """

    logs: RunLogs
    elapsed_s: float
    samples: int
    tokens: int
    timeline: Timeline | None = None
    span_s: tuple[float, float] | None = None
    untimed: str = ""
    rerun_reason: str = ""


def loadgen_version() -> str:
    """The version of the installed LoadGen."""
    return importlib.metadata.version("mlcommons-loadgen")


def check_round(round_: Round) -> None:
    """Raise UsageError if the installed LoadGen ships the seeds of another round."""
    settings = _official_settings(LLAMA3_1_8B.scenarios[0].loadgen_model, "Offline")
    seeds = {name: getattr(settings, name) for name in round_.seeds}
    if seeds == round_.seeds:
        return
    shipped = round_of_seeds(seeds)
    is_for = f"is of round {shipped.name}" if shipped else "is of an unknown round"
    raise UsageError(
        f"--round {round_.name}: the installed LoadGen {loadgen_version()} {is_for}; "
        f"install mlcommons-loadgen {round_.loadgen}, or choose --round "
        f"{shipped.name if shipped else '|'.join(ROUNDS)}"
    )


def _official_settings(model: str, scenario: str) -> Any:
    settings = lg.TestSettings()
    # Type 0 is the built-in mlperf.conf. The documented single call with user.conf loads it only
    # the first time in a process; later runs would silently lack seeds and limits.
    settings.FromConfig("", model, scenario, 0)
    return settings


def _spend_the_documented_call(user_conf: Path) -> None:
    """Make the process's first documented FromConfig call on unused settings.

    LoadGen itself makes that call for an audit.config. If it were the first, it would load
    mlperf.conf again, for no model, and overwrite the target rate and the limits.
    """
    global _documented_call_spent
    if not _documented_call_spent:
        _documented_call_spent = True
        lg.TestSettings().FromConfig(str(user_conf), "*", "Offline")


def loadgen_settings(plan: LoadPlan, user_conf: Path) -> Any:
    """LoadGen's settings for a plan: the official ones, overridden by those of user.conf."""
    scenario = plan.scenario
    _spend_the_documented_call(user_conf)
    settings = _official_settings(scenario.loadgen_model, scenario.loadgen_scenario)
    settings.FromConfig(str(user_conf), scenario.loadgen_model, scenario.loadgen_scenario, 2)
    settings.scenario = getattr(lg.TestScenario, scenario.loadgen_scenario)
    settings.mode = getattr(lg.TestMode, loadgen_mode(plan.mode))
    return settings


def log_settings(folder: Path) -> Any:
    """What LoadGen writes, and where: its three logs, no trace."""
    output = lg.LogOutputSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    settings = lg.LogSettings()
    settings.log_output = output
    # Nothing reads the trace, which is tens of megabytes.
    settings.enable_trace = False
    return settings


def run_loadgen(
    plan: LoadPlan,
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    folder: Path,
    on_progress: OnProgress | None = None,
    grace_s: float = _GRACE_S,
    silence_s: float = SILENCE_S,
    *,
    stops: Sequence[str] = (),
    end_ids: Sequence[int] = (),
    with_times: bool = True,
) -> LoadRun:
    """Run LoadGen once; its logs are in `folder`, together with user.conf and timeline.json.

    `stops`, `end_ids`, `with_times`: as in `Sut`; without times there is no timeline.

    Raises RunError if the engine failed or hangs (see `HangDetector`; after `silence_s` without
    progress at the latest, it is ended), or if LoadGen did not apply the settings. Lets
    KeyboardInterrupt through. LoadGen's logs are kept in every case.
    """
    global _abandoned
    if abandoned():
        raise RunError("an earlier run was abandoned in this process: start the suite again")
    folder.mkdir(parents=True, exist_ok=True)
    user_conf, audit_conf = folder / USER_CONF, folder / AUDIT_CONF
    user_conf.write_text(plan.user_conf_text())
    if plan.audit_conf:
        audit_conf.write_text(plan.audit_conf_text())
    from mlperf_suite.loadgen.sut import Sut

    streams = plan.scenario.streams
    sut = Sut(
        engine,
        prompts,
        generation,
        stream=streams,
        stops=stops,
        end_ids=end_ids,
        with_times=with_times,
    )
    _take_trace(engine)  # what came before this run
    # Not Thread.join: after Ctrl-C, Python 3.11's takes a running thread for ended.
    end = threading.Event()
    thread = threading.Thread(
        # Without a name, LoadGen uses any audit.config in the current folder.
        target=_start_test,
        args=(
            sut,
            plan,
            loadgen_settings(plan, user_conf),
            log_settings(folder),
            str(audit_conf),
            end,
        ),
        name="LoadGen",
        daemon=True,
    )
    with _collector_spares_what_is_there():
        start_s, clocks = time.monotonic(), ClockWatch()
        thread.start()
        try:
            _wait(end, sut, engine, on_progress, silence_s, clocks)
        except BaseException as error:
            sut.fail(f"interrupted ({type(error).__name__})")
            raise
        finally:
            if sut.failure is not None:
                # Before the wait, which another Ctrl-C ends: LoadGen still calls into this process.
                _abandoned = end
                engine.abort()
                end.wait(grace_s)
    if sut.failure is not None:
        raise RunError(sut.failure)
    elapsed = time.monotonic() - start_s
    clock = clocks.figures(_answering_s(sut))
    logs = dataclasses.replace(read_logs(folder), clock=clock)
    if not logs.detail.values:
        raise RunError(f"{folder}: LoadGen left no log: {logs.detail.damage[0]}")
    differences = settings_not_applied(plan, logs)
    if differences:
        reasons = "; ".join([*differences, *logs.clock_faults])
        raise RunError(f"LoadGen did not apply the settings: {reasons}")
    timeline: Timeline | None = None
    span_s: tuple[float, float] | None = None
    untimed = ""
    try:
        timeline, span_s = _timeline(plan, engine, sut, logs, prompts)
    except Exception as error:
        # LoadGen's figures are complete without it.
        text = " ".join(f"{type(error).__name__}: {error}".split())
        untimed = f"the requests' times could not be read: {text}"
    if timeline is not None:
        write_timeline(folder, timeline)
    return LoadRun(logs, elapsed, sut.samples_done, sut.tokens_done, timeline, span_s, untimed)


@contextlib.contextmanager
def _collector_spares_what_is_there() -> Iterator[None]:
    """Keep Python's garbage collector from scanning the existing objects; it collects new ones.

    Prompts, model and libraries are millions of objects; while a full collection scans them all, no
    thread receives tokens.
    """
    frozen_by_others = gc.get_freeze_count()
    # Without a collection first, which takes as long as what it saves: garbage can wait, too.
    gc.freeze()
    try:
        yield
    finally:
        if not frozen_by_others:
            gc.unfreeze()


def _timeline(
    plan: LoadPlan, engine: Engine, sut: Sut, logs: RunLogs, prompts: Sequence[Sequence[int]]
) -> tuple[Timeline | None, tuple[float, float] | None]:
    """The timeline of a run, and its first issue and last end in s of time.monotonic; None if
    nothing was answered, or no times were kept."""
    trace = _take_trace(engine)
    issue_s = issued_s(sut.requests, plan, logs.detail)
    rows = parts_of_requests(sut.requests, trace.timestamps if trace else None, issue_s)
    if rows is None:
        return None, None
    span_s = float(rows.issued_s.min()), float(rows.answer_s.max())
    limit = engine.description.settings.get("max_num_seqs")
    lengths = [len(prompt) for prompt in prompts]
    timeline = timeline_of(rows, trace, lengths, limit if isinstance(limit, int) else None)
    return timeline, span_s


def _answering_s(sut: Sut) -> float | None:
    """The time from the first query to the last answer; None if no times were kept."""
    import numpy as np

    answered_s = np.asarray(sut.requests.answer_s)
    if not np.isfinite(answered_s).any():
        return None
    return float(np.nanmax(answered_s) - np.asarray(sut.requests.receipt_s).min())


def _wait(
    end: threading.Event,
    sut: Sut,
    engine: Engine,
    on_progress: OnProgress | None,
    silence_s: float,
    clocks: ClockWatch,
) -> None:
    """Wait until LoadGen ends or the run fails; an engine that hangs fails the run."""
    start_s, watch = time.monotonic(), HangDetector(engine, silence_s)
    while not end.wait(_TICK_S) and not sut.failure_event.is_set():
        clocks.read()
        elapsed = time.monotonic() - start_s
        if on_progress is not None:
            on_progress(Progress(sut.samples_issued, sut.samples_done, sut.tokens_done, elapsed))
        hangs = watch.hangs(sut.progress, sut.samples_waiting, "samples")
        if hangs:
            sut.fail(hangs)
            watch.end()


def _take_trace(engine: Engine) -> EngineTrace | None:
    return engine.take_trace() if isinstance(engine, TracingEngine) else None


def _start_test(
    sut: Sut, plan: LoadPlan, settings: Any, log_settings: Any, audit: str, end: threading.Event
) -> None:
    try:
        _test(sut, plan, settings, log_settings, audit)
    except Exception as error:
        sut.fail(f"LoadGen stopped: {type(error).__name__}: {error}")
    finally:
        end.set()


def _test(sut: Sut, plan: LoadPlan, settings: Any, log_settings: Any, audit: str) -> None:
    issue, flush, load, unload = sut.issue, sut.flush, _keep, _keep
    phases = ranges.Phases()
    if ranges.are_on():
        phases.begin("LoadGen: start")
        issue = phases.around("LoadGen: issue", issue)
        flush = phases.around("LoadGen: drain", flush)
        load = phases.around("LoadGen: load samples", load)
        unload = phases.around("LoadGen: write logs", unload)
    loadgen_sut = lg.ConstructSUT(issue, flush)
    qsl = lg.ConstructQSL(plan.samples, plan.samples, load, unload)
    turn_s = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_S)
    try:
        lg.StartTestWithLogSettings(loadgen_sut, qsl, settings, log_settings, audit)
    finally:
        with contextlib.suppress(Exception):
            lg.DestroyQSL(qsl)
            lg.DestroySUT(loadgen_sut)
        sys.setswitchinterval(turn_s)
        phases.end()


def _keep(indices: list[int]) -> None:
    """LoadGen's load and unload callbacks, with nothing to do: all prompts are in memory."""


def settings_not_applied(plan: LoadPlan, logs: RunLogs) -> list[str]:
    """Each setting whose value in the log differs from the plan, as `key: asked x, found y`."""
    differences = [
        f"{key}: asked {value}, found {logs.detail[key]}"
        for key, value in plan.log_values.items()
        if not _same(value, logs.detail[key])
    ]
    return differences + [f"the log is damaged: {line}" for line in logs.detail.damage]


def _same(value: object, logged: object) -> bool:
    if isinstance(value, float) and isinstance(logged, int | float):
        # LoadGen logs six significant digits.
        return abs(value - logged) <= 1e-5 * abs(value)
    return value == logged
