"""`mlperf-suite tune`: search, pairs of default and candidate, and the outcome."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from mlperf_suite.engines.hang_detector import terminated_like_interrupted
from mlperf_suite.errors import UsageError
from mlperf_suite.features.tuning.early_end import early_end_check, leader_of
from mlperf_suite.features.tuning.search import TuningSearch
from mlperf_suite.features.tuning.serving import run_served
from mlperf_suite.features.tuning.space import Settings, Trial
from mlperf_suite.features.tuning.trial_run import (
    OF_RUNS,
    SERVER_OUTPUT,
    Command,
    EarlyEndCheck,
    MeasuredTrial,
    Records,
    end_orphan_processes,
    run_trial,
)
from mlperf_suite.features.tuning.tuning_report import write_tuning_report
from mlperf_suite.features.tuning.tuning_request import TuningRequest
from mlperf_suite.features.tuning.tuning_result import (
    RunPair,
    TuningResult,
    contributions_of,
    gain_of,
)
from mlperf_suite.hardware import visible_variable
from mlperf_suite.results.run_folder import check_writable
from mlperf_suite.rules.verdict import figure_words

_TRIALS, _PAIRS, _AROUND, _LOCK = "trials.jsonl", "pairs.jsonl", "around.jsonl", ".lock"
_MAX_TRIAL_S = 6 * 3600.0
_FACTOR = 5
"""A run that takes this many times as long as the default's hangs."""
_SIZE, _QUERY = "--total-sample-count", "--offline-target-qps"
_MAX_CANDIDATES = 3
"""How many candidates may fail in the pairs before the tuning gives up."""
_OF_BEST, _OF_DEFAULT = "the candidate failed in the pairs: ", "the default failed in the pairs: "
_QUERY_HEADROOM = 1.25
"""A run that is too short is INVALID, and a whole one may be faster than the best trial."""


def tune(request: TuningRequest, say: Callable[[str], None]) -> TuningResult:
    """Search for the budget's time, then measure the pairs and what each setting contributes.

    Runs of an interrupted tuning in the folder count. Raises UsageError if another tuning uses the
    folder, its trials are of another space, or the default itself does not run.
    """
    check_writable(request.out, "--out")
    request.out.mkdir(parents=True, exist_ok=True)
    written = (*OF_RUNS, SERVER_OUTPUT)
    with _lock(request.out), terminated_like_interrupted():
        # A tuner that is killed cannot end its run, which would go on beside those that follow.
        if ended := end_orphan_processes(request.out / "runs", written):
            say(f"ended what a killed tuning left: {', '.join(ended)}")
        try:
            return Tuning(request, say).run()
        except KeyboardInterrupt:
            # A second Ctrl-C does not wait for the threads of the trials, which end their runs.
            end_orphan_processes(request.out / "runs", written)
            raise


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"--out {folder}: another tuning uses this folder") from error
        yield


