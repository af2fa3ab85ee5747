"""Decides whether an engine that has work still does it, and ends the processes of one.

An answer, a first token and a step are signs of life. If none comes, the engine's processes are
checked: a stopped or ended process never answers, and neither do processes that use no CPU time
while no GPU computes. A time limit catches the rest.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from mlperf_suite.engines.protocol import (
    SILENCE_S,
    Engine,
    ProcessEngine,
    RemoteEngine,
    TracingEngine,
)
from mlperf_suite.hardware import accelerator_busy, accelerators

POLL_S = 0.5
"""Time between two looks at the processes, in s: each costs well below a millisecond."""
STOPPED_S = 1.5
"""How long a process must be seen stopped or ended, in s: vLLM reports an end itself."""
IDLE_S = 10.0
"""How long processes with work may use neither CPU nor GPU, in s."""
LOAD_IDLE_S = 300.0
"""The same while a model is loaded, in s: a process waits quietly while another process
downloads."""
_GAP_S = 4.0
"""Looks further apart say nothing about the time between them: Ctrl-Z also stops the watcher."""
_BUSY_SHARE = 0.002
"""A share of one core's time. Threads of a hanging process wake up now and then; a process that
computes, or waits for a device in the usual ways, uses hundreds of times as much."""
_ONE_REQUEST_S = 0.5
"""Signals to end that follow within this time are one request."""
_NONE_YET = object()
_ENDED = ("gone", psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """A process at one moment. `status` as psutil names it, or "gone"; `cpu_s` since its start."""

    name: str
    status: str
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of an engine at one moment.

    `now_s`: on any monotonic clock. `signs`: changes whenever the engine makes progress.
    `outstanding`: requests that it was sent and has not answered. `gpu`: whether a GPU computes,
    None if unknown.
    """

    now_s: float
    signs: Hashable
    outstanding: int
    processes: Sequence[ProcessSnapshot] = ()
    gpu: bool | None = False


class Judgement:
    """Decides look by look whether the engine hangs. Pure: it inspects nothing itself."""

    def __init__(self, silence_s: float = SILENCE_S, idle_s: float = IDLE_S) -> None:
        self._silence_s, self._idle_s = silence_s, idle_s
        self._signs: Hashable = _NONE_YET
        self._sign_s = self._seen_s = -math.inf
        self._up_s = 0.0
        self._busy_s = 0.0
        self._cpu_s = 0.0

    def hangs(self, snapshot: Snapshot) -> str | None:
        """Why the engine counts as hanging, for a message; None if it does not."""
        if snapshot.signs != self._signs or not snapshot.outstanding:
            self._signs, self._sign_s = snapshot.signs, snapshot.now_s
            self._begin_idle(snapshot)
        if snapshot.now_s - self._seen_s > _GAP_S:
            self._up_s = snapshot.now_s
            self._begin_idle(snapshot)
        self._seen_s = snapshot.now_s
        if not snapshot.outstanding:
            return None
        silent = snapshot.now_s - self._sign_s > self._silence_s
        why = f"the engine showed no progress for {self._silence_s / 60:g} minutes"
        return self._down_process(snapshot) or self._idle(snapshot) or (why if silent else None)

    def _begin_idle(self, snapshot: Snapshot) -> None:
        self._busy_s = snapshot.now_s
        self._cpu_s = sum(process.cpu_s for process in snapshot.processes)

    def _down_process(self, snapshot: Snapshot) -> str | None:
        down = [p for p in snapshot.processes if p.status in (*_ENDED, psutil.STATUS_STOPPED)]
        if not down:
            self._up_s = snapshot.now_s
            return None
        if snapshot.now_s - self._up_s < STOPPED_S:
            return None
        state = "is stopped" if down[0].status == psutil.STATUS_STOPPED else "has ended"
        return f"the engine hangs: its process {down[0].name} {state}"

    def _idle(self, snapshot: Snapshot) -> str | None:
        cpu_s = sum(process.cpu_s for process in snapshot.processes)
        used_s, elapsed = cpu_s - self._cpu_s, snapshot.now_s - self._busy_s
        # A process that waits for a disk is working, although it uses no CPU time.
        waits = any(process.status == psutil.STATUS_DISK_SLEEP for process in snapshot.processes)
        working = (
            abs(used_s) > _BUSY_SHARE * max(elapsed, self._idle_s)
            or waits
            or snapshot.gpu is not False
        )
        if working or not snapshot.processes:
            self._busy_s, self._cpu_s = snapshot.now_s, cpu_s
            return None
        if elapsed < self._idle_s:
            return None
        return (
            f"the engine hangs: its processes have used neither CPU nor GPU for {self._idle_s:g} s"
        )


