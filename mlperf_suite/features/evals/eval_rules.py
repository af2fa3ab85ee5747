"""Rules of a task's run: every document answered, as the task asks. The suite's own."""

from __future__ import annotations

from dataclasses import dataclass

from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict


@dataclass(frozen=True, slots=True)
class EvalFacts(Facts):
    """A task's run. `planned`, `answered`: documents. `departures`: how a server's answers differ
    from what was asked. `no_score_reason`: why the engine cannot answer, "" if it can."""

    planned: int
    answered: int = 0
    departures: tuple[str, ...] = ()
    no_score_reason: str = ""

    @property
    def subject(self) -> Subject:
        return "evals"


@rule(
    "evals",
    official=False,
    source="the plan of the session: --task, --limit",
    fix="Continue the interrupted run with --task-resume.",
)
def all_answered(run: EvalFacts) -> Verdict:
    """Every document of the task that was drawn has an answer and a score."""
    required = f"{run.planned:,} documents answered"
    if run.no_score_reason:
        return not_judged("no answers", required, run.no_score_reason)
    return verdict(run.answered == run.planned, f"{run.answered:,}", required)


@rule(
    "evals",
    official=False,
    source="the task's own generation settings",
    fix="Remove the server's own limits and changes of requests.",
)
def answers_as_asked(run: EvalFacts) -> Verdict:
    """No server shortened or changed an answer by settings of its own."""
    required = "the task's own settings"
    if run.no_score_reason:
        return not_judged("no answers", required, run.no_score_reason)
    return verdict(not run.departures, "; ".join(run.departures) or "as asked", required)