class Tuning:
    """One tuning of a folder that is locked."""

    def __init__(self, request: TuningRequest, say: Callable[[str], None]) -> None:
        self._request = request
        self._say = say
        self._search = TuningSearch(request.space, 0, request.conditions)
        self._default = {name: choices[0] for name, choices in request.space.items()}
        self._stopped = threading.Event()
        self._trials: list[MeasuredTrial] = []
        self._first: MeasuredTrial | None = None
        """The default's run in the search, by which the others are sized and limited."""
        # One may have been removed to make room.
        numbers = (int(run.name) for run in self._runs.glob("*") if run.name.isdecimal())
        self._numbers = itertools.count(1 + max(numbers, default=0))

    def run(self) -> TuningResult:
        self._check_pairs()
        self._look_for_better()
        if len(self._trials) == 1:
            took = f"the default's trial took {self._trials[0].seconds:.0f} s"
            minutes = f"--minutes {self._request.minutes:g}"
            raise UsageError(f"{minutes}: {took}, and no other was made: give more and repeat")
        claim = self._claimed()
        around = self._search.around(claim.best)
        rounds = self._rounds(claim) if claim.is_better else []
        contributions = contributions_of(claim.best, claim.default, around, rounds)
        claim = replace(claim, contributions=contributions)
        write_tuning_report(self._request, self._trials, claim, self._say)
        return claim

    def _claimed(self) -> TuningResult:
        """The best of the search beside the default; the next best if a run of it fails there.

        That makes no gain more likely to be claimed: who fails is not judged by its rate.
        """
        failed: list[str] = []
        claim = TuningResult(self._default, self._default)
        while len(failed) < _MAX_CANDIDATES:
            best = dict(self._search.best())
            if best == self._default:
                return replace(claim, best=best, pairs=(), failed=failed)
            if reason := self._earlier_failure(best):
                claim = TuningResult(best, self._default, failure=f"{_OF_BEST}{reason}")
            else:
                claim = self._compared(TuningResult(best, self._default))
            if not claim.failure.startswith(_OF_BEST):
                return replace(claim, failed=failed)
            reason = claim.failure.removeprefix(_OF_BEST)
            failed.append(f"failed in the pairs: {_settings_words(best)}: {reason}")
            self._say(failed[-1])
            self._search = self._search_without(best, reason)
        return replace(claim, failed=failed)

    def _search_without(self, settings: Settings, reason: str) -> TuningSearch:
        """The search as if trials of these settings had failed."""
        search = TuningSearch(self._request.space, 0, self._request.conditions)
        for trial in self._search.trials:
            is_it = trial.settings == settings
            search.add(Trial(settings, reason=reason) if is_it else trial)
        return search

    def _records(self, name: str) -> Records:
        return Records(self._request.out / name)

    # The search

    def _look_for_better(self) -> None:
        request = self._request
        budget_s, spent_s = request.minutes * 60, self._take_earlier()
        begin = time.monotonic() - spent_s
        running: dict[Future[MeasuredTrial], tuple[Settings, str]] = {}
        with ThreadPoolExecutor(len(request.slots)) as pool, self._ended_together():
            while True:
                spent = (time.monotonic() - begin) / budget_s
                # The first run is alone: it is what the others are held against.
                taken = [slot for _, slot in running.values()]
                free = [slot for slot in request.slots if slot not in taken]
                free = free if self._first else free[: 1 - len(running)]
                for slot in free if spent < 1 or self._first is None else ():
                    pending = [settings for settings, _ in running.values()]
                    settings = self._search.following(spent, pending)
                    watch = self._watch(settings)
                    trial = self._request.target.trial
                    run = pool.submit(self._run, settings, trial, self._first, slot, watch)
                    running[run] = settings, slot
                if not running:
                    return
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[done]
                    self._keep(done.result())

    @contextlib.contextmanager
    def _ended_together(self) -> Iterator[None]:
        """The end of the search ends the trials that still run."""
        try:
            yield
        finally:
            self._stopped.set()
            self._stopped = threading.Event()

    def _take_earlier(self) -> float:
        """Take the trials of an interrupted search; the time in s that they took."""
        space, spent_s, measured = self._request.space, 0.0, self._request.measured
        for run, more in self._records(_TRIALS):
            settings = run.trial.settings
            if {name: more.get(name, value) for name, value in measured.items()} != measured:
                raise UsageError(
                    f"--out {self._request.out}: has trials of another target, server, number of "
                    "accelerators, or other options or variables; name a new folder"
                )
            known = settings.keys() == space.keys()
            if not known or any(v not in space[name] for name, v in settings.items()):
                raise UsageError(
                    f"--out {self._request.out}: has trials of another space; name a new folder"
                )
            self._take(run)
            spent_s += run.seconds
        return spent_s / len(self._request.slots)

    def _watch(self, settings: Settings) -> EarlyEndCheck:
        target, first = self._request.target, self._first
        best = self._search.leader() if target.is_probed else None
        leader = leader_of(best, self._trials, target.unit)
        reference = self._runs / (first.folder if first else "")
        return early_end_check(settings, leader, first, reference)

    @property
    def _runs(self) -> Path:
        return self._request.out / "runs"

    def _keep(self, run: MeasuredTrial) -> None:
        if self._first is None and run.trial.rate is None:
            raise UsageError(f"tune: the default itself does not run: {run.trial.reason}")
        self._take(run)
        self._records(_TRIALS).add(run, **self._request.measured)
        self._say(f"trial {len(self._trials)}: {self._words(run)}")

    def _take(self, run: MeasuredTrial) -> None:
        self._first = self._first or run
        self._trials.append(run)
        self._search.add(run.trial)

    def _run(
        self,
        settings: Settings,
        form: Sequence[Sequence[str]],
        alike: MeasuredTrial | None,
        slot: str = "",
        watch: EarlyEndCheck = lambda _: None,
    ) -> MeasuredTrial:
        """One run in the next folder. `alike`: a run of the same form, by which it is limited."""
        request = self._request
        limit_s = min(_MAX_TRIAL_S, _FACTOR * alike.seconds) if alike else _MAX_TRIAL_S
        devices = {visible_variable(): slot} if slot else {}
        folder = self._runs / f"{next(self._numbers):03}"
        options = [*self._sizes, *request.options]
        folder.mkdir(parents=True)
        command = Command(folder, settings, form, options, limit_s, devices, self._stopped)
        if request.serve:
            return run_served(request.serve, command, request.target, watch)
        return run_trial(command, request.target, watch)

    @property
    def _sizes(self) -> list[str]:
        """Every run has as many samples as the first, as the size of a batch decides its rate."""
        first, target, own = self._first, self._request.target, self._request.options
        if first is None:
            return []
        given = {option.partition("=")[0] for option in own}
        sizes = {
            _SIZE: first.samples,
            target.start: first.trial.rate if target.start else None,
            _QUERY: self._fastest_samples_per_s if target.name == "offline" else None,
        }
        return [f"{name}={value}" for name, value in sizes.items() if value and name not in given]

    @property
    def _fastest_samples_per_s(self) -> float | None:
        """What Offline's query is sized for in every run, so that a faster engine gets no larger
        batch; None before a trial says how long answers are."""
        work = self._first.work if self._first else None
        rates = [run.trial.rate for run in self._trials if run.trial.rate and not run.trial.cut]
        return round(_QUERY_HEADROOM * max(rates) / work.answer, 3) if work and rates else None

    def _words(self, run: MeasuredTrial) -> str:
        trial, unit = run.trial, self._request.target.unit
        if trial.cut or trial.rate is None:
            result = f"cut: {trial.cut}" if trial.cut else f"failed: {trial.reason}"
        else:
            result = f"{figure_words(trial.rate)} {unit}"
        return f"{result} ({run.seconds:.0f} s): {_settings_words(trial.settings)}"

    # The pairs

    def _check_pairs(self) -> None:
        """Raise UsageError if earlier pairs were to be of another number: with one that is chosen
        after a look at them, equal settings would differ in more than 5% of the claims."""
        pairs = self._request.pairs
        for _, more in self._records(_PAIRS):
            if (begun := more.get("pairs", pairs)) != pairs:
                raise UsageError(
                    f"--pairs {pairs}: {self._request.out} has runs of {begun} pairs; repeat with "
                    f"--pairs {begun} or name a new folder"
                )

    def _compared(self, claim: TuningResult) -> TuningResult:
        """Default and candidate in turn, each with its accuracy run."""
        pairs = self._earlier_pairs(claim.best)[: self._request.pairs]
        while len(pairs) < self._request.pairs:
            pair = self._pair(len(pairs), claim.best, pairs[-1].default if pairs else None)
            if isinstance(pair, str):
                return replace(claim, pairs=pairs, failure=pair)
            pairs.append(pair)
        rates = ([_rate(p.default) for p in pairs], [_rate(p.best) for p in pairs])
        return replace(claim, pairs=pairs, gain=gain_of(*rates))

    def _pair(self, number: int, best: Settings, alike: MeasuredTrial | None) -> RunPair | str:
        """A pair, or which run of it failed and why."""
        sides: dict[bool, MeasuredTrial] = {}
        # Each comes first in every second pair, so that a drift of the machine favours neither.
        for is_best in (False, True) if number % 2 == 0 else (True, False):
            settings = best if is_best else self._default
            alike = alike or sides.get(False)
            run = self._run(settings, self._request.target.whole, alike, self._request.slots[0])
            sides[is_best] = run
            self._records(_PAIRS).add(run, pair=number, pairs=self._request.pairs)
            self._say(f"pair {number + 1}: {self._words(run)}")
            if run.trial.rate is None:
                return f"{_OF_BEST if is_best else _OF_DEFAULT}{run.trial.reason}"
        return RunPair(sides[False], sides[True])

    def _earlier_failure(self, best: Settings) -> str:
        """Why a run of these settings failed in the pairs of an earlier command; empty if none did.

        To repeat it until it passes would make a claim of what passes now and then.
        """
        failed = (run for run, _ in self._records(_PAIRS) if run.trial.rate is None)
        return next((run.trial.reason for run in failed if run.trial.settings == best), "")

    def _earlier_pairs(self, best: Settings) -> list[RunPair]:
        """The whole pairs of an interrupted tuning with the same candidate."""
        pairs: list[RunPair] = []
        halves: dict[bool, MeasuredTrial] = {}
        for run, more in self._records(_PAIRS):
            settings = run.trial.settings
            if run.trial.rate is None or settings not in (self._default, best):
                halves = {}
                continue
            number, is_best = more.get("pair"), settings == best
            halves = {is_best: run} if number != len(pairs) else {**halves, is_best: run}
            if len(halves) == 2 and number == len(pairs):
                pairs.append(RunPair(halves[False], halves[True]))
                halves = {}
        return pairs

    # What each setting contributes

    def _rounds(self, claim: TuningResult) -> list[Mapping[str, float]]:
        """The winner, and the winner with one setting undone, in turn while there is time."""
        names = ["", *(n for n, choice in claim.best.items() if choice != self._default[n])]
        if len(names) == 2:
            # Nothing else than the pairs have shown.
            return [{names[1]: _rate(pair.default), "": _rate(pair.best)} for pair in claim.pairs]
        records = self._records(_AROUND)
        earlier = [(run, more) for run, more in records if more.get("best") == claim.best]
        rounds: list[dict[str, float]] = []
        left_s = self._request.around_minutes * 60 - sum(run.seconds for run, _ in earlier)
        for run, more in earlier:
            _into(rounds, int(more["round"]), str(more["without"]), run)
        number = len(rounds)
        while left_s > 0:
            for name in names if number % 2 == 0 else names[::-1]:
                if left_s <= 0:
                    break
                settings = {**claim.best, **({name: self._default[name]} if name else {})}
                run = self._run(settings, self._request.target.trial, self._first)
                left_s -= run.seconds
                records.add(run, round=number, without=name, best=claim.best)
                _into(rounds, number, name, run)
                what = f"without {name}" if name else "candidate"
                self._say(f"{what}: {self._words(run)}")
            number += 1
        return list(rounds)


def _into(rounds: list[dict[str, float]], number: int, name: str, run: MeasuredTrial) -> None:
    while len(rounds) <= number:
        rounds.append({})
    if run.trial.rate is not None:
        rounds[number][name] = run.trial.rate


def _rate(run: MeasuredTrial) -> float:
    assert run.trial.rate is not None
    return run.trial.rate


def _settings_words(settings: Settings) -> str:
    words = (f"{name}={choice}" for name, choice in settings.items() if choice is not None)
    return " ".join(words) or "the default"
