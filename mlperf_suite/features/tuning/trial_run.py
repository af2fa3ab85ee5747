"""One trial: a kept run of the suite in a process of its own, which may crash or hang.

Also what the probe of its engine's speed says of it, seconds after that is loaded; the processes
that it left behind, which still write into its files (one in a group or session of its own, or
whose parent was killed, has the run's output all the same); and its line in the tuning's folder, so
that an interrupted tuning goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import os.path
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from mlperf_suite.engines.hang_detector import end_processes
from mlperf_suite.engines.vllm_environment import last_error
from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning.space import Settings, Trial, run_arguments, run_variables
from mlperf_suite.features.tuning.target import TrialFiles, TuneTarget, costs_of, trial_files
from mlperf_suite.loadgen.timeline import read_timeline
from mlperf_suite.results import typed_json
from mlperf_suite.results.run_folder import ENGINE_LOG, read_config, run_folders
from mlperf_suite.session.timing.estimate import EngineSpeed

_STOP_S = 20.0
"""How long a run may take to write what it has after Ctrl-C before it is killed."""
_POLL_S = 0.5
EarlyEndCheck = Callable[[Path], Trial | None]
"""Gets the results folder of a run that goes on; the trial as which it is ended early, or None."""


@dataclass(frozen=True, slots=True)
class MeasuredTrial:
    """A trial, the folder of its run, how long it took, and what the run says besides its rate.

    `samples`: how many it had. `costs`: see `costs_of`. `work`: what an Offline run had to do, and
    `probe`: the tokens/s that the probe of its engine's speed says of that; None if unknown.
    """

    trial: Trial
    folder: str
    seconds: float = 0.0
    samples: int | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    work: Work | None = None
    probe: float | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A run to make: in which new folder, with which settings, and of which sessions of the suite,
    one after another, each with its own options beside the common ones.

    `limit_s`: seconds after which it is ended as one that hangs. `variables`: environment variables
    besides the settings' own. `stopped`: set when the tuning ends, and the run with it.
    """

    folder: Path
    settings: Settings
    sessions: Sequence[Sequence[str]]
    options: Sequence[str]
    limit_s: float
    variables: Mapping[str, str] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)


def run_trial(
    command: Command, target: TuneTarget, watch: EarlyEndCheck = lambda _: None, engine: bool = True
) -> MeasuredTrial:
    """Run the suite, its results in the command's folder, and read the target's figure.

    A run without a usable figure is a failed trial with its reason. `engine`: whether the settings
    are those of an engine in the run's own process. Raises OSError if the output cannot be written,
    KeyboardInterrupt after the run was ended.
    """
    begin = time.monotonic()
    for session in command.sessions:
        early = _session(command, session, watch, engine, begin + command.limit_s)
        if isinstance(early, Trial):
            return MeasuredTrial(early, command.folder.name, time.monotonic() - begin)
    seconds, runs = time.monotonic() - begin, trial_files(command.folder)
    trial = _outcome(command, target, runs)
    samples = next((run.summary.meta.samples for run in runs if run.summary.meta.samples), None)
    work = work_of(runs)
    probe = probe_of(command.folder, work) if work else None
    return MeasuredTrial(trial, command.folder.name, seconds, samples, costs_of(runs), work, probe)


def _session(
    command: Command, own: Sequence[str], watch: EarlyEndCheck, engine: bool, until: float
) -> Trial | None:
    """Make a session; the trial as which all ends early, by a signal or the watch, or None."""
    settings = command.settings
    arguments = [*own, *command.options, *(run_arguments(settings) if engine else ())]
    with _process(command, arguments, run_variables(settings) if engine else {}) as process:
        while process.poll() is None:
            if time.monotonic() > until:
                return Trial(settings, reason=f"no end after {command.limit_s:.0f} s")
            if command.stopped.is_set():
                raise KeyboardInterrupt
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
            if early := watch(command.folder):
                return early
    if process.returncode >= 0:
        return None
    killed = signal.Signals(-process.returncode)
    hint = ", as the system does where memory is short" if killed == signal.SIGKILL else ""
    return Trial(settings, reason=f"killed by {killed.name}{hint}")