class HangDetector:
    """Checks on a working engine whenever its caller asks."""

    def __init__(self, engine: Engine, silence_s: float = SILENCE_S) -> None:
        self._engine = engine
        # The engine that talks to remote servers watches each of them itself.
        self._judgement = Judgement(math.inf if isinstance(engine, RemoteEngine) else silence_s)
        self._watched = engine if isinstance(engine, ProcessEngine) else None
        self._tracing = engine if isinstance(engine, TracingEngine) else None
        self._looked_s = 0.0
        self._last: tuple[Hashable, float] = (None, 0.0)

    def hangs(self, signs: Hashable, outstanding: int, unit: str) -> str | None:
        """Why the engine counts as hanging, in one line; None if it does not.

        `signs`: changes whenever the caller hears from the engine. `outstanding`: how many `unit`
        it was sent and has not answered.
        """
        now = time.monotonic()
        if self._watched is not None and now - self._looked_s < POLL_S:
            return None
        self._looked_s = now
        progress = (signs, self._tracing.steps_made if self._tracing else 0)
        processes = list(map(_look_at, self._watched.processes)) if self._watched else []
        gpu = self._gpu(processes, progress, outstanding)
        verdict = self._judgement.hangs(Snapshot(now, progress, outstanding, processes, gpu))
        return f"{verdict} while {outstanding:,} {unit} waited" if verdict else None

    def _gpu(
        self, processes: Sequence[ProcessSnapshot], progress: Hashable, outstanding: int
    ) -> bool | None:
        """Whether a GPU computes. Asks the driver only if nothing else shows work."""
        if self._watched is None or not self._watched.uses_gpu:
            return False
        progress_before, cpu_before = self._last
        cpu_s = sum(process.cpu_s for process in processes)
        self._last = progress, cpu_s
        moves = progress != progress_before or cpu_s - cpu_before > _BUSY_SHARE * IDLE_S
        return True if moves or not outstanding else accelerator_busy()

    def end(self) -> None:
        """End the processes of a hanging engine first: closing it would wait for their answers."""
        if self._watched is not None:
            end_processes(self._watched.processes, patience_s=1.0)
        self._engine.close()


class LoadWatch:
    """Checks on an engine while it is loaded: on every process started since this was made."""

    def __init__(self, log_file: Path | None, idle_s: float = LOAD_IDLE_S) -> None:
        self._log_file = log_file
        self._judgement = Judgement(math.inf, idle_s)
        self._before = set(descendants())

    @property
    def processes(self) -> list[psutil.Process]:
        """The processes started since, with their children."""
        return [process for process in descendants() if process not in self._before]

    def hangs(self) -> str | None:
        """Why loading counts as hanging, in one line; None if it does not. Ask every POLL_S or so.

        A process that ended is left to its owner: a load starts many that end.
        """
        processes = [p for p in map(_look_at, self.processes) if p.status not in _ENDED]
        written = self._log_file.stat().st_size if self._log_file else 0
        gpu = accelerator_busy() if accelerators() else False
        return self._judgement.hangs(Snapshot(time.monotonic(), written, 1, processes, gpu))


def _look_at(process: psutil.Process) -> ProcessSnapshot:
    try:
        with process.oneshot():
            name = f"{process.pid} ({process.name()})"
            status = process.status()
            times = process.cpu_times()
            running = process.is_running()
    except psutil.NoSuchProcess:
        return ProcessSnapshot(str(process.pid), "gone", 0.0)
    except psutil.AccessDenied:
        return ProcessSnapshot(str(process.pid), "unknown", 0.0)
    return ProcessSnapshot(name, status if running else "gone", times.user + times.system)


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Restore the signal handlers afterwards: vLLM and Ray set their own, which would take SIGTERM
    from the session."""
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        # Elsewhere, nobody could have changed them.
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)


class TerminatedError(KeyboardInterrupt):
    """Another process ended the session, by the signal that it names: handled like Ctrl-C."""


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """CI systems cancel jobs with SIGTERM, and a terminal that is closed sends SIGHUP: handle both
    like Ctrl-C, and stop and keep everything. Under nohup SIGHUP stays ignored."""
    last_s = -math.inf

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last_s
        before_s, last_s = last_s, time.monotonic()
        # timeout(1) signals its child and then its whole group: a second interrupt at once would
        # interrupt the stopping.
        if last_s - before_s > _ONE_REQUEST_S:
            raise TerminatedError(signal.Signals(number).name)

    signals = (signal.SIGTERM, signal.SIGHUP)
    before = {s: signal.getsignal(s) for s in signals}
    for number, handler in before.items():
        if number == signal.SIGTERM or handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def descendants() -> list[psutil.Process]:
    """This process's children and their children.

    Returns Process objects, since the id of an ended process may be reused. Leaves out the resource
    trackers of multiprocessing, which ignore a request to end and end with their owner.
    """
    children = psutil.Process().children(recursive=True)
    return [child for child in children if not _is_tracker(child)]


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any("multiprocessing.resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False


def end_processes(processes: Sequence[psutil.Process], patience_s: float = 5.0) -> None:
    """End these processes: ask first, then kill those still alive after `patience_s`."""
    alive = [process for process in processes if process.is_running()]
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(alive, timeout=patience_s)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=patience_s)
