"""One trial: a kept run of the suite in a process of its own, which may crash or hang."""

from __future__ import annotations

import math
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mlperf_suite.errors import UsageError
from mlperf_suite.results.regression import METRICS, samples_of
from mlperf_suite.results.run_folder import read_summary, run_folders
from mlperf_suite.tuning.space import Settings, Trial, run_arguments, run_variables

_STOP_S = 20.0
"""How long a run may take to write what it has after Ctrl-C before it is killed."""
_OUTPUT = "output.txt"


def run_trial(
    folder: Path, marks: str, settings: Settings, options: Sequence[str], limit_s: float
) -> Trial:
    """Run the suite with these settings, its results in a new folder, and read its rate.

    `marks`: pytest's -m. `limit_s`: seconds after which the run is ended as one that hangs. A run
    without a usable rate is a failed trial with its reason. Raises OSError if the folder or the
    output cannot be written, KeyboardInterrupt after the run was ended.
    """
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "mlperf_suite", "-m", marks, f"--results-dir={folder}"]
    with (folder / _OUTPUT).open("wb") as output:
        process = subprocess.Popen(
            [*command, *run_arguments(settings), *options],
            env={**os.environ, **run_variables(settings)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return Trial(settings, reason=f"no end after {limit_s:.0f} s")
        finally:
            _end(process)
    return _outcome(folder, settings, status)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the run and every process that it started."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_STOP_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _outcome(folder: Path, settings: Settings, status: int) -> Trial:
    runs = run_folders(folder)
    summary = read_summary(runs[-1]) if runs else None
    if status < 0:
        killed = signal.Signals(-status).name
        hint = ", as the system does where memory is short" if status == -signal.SIGKILL else ""
        return Trial(settings, reason=f"killed by {killed}{hint}")
    if summary is None:
        return Trial(settings, reason=f"no result: {_last_line(folder / _OUTPUT)}")
    if summary.meta.status == "failed" or summary.no_result:
        return Trial(settings, reason=summary.meta.reason or summary.no_result or "failed")
    if broken := [verdict.rule for verdict in summary.verdicts if verdict.status == "failed"]:
        return Trial(settings, reason=f"failed {', '.join(sorted(set(broken)))}")
    samples = samples_of(METRICS[0], summary)
    if samples is None:
        return Trial(settings, reason="the run has no tokens/s")
    logs = list(map(math.log, samples.blocks))
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return Trial(settings, samples.value, error)


def _last_line(file: Path) -> str:
    lines = file.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")[:300]


def check_options(options: Sequence[str]) -> None:
    """Raise UsageError for options of a run that the search sets itself."""
    own = ("--results-dir", "-m", "--engine-arg", "--endpoint", "--logs", "--plan", "--co")
    if taken := [word for word in options if word.partition("=")[0] in own]:
        raise UsageError(f"tune: {taken[0]}: not with tune, which sets it or does not support it")
