"""Small forgeries of a made run's logs: values in both files, words in the summary, lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from meta_tests.made_runs import MadeRun, as_printed, summary_of
from meta_tests.tampering.rule_breaks import not_passed
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.rules import judge

NO_ERRORS, NO_WARNINGS = "^No errors encountered during test.", "^No warnings encountered.*"
COMPLETED = r"^(Completed samples per second :) .*"

Forgery = Callable[[MadeRun], object]


def made(scenario: str = "Server", mode: Mode = "performance") -> MadeRun:
    where = LLAMA3_1_8B.scenario(scenario)
    return MadeRun(LLAMA3_1_8B, where, mode, ROUNDS["v6.1"], submitted=True)


def both(**entries: Any) -> Forgery:
    """Values of the detail log, and of the summary where it has them; functions of the old."""

    def forge(run: MadeRun) -> None:
        for key, new in entries.items():
            run.entries[key] = new(run.entries[key]) if callable(new) else new
        run.summary = summary_of(run.entries)

    return forge


def times(factor: float, *keys: str) -> Forgery:
    """Figures of both files times a factor."""

    def scaled(figure: Any) -> Any:
        is_whole = isinstance(figure, int)
        return round(figure * factor) if is_whole else as_printed(figure * factor)

    return both(**dict.fromkeys(keys, scaled))


def words(old: str, new: str) -> Forgery:
    """Other words in the summary alone, which must have the old ones."""

    def forge(run: MadeRun) -> None:
        run.summary, count = re.subn(old, new, run.summary, flags=re.MULTILINE)
        assert count

    return forge


def more_lines(*lines: str) -> Forgery:
    return lambda run: run.broken_lines.extend(lines)


def place_of(key: str, other: str) -> Forgery:
    """A latency that is another one, in both files."""
    return lambda run: both(**{key: run.entries[other]})(run)


def asked_for(name: str, value: object) -> Forgery:
    return both(**{f"requested_{name}": value, f"effective_{name}": value})


def broken_by(forge: Forgery) -> set[str]:
    run = made()
    forge(run)
    return set(not_passed(judge(run.facts())))
