"""Tools for rules that compare a log with itself: reading values, and verdicts if that fails."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from mlperf_suite.loadgen.load_plan import TEST_MODES
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.rules import checks
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.printed import Range, printed
from mlperf_suite.rules.registry import Check
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict


class UnreadableError(Exception):
    """A rule cannot compare; `verdict` says what is missing or wrong."""

    def __init__(self, said: Verdict) -> None:
        super().__init__(said.line)
        self.verdict = said


@dataclass(frozen=True, slots=True)
class Log:
    """A run's detail log, for a rule that demands `required`.

    Each of its methods raises UnreadableError if a key is missing or has an unsuitable value.
    """

    run: RunFacts
    required: str

    @property
    def detail(self) -> DetailLog:
        return self.run.logs.detail

    @property
    def of_accuracy(self) -> bool:
        """Whether the log says it is an accuracy run's; the rule on test modes judges that."""
        return bool(self.detail["effective_test_mode"] == TEST_MODES["accuracy"])

    def verdict(self, ok: bool, found: object, required: object = None) -> Verdict:
        return verdict(ok, found, self.required if required is None else required)

    def not_judged(self, found: str, why: str) -> Verdict:
        return not_judged(found, self.required, why)

    def wrong(self, found: str, why: str = "") -> UnreadableError:
        return UnreadableError(verdict(False, found, self.required, why))

    def cannot(self, found: str, why: str) -> UnreadableError:
        return UnreadableError(self.not_judged(found, why))

    def number(self, key: str) -> float:
        """A number of at least 0."""
        found = checks.number(self.run, key, self.required)
        if isinstance(found, Verdict):
            raise UnreadableError(found)
        if not 0 <= found < math.inf:
            raise self.wrong(f"{key} {found}")
        return found

    def whole(self, key: str, least: int = 0) -> int:
        """An integer of at least `least`."""
        found = self.number(key)
        if not isinstance(found, int) or found < least:
            raise self.wrong(f"{key} {found}", f"no whole number of {least} or more")
        return found

    def figure(self, key: str) -> Range:
        """The range of a positive figure before it was rounded for printing."""
        found = self.number(key)
        if found == 0:
            raise self.wrong(f"{key} 0")
        return printed(found)

    def flag(self, key: str) -> bool:
        found = self.detail[key]
        if found is None:
            raise UnreadableError(checks.missing(key, self.required))
        if not isinstance(found, bool):
            raise self.wrong(f"{key} {found}", "neither true nor false")
        return found

    def stamp(self, key: str) -> float:
        """The time of the key's last entry, in ms since the log began."""
        found = self.detail.stamp(key)
        if found is None:
            raise UnreadableError(checks.missing(f"a time stamp of {key}", self.required))
        return found


Compare = Callable[[Log], Verdict]


def agrees(required: str) -> Callable[[Compare], Check]:
    """Turn a function that compares a log with itself into a rule's check.

    A truncated or damaged log is not compared: the rule on whole logs fails it.
    """

    def make(compare: Compare) -> Check:
        @functools.wraps(compare)
        def check(run: RunFacts) -> Verdict:
            if run.logs.detail.damage or not checks.has_its_end(run):
                return not_judged("a log that is not whole", required, "the log is not whole")
            try:
                return compare(Log(run, required))
            except UnreadableError as error:
                return error.verdict

        return check

    return make
