"""Judges runs made by others: from a folder to verdicts, for the round they belong to.

A folder is a submission tree (either layout, closed and open), loose LoadGen logs, or results of
this suite. Missing or damaged files become verdicts; nothing here raises for them.
"""

from __future__ import annotations

from pathlib import Path

from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS, Round
from mlperf_suite.judging.loose_logs import judge_loose
from mlperf_suite.judging.submissions import judge_idle, judge_submission
from mlperf_suite.judging.tree import find_runs
from mlperf_suite.judging.verdict_group import VerdictGroup

__all__ = ["VerdictGroup", "judge_folder"]


def judge_folder(
    root: Path, round_: Round | None = None, *, high_accuracy: bool = False
) -> list[VerdictGroup]:
    """Judge every run under a folder, for `round_` or else for the round that its seeds belong to.

    A submission belongs to one round: the one whose seeds most of its results have.
    `high_accuracy`: gate accuracy at the reference's high target (99.9%); benchmarks that are
    always gated there do not need it.
    """
    tree = find_runs(root)
    judged: list[VerdictGroup] = []
    for submission in tree.submissions:
        benchmarks = [b for b in tree.benchmarks if b.submission == submission]
        judged += judge_submission(submission, benchmarks, round_, high_accuracy)
    judged += [judge_idle(path, round_ or ROUNDS[DEFAULT_ROUND]) for path in tree.idle_systems]
    return judged + judge_loose(tree, round_, high_accuracy)
