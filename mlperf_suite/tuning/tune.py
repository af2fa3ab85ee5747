"""`mlperf-suite tune`: search, pairs of default and candidate, and what came of it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mlperf_suite.engines.watch import terminated_like_interrupted
from mlperf_suite.errors import UsageError
from mlperf_suite.results.run_folder import write_whole
from mlperf_suite.tuning.claim import PAIRS, Gain, gain_of
from mlperf_suite.tuning.search import TuningSearch
from mlperf_suite.tuning.space import (
    Settings,
    Space,
    Trial,
    run_arguments,
    run_variables,
    serve_command,
    space_text,
)
from mlperf_suite.tuning.trial_run import run_trial
from mlperf_suite.tuning.tuning_page import tuning_page

_TRIALS, _RESULT, _LOCK = "trials.jsonl", "tuning.md", ".lock"
_WINNER, _PAGE = "winner.toml", "report.html"
_LONGEST_S = 1800.0
_FACTOR = 5
"""A trial that takes this many times as long as the default's hangs."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. `minutes`: the search's; the pairs come on top of it."""

    out: Path
    minutes: float
    space: Space
    options: Sequence[str]


def tune(request: Request, say: Callable[[str], None]) -> Gain | None:
    """Search for the budget's time, then measure the pairs; None if the default was the best.

    Trials of an interrupted search in the folder count. Raises UsageError if another search uses
    the folder, its trials are of another space, or the default itself does not run.
    """
    request.out.mkdir(parents=True, exist_ok=True)
    with _lock(request.out), terminated_like_interrupted():
        search = TuningSearch(request.space, seed=0)
        for trial in _earlier(request):
            search.add(trial)
        _search(request, search, say)
        default = {name: choices[0] for name, choices in request.space.items()}
        best = dict(search.best())
        gain = None if best == default else _pairs(request, default, best, say)
        _write(request, search, best, gain, say)
        return gain


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"--out {folder}: another tuning uses this folder") from error
        yield


def _earlier(request: Request) -> Iterator[Trial]:
    file = request.out / _TRIALS
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            trial = Trial(**json.loads(line))
        except (ValueError, TypeError):
            continue  # Cut off when the disk was full or the machine went down.
        known = trial.settings.keys() == request.space.keys()
        if not known or any(v not in request.space[name] for name, v in trial.settings.items()):
            raise UsageError(f"--out {request.out}: has trials of another space; name a new folder")
        yield trial


def _search(request: Request, search: TuningSearch, say: Callable[[str], None]) -> None:
    start, limit_s = time.monotonic(), _LONGEST_S
    while not search.trials or time.monotonic() - start < request.minutes * 60:
        spent = (time.monotonic() - start) / (request.minutes * 60)
        began = time.monotonic()
        trial = _run(request, search.following(spent), "performance", limit_s)
        if not search.trials:
            if trial.rate is None:
                raise UsageError(f"tune: the default itself does not run: {trial.reason}")
            limit_s = min(_LONGEST_S, _FACTOR * (time.monotonic() - began))
        search.add(trial)
        with (request.out / _TRIALS).open("a") as file:
            file.write(json.dumps(asdict(trial)) + "\n")
        say(f"trial {len(search.trials)}: {_words(trial)}")


def _run(request: Request, settings: Settings, marks: str, limit_s: float) -> Trial:
    """One run in the first folder that is free; an interrupted trial leaves its folder."""
    runs = request.out / "runs"
    number = 1 + (len(list(runs.iterdir())) if runs.exists() else 0)
    marks = f"offline and datacenter and {marks}" if marks else "offline and datacenter"
    return run_trial(runs / f"{number:03}", marks, settings, request.options, limit_s)


def _pairs(
    request: Request, default: Settings, best: Settings, say: Callable[[str], None]
) -> Gain | None:
    """Default and candidate in turn, each with its accuracy run; None if one of them fails."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(PAIRS):
        # Each comes first in every second pair, so that a drift of the machine favours neither.
        for is_best in (False, True) if pair % 2 == 0 else (True, False):
            trial = _run(request, best if is_best else default, "", _LONGEST_S)
            say(f"pair {pair + 1}: {_words(trial)}")
            if trial.rate is None:
                return None
            rates[is_best].append(trial.rate)
    return gain_of(rates[False], rates[True])


def _words(trial: Trial) -> str:
    words = " ".join([*run_variables(trial.settings).values(), *run_arguments(trial.settings)])
    rate = f"{trial.rate:,.1f} tokens/s" if trial.rate is not None else f"failed: {trial.reason}"
    return f"{words or 'the default'}: {rate}"


def _write(
    request: Request,
    search: TuningSearch,
    best: Settings,
    gain: Gain | None,
    say: Callable[[str], None],
) -> None:
    claim = gain.words if gain else "no setting was shown to be better than the default"
    lines = [claim]
    if gain and gain.is_better:
        words = [*(f"{k}={v}" for k, v in run_variables(best).items()), "mlperf-suite", "-m"]
        words += ["offline", *run_arguments(best), *request.options]
        lines.append(f"command: {shlex.join(words)}")
        lines.append(f"server: {serve_command(best, request.options)}")
        write_whole(request.out / _WINNER, space_text(best))
    write_whole(request.out / _RESULT, "\n\n".join(lines) + "\n")
    write_whole(request.out / _PAGE, tuning_page(search, request.space, best, lines))
    for line in lines:
        say(line)
