"""An engine that hangs is found by what is seen of it, and one that works is left alone."""

import dataclasses
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines import hang_detector
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.hang_detector import (
    IDLE_S,
    LOAD_IDLE_S,
    POLL_S,
    STOPPED_S,
    HangDetector,
    Judgement,
    LoadWatch,
    ProcessSnapshot,
    Snapshot,
    TerminatedError,
    descendants,
    terminated_like_interrupted,
)
from mlperf_suite.engines.protocol import ProcessEngine
from mlperf_suite.errors import EngineDiedError
from mlperf_suite.hardware import Accelerator

SLEEPS, STOPPED, ENDED = psutil.STATUS_SLEEPING, psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE
LOOKS = 400


def process(status: str = SLEEPS, cpu_s: float = 5.0) -> ProcessSnapshot:
    return ProcessSnapshot("12 (engine)", status, cpu_s)


def judged(looks: Sequence[Snapshot], silence_s: float = 1e9) -> tuple[float, str] | None:
    """When an engine first counted as hanging, and in which words."""
    judgement = Judgement(silence_s)
    for look in looks:
        verdict = judgement.hangs(look)
        if verdict:
            return look.now_s, verdict
    return None


def looks(*, count: int = LOOKS, start_s: float = 1000.0, **fields: Any) -> list[Snapshot]:
    same = Snapshot(start_s, "sign", 3, (process(),))
    look = dataclasses.replace(same, **fields)
    return [dataclasses.replace(look, now_s=start_s + i * POLL_S) for i in range(count)]


@pytest.mark.parametrize(("status", "words"), [(STOPPED, "is stopped"), (ENDED, "has ended")])
def test_a_process_that_cannot_answer_is_seen_within_seconds(status: str, words: str) -> None:
    same = looks(processes=(process(), process(status)))
    # What it said before does not hide it.
    for history in (same, [dataclasses.replace(look, signs=i) for i, look in enumerate(same)]):
        verdict = judged(history)
        assert verdict is not None
        assert STOPPED_S <= verdict[0] - 1000 <= STOPPED_S + POLL_S
        assert verdict[1] == f"the engine hangs: its process 12 (engine) {words}"


def test_a_moment_of_being_stopped_is_passed_over_and_so_is_a_pause_of_everything() -> None:
    """Ctrl-Z stops the suite together with its engine; after `fg` both go on."""
    up, down = looks(), looks(processes=(process(STOPPED),))
    assert judged([down[i] if i % 3 else up[i] for i in range(20)]) is None
    assert judged([*down[:2], *looks(start_s=5000, count=2)]) is None
    assert judged([*down[:2], *looks(start_s=5000, processes=(process(STOPPED),))]) is not None


def test_processes_that_use_nothing_are_seen_after_a_while() -> None:
    verdict = judged(looks())
    assert verdict is not None
    assert IDLE_S <= verdict[0] - 1000 <= IDLE_S + POLL_S
    assert verdict[1] == "the engine hangs: its processes have used neither CPU nor GPU for 10 s"


@pytest.mark.parametrize(
    "works",
    [
        {"outstanding": 0},
        {"gpu": True},
        {"gpu": None},
        {"processes": ()},
        {"processes": (process(), process(psutil.STATUS_DISK_SLEEP))},
    ],
)
def test_what_may_be_work_is_left_to_the_limit(works: dict[str, Any]) -> None:
    assert judged(looks(**works)) is None
    limited = judged(looks(**works), silence_s=60)
    if works == {"outstanding": 0}:
        assert limited is None
    else:
        assert limited is not None
        assert limited[1] == "the engine showed no progress for 1 minutes"
        assert 60 < limited[0] - 1000 <= 60 + POLL_S


@given(data=st.data())
def test_an_engine_that_works_is_never_flagged(data: st.DataObject) -> None:
    """Signs, CPU time or a GPU: any of them, in any order, with pauses shorter than the limit."""
    kinds = data.draw(st.lists(st.sampled_from(["sign", "cpu", "gpu", "gap"]), min_size=1))
    now, sign, cpu, history = 0.0, 0, 0.0, []
    for kind in kinds:
        for _ in range(data.draw(st.integers(0, int(IDLE_S / POLL_S) - 2))):
            now += POLL_S
            history.append(Snapshot(now, sign, 1, (process(cpu_s=cpu),)))
        now += data.draw(st.floats(5, 1e5)) if kind == "gap" else POLL_S
        sign += kind == "sign"
        cpu += data.draw(st.floats(0.03, POLL_S)) if kind == "cpu" else 0
        history.append(Snapshot(now, sign, 1, (process(cpu_s=cpu),), kind == "gpu"))
    assert judged(history) is None


class _InAProcess(StandInEngine):
    """A stand-in whose work is done, as far as one can see, in a process of its own."""

    uses_gpu = False

    def __init__(self, *watched: psutil.Process) -> None:
        super().__init__(Delays(3600), lambda prompt: [1])
        self.processes = watched


@pytest.fixture
def child() -> Iterator[psutil.Process]:
    """A process that uses a little of the CPU all the time."""
    busy = "import time\nwhile True: sum(range(20000)); time.sleep(0.01)"
    busy_process = subprocess.Popen([sys.executable, "-c", busy])
    yield psutil.Process(busy_process.pid)
    # A stopped process is killed all the same.
    busy_process.kill()
    busy_process.wait(120)


def wait_for(process: psutil.Process, status: str) -> None:
    while process.status() != status:
        time.sleep(0.001)


def stop(process: psutil.Process) -> None:
    process.suspend()
    wait_for(process, STOPPED)