@contextlib.contextmanager
def _process(
    command: Command, arguments: Sequence[str], variables: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The run's process; at the end, every process that it started is ended too."""
    words = [sys.executable, "-m", "mlperf_suite", f"--results-dir={command.folder}"]
    # Open no longer than needed, since processes that hold it open at the end are ended.
    with (command.folder / RUN_OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            [*words, "-p", "no:cacheprovider", *arguments],
            env={**os.environ, **command.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end_group(process)
        end_orphan_processes(command.folder, OF_RUNS)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its group, and every process of the group; at once if Ctrl-C comes
    while it still stops."""
    try:
        # Not SIGINT: what a shell starts in the background ignores it, and so do its children.
        _signal(process, signal.SIGTERM)
    finally:
        _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, number)
        process.wait(_STOP_S)


def _outcome(command: Command, target: TuneTarget, runs: Sequence[TrialFiles]) -> Trial:
    settings = command.settings
    if not runs:
        return Trial(settings, reason=f"no result: {last_words(command.folder / RUN_OUTPUT)}")
    for summary in (run.summary for run in runs):
        if summary.meta.status == "failed" or summary.spoiled:
            return Trial(settings, reason=summary.meta.reason or summary.spoiled or "failed")
    verdicts = [verdict for run in runs for verdict in run.summary.verdicts]
    if broken := [verdict.rule for verdict in verdicts if verdict.status == "failed"]:
        return Trial(settings, reason=f"failed {', '.join(sorted(set(broken)))}")
    figure = next(filter(None, map(target.figure, runs)), None)
    if figure is None:
        return Trial(settings, reason=f"the run shows no {target.unit}")
    return Trial(settings, figure.rate, figure.error)


def last_words(file: Path) -> str:
    """The last error in a program's output, or else its last line, in one line."""
    if error := last_error(file):
        return error
    lines = file.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")[:300]


def check_options(options: Sequence[str]) -> None:
    """Raise UsageError for options of a run that the search sets itself."""
    run_options = ("--results-dir", "-m", "-k", "--find-peak-qps", "--engine-arg", "--warmup")
    own = (*run_options, "--endpoint", "--logs", "--plan", "--co")
    if taken := [word for word in options if word.partition("=")[0] in own]:
        raise UsageError(f"tune: {taken[0]}: not with tune, which sets it or does not support it")


RUN_OUTPUT, SERVER_OUTPUT = "output.txt", "server.txt"
OF_RUNS = (RUN_OUTPUT, ENGINE_LOG)
"""What a run and its engine write; a server that goes on writes another file."""


def end_orphan_processes(folder: Path, names: Collection[str]) -> list[str]:
    """End the processes that write files of these names in a folder, with their children; their
    names and ids."""
    own = {process.pid for process in (psutil.Process(), *psutil.Process().parents())}
    others = (process for process in psutil.process_iter() if process.pid not in own)
    writers = [process for process in others if _writes(process, folder, names)]
    family = {process.pid: process for process in writers}
    for process in writers:
        with contextlib.suppress(psutil.Error):
            family |= {child.pid: child for child in process.children(recursive=True)}
    ended = [word for word in map(_word, family.values()) if word]
    end_processes(list(family.values()))
    return sorted(ended)


def _writes(process: psutil.Process, folder: Path, names: Collection[str]) -> bool:
    place = Path(os.path.realpath(folder))
    with contextlib.suppress(psutil.Error, OSError):
        for file in process.open_files():
            path = Path(file.path)
            if path.name in names and file.mode[:1] in "aw" and path.is_relative_to(place):
                return True
    return False


def _word(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.name()} ({process.pid})"
    return ""


_KNOWN = ("seconds", "samples", "costs", "work", "probe")
_OF_TRIAL = tuple(Trial.__dataclass_fields__)


class Records:
    """A file of JSON lines. A line that a full disk or a crash cut off is passed over."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, run: MeasuredTrial, **more: object) -> None:
        """Append a run. Raises OSError if that is not possible."""
        row = {**asdict(run.trial), **asdict(run), **more}
        del row["trial"]
        text = json.dumps(row) + "\n"
        with self._file.open("a+b") as file:
            if file.tell():
                file.seek(-1, 2)
                text = text if file.read() == b"\n" else f"\n{text}"
            file.write(text.encode())

    def __iter__(self) -> Iterator[tuple[MeasuredTrial, dict[str, Any]]]:
        """The runs in order, each with its additions."""
        lines = self._file.read_text(errors="replace").splitlines() if self._file.is_file() else ()
        for line in lines:
            try:
                row = json.loads(line)
                trial = Trial(**{name: row.pop(name) for name in _OF_TRIAL if name in row})
                known = {n: row.pop(n) for n in _KNOWN if n in row}
                if known.get("work"):
                    known["work"] = Work(**known["work"])
                yield MeasuredTrial(trial, row.pop("folder", ""), **known), row
            except (ValueError, TypeError, AttributeError):
                continue


@dataclass(frozen=True, slots=True)
class Work:
    """What an Offline run had to do: its samples, and their mean lengths in tokens."""

    samples: int
    prompt: float
    answer: float


def work_of(runs: Sequence[TrialFiles]) -> Work | None:
    """That of the first accuracy run that has a timeline."""
    for run in runs:
        timeline = read_timeline(run.folder / "Accuracy")
        if timeline is not None and timeline.prompt_tokens:
            means = map(statistics.fmean, (timeline.prompt_tokens, timeline.tokens))
            return Work(len(timeline.tokens), *means)
    return None


def probe_of(folder: Path, work: Work) -> float | None:
    """The tokens/s that the probe in a results folder says of this work; None before it is made.

    Nor is there one of a stand-in engine.
    """
    for run in run_folders(folder):
        speed = typed_json.read(EngineSpeed, (read_config(run) or {}).get("speed"))
        if speed is not None:
            seconds = speed.batch_s([round(work.prompt)] * work.samples, work.answer)
            return work.samples * work.answer / seconds if seconds > 0 else None
    return None
