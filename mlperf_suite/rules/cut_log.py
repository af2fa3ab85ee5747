"""Rules of a submission's accuracy log, of which only the two ends are left."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from mlperf_suite.rules.cut_log_reading import CutEntry, CutLog, parse_cut_log
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

_HEX_OF_A_TOKEN = (8, 16)
"""Answers are int32, or int64 for one submitter in v5.1."""


@rule("accuracy", submitted_only=True)
def accuracy_log_ends(run: RunFacts) -> Verdict:
    """The cut accuracy log begins and ends with entries of LoadGen, each of a sample of its own.

    The official checker looks at its size alone.
    """
    required = "LoadGen's entries at both ends"
    cut = _cut_log(run, required)
    if isinstance(cut, Verdict):
        return cut
    # A log without the number of samples fails the rule on every sample.
    total = run.logs.detail.number("qsl_reported_total_count") or math.inf
    problem = (
        ("its beginning is no entry" if not cut.begins else "")
        or ("its end is no entry" if not cut.ends else "")
        or (
            f"{len(cut.places)} entries, not cut"
            if cut.whole and len(cut.places) < total < math.inf
            else ""
        )
        or _twice("place", (place for place, _ in cut.places))
        or _twice("sample", (index for _, index in cut.places))
        or _beyond(cut, total)
    )
    return verdict(not problem, problem or f"{len(cut.places)} entries", required)


@rule("accuracy", submitted_only=True)
def accuracy_log_tokens(run: RunFacts) -> Verdict:
    """Each answer at the ends of the cut accuracy log has the tokens that were reported of it.

    As many as were counted, and the first of them where the scenario reports those. An end that is
    within one long answer has none to judge.
    """
    required = "the reported tokens in each answer"
    cut = _cut_log(run, required)
    if isinstance(cut, Verdict):
        return cut
    wrong = [entry.index for entry in cut.entries if not _as_reported(entry, run)]
    found = f"{len(cut.entries) - len(wrong)} of {len(cut.entries)} answers"
    return verdict(not wrong, found, required, f"not sample {wrong[0]}" if wrong else "")


def _cut_log(run: RunFacts, required: str) -> CutLog | Verdict:
    text = run.submitted.accuracy_log if run.submitted else None
    if text is None:
        return not_judged("no cut accuracy log", required, "the rule on its size fails it")
    return parse_cut_log(text)


def _twice(what: str, numbers: Iterable[int]) -> str:
    counted = Counter(numbers)
    return next((f"{what} {n:,} {count} times" for n, count in counted.items() if count > 1), "")


def _beyond(cut: CutLog, total: float) -> str:
    return next(
        (f"number {n:,} of {total:,}" for pair in cut.places for n in pair if n >= total), ""
    )


def _as_reported(entry: CutEntry, run: RunFacts) -> bool:
    counted = entry.tokens is None or any(
        len(entry.answer) == entry.tokens * digits for digits in _HEX_OF_A_TOKEN
    )
    if not run.scenario.streams:
        return counted and entry.first is None
    return counted and bool(entry.first) and entry.answer.startswith(entry.first or "")