def watched(engine: StandInEngine, until_s: float) -> tuple[float, str] | None:
    """The watch's first word of an engine that gives no sign, on a clock of this test's own."""
    watch, now = HangDetector(engine), 100.0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mlperf_suite.engines.hang_detector.time.monotonic", lambda: now)
        while now < 100 + until_s:
            verdict = watch.hangs("no sign", 14, "samples")
            if verdict:
                return now - 100, verdict
            now += POLL_S
    return None


@pytest.mark.parametrize(
    ("stops", "state"),
    [(True, r" \(.*\) is stopped"), (False, " has ended")],
    ids=["stopped", "gone"],
)
def test_a_real_process_that_cannot_answer_is_seen_and_ended(
    child: psutil.Process, stops: bool, state: str
) -> None:
    if stops:
        stop(child)
    else:
        child.kill()
        child.wait(120)
    engine = _InAProcess(child)
    assert isinstance(engine, ProcessEngine)
    verdict = watched(engine, 60)
    assert verdict is not None
    assert verdict[0] <= 2.5
    line = f"the engine hangs: its process {child.pid}{state} while 14 samples waited"
    assert re.fullmatch(line, verdict[1])
    HangDetector(engine).end()
    assert not child.is_running() or child.status() == ENDED
    assert not engine.alive


def test_another_process_with_an_ended_ones_id_is_not_taken_for_it(
    child: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = psutil.Process(child.pid)
    # psutil knows a process by its id and its start.
    monkeypatch.setattr(ended, "_ident", (child.pid, 0.0))
    engine = _InAProcess(ended)
    verdict = watched(engine, 60)
    assert verdict is not None and verdict[1].endswith("has ended while 14 samples waited")
    HangDetector(engine).end()
    assert child.is_running() and child.status() != ENDED
    monkeypatch.setattr("mlperf_suite.engines.hang_detector.descendants", lambda: [ended])
    load = LoadWatch(None)
    monkeypatch.setattr("mlperf_suite.engines.hang_detector.descendants", lambda: [child])
    assert load.processes == [child]


def test_a_load_is_watched_by_the_processes_that_it_starts() -> None:
    """Neither those that were there before count, nor those that ended, nor a pause that is
    short."""
    idle, now = ["sleep", "600"], 100.0

    def first_word(watch: LoadWatch, until_s: float) -> str | None:
        nonlocal now
        end = now + until_s
        while now < end:
            now += POLL_S * 4
            if why := watch.hangs():
                return why
        return None

    with subprocess.Popen(idle) as older, pytest.MonkeyPatch.context() as patched:
        stop(psutil.Process(older.pid))
        watch = LoadWatch(None)
        patched.setattr("mlperf_suite.engines.hang_detector.time.monotonic", lambda: now)
        assert first_word(watch, 2 * LOAD_IDLE_S) is None
        with subprocess.Popen(idle) as own, subprocess.Popen(["true"]) as ended:
            wait_for(psutil.Process(ended.pid), ENDED)
            wait_for(psutil.Process(own.pid), SLEEPS)
            assert first_word(watch, 0.9 * LOAD_IDLE_S) is None
            assert f"for {LOAD_IDLE_S:g} s" in str(first_word(watch, LOAD_IDLE_S))
            own.kill()
        older.kill()


@pytest.mark.parametrize("busy", [True, False])
def test_the_gpu_is_asked_where_no_cpu_is_used(monkeypatch: pytest.MonkeyPatch, busy: bool) -> None:
    monkeypatch.setattr(hang_detector, "accelerators", lambda: (Accelerator("a GPU"),))
    monkeypatch.setattr(hang_detector, "accelerator_busy", lambda: busy)
    with subprocess.Popen(["sleep", "600"]) as waits:
        engine = _InAProcess(psutil.Process(waits.pid))
        engine.uses_gpu = True
        # Its start takes CPU time, which the watch must not see come.
        wait_for(engine.processes[0], SLEEPS)
        assert (watched(engine, 60) is None) == busy
        engine.close()
        waits.kill()


def test_requests_outside_a_run_are_watched_too() -> None:
    engine = StandInEngine(Delays(3600), lambda prompt: [1])
    with pytest.raises(
        EngineDiedError, match=r"showed no progress for 0\.01 minutes while 2 requests"
    ):
        generate_all(engine, [[1], [2]], Generation(), silence_s=0.6)
    assert not engine.alive


# Processes and their end


_SLEEPS = "import time; time.sleep(600)"


def test_a_resource_tracker_is_no_process_of_the_engine() -> None:
    """It does not end when asked to: each close of an engine would wait for it."""
    tracker = "from multiprocessing.resource_tracker import main; " + _SLEEPS
    children = [subprocess.Popen([sys.executable, "-c", code]) for code in (tracker, _SLEEPS)]
    pids = {process.pid for process in descendants()}
    for child in children:
        child.kill()
        child.wait(120)
    assert {child.pid for child in children} & pids == {children[1].pid}


def test_two_signals_at_once_are_one_request_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As timeout(1) sends them: the second must not interrupt the stopping."""
    interrupts = []
    with terminated_like_interrupted():
        for at in (10.0, 10.1, 10.7):
            monkeypatch.setattr(
                "mlperf_suite.engines.hang_detector.time.monotonic", lambda at=at: at
            )
            try:
                # Handled before it returns, or in the next line.
                signal.raise_signal(signal.SIGTERM)
                monkeypatch.undo()
            except TerminatedError as error:
                interrupts.append((at, str(error)))
    assert interrupts == [(10.0, "SIGTERM"), (10.7, "SIGTERM")]
