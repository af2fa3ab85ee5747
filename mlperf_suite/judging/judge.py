"""Judging runs that somebody else made: from a folder to verdicts, for the round they belong to.

A folder is a submission tree (either layout, closed and open), LoadGen logs by themselves, or
results of this suite. What is missing or damaged is a verdict; nothing here raises for it.
"""

from __future__ import annotations

from pathlib import Path

from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS, Round
from mlperf_suite.judging.judged import Judged
from mlperf_suite.judging.loose import judge_loose
from mlperf_suite.judging.submissions import judge_idle, judge_submission
from mlperf_suite.judging.tree import find_runs

__all__ = ["Judged", "judge_folder"]


def judge_folder(
    root: Path, round_: Round | None = None, *, high_accuracy: bool = False
) -> list[Judged]:
    """Judge every run under a folder, for `round_` or else for the round that its seeds are of.

    A submission belongs to one round: the one that most of its results have the seeds of.
    `high_accuracy`: gate accuracy at the reference's high gate (99.9%); a benchmark that is gated
    there anyway needs no asking.
    """
    tree = find_runs(root)
    judged: list[Judged] = []
    for submission in tree.submissions:
        benchmarks = [b for b in tree.benchmarks if b.submission == submission]
        judged += judge_submission(submission, benchmarks, round_, high_accuracy)
    judged += [judge_idle(path, round_ or ROUNDS[DEFAULT_ROUND]) for path in tree.idle_systems]
    return judged + judge_loose(tree, round_, high_accuracy)
