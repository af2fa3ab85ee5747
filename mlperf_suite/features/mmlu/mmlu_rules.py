"""Rules of an MMLU run: every question scored, and a plausible score. The suite's own."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from mlperf_suite.features.mmlu.mmlu_questions import CHANCE, PUBLISHED_SCORES
from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, VerdictError, not_judged, verdict

_SIGMAS = 3


@dataclass(frozen=True, slots=True)
class MmluFacts(Facts):
    """An MMLU run. `planned`: how many questions were to be scored. `scored`: how many were.
    `accuracy`: the percentage of right answers, over `questions`. `min_accuracy`: the user's own
    limit, in percent. `no_score_reason`: why the engine cannot score, "" if it can.
    """

    planned: int
    model: str = ""
    scored: int = 0
    accuracy: float = 0.0
    questions: int = 0
    min_accuracy: float | None = None
    no_score_reason: str = ""

    @property
    def subject(self) -> Subject:
        return "mmlu"

    def need_scores(self) -> None:
        """Raises VerdictError, not judged, if the engine cannot score."""
        if self.no_score_reason:
            required = f"{self.planned:,} questions scored"
            raise VerdictError(not_judged("no scores", required, self.no_score_reason))


@rule(
    "mmlu",
    official=False,
    source="the plan of the session: --mmlu-limit",
    fix="Continue the interrupted run with --mmlu-resume.",
)
def all_scored(run: MmluFacts) -> Verdict:
    """Every question of the run's subjects was scored."""
    run.need_scores()
    return verdict(run.scored == run.planned, f"{run.scored:,}", f"{run.planned:,}")


@rule(
    "mmlu",
    official=False,
    source="the published scores in mlperf_suite/features/mmlu; --mmlu-min-accuracy",
    fix="Check the model, its precision and --mmlu-shots; set --mmlu-min-accuracy for your model.",
)
def score(run: MmluFacts) -> Verdict:
    """The score is above --mmlu-min-accuracy, or by default above random guessing.

    Not judged where both guessing and a model of the published score may well have it, as of a
    handful of questions.
    """
    run.need_scores()
    accuracy = f"{run.accuracy:.2f}%"
    if run.min_accuracy is not None:
        required = f"at least {run.min_accuracy:g}%"
        return verdict(run.accuracy >= run.min_accuracy, accuracy, required)
    # Guessing that many questions exceeds it about once in a thousand times.
    floor = min(100.0, CHANCE + _SIGMAS * _sigma(CHANCE, run.questions))
    required = f"above {floor:.2f}%, which random guessing rarely reaches"
    if run.model not in PUBLISHED_SCORES:
        why = "no score is known for this model: --mmlu-min-accuracy"
        return not_judged(accuracy, required, why)
    percentage, source = PUBLISHED_SCORES[run.model]
    if percentage - _SIGMAS * _sigma(percentage, run.questions) <= run.accuracy <= floor:
        why = f"{run.questions:,} questions are too few to tell guessing from {percentage:g}%"
        return not_judged(accuracy, required, why)
    return verdict(run.accuracy > floor, accuracy, required, f"{percentage:g}% by {source}")


def _sigma(percentage: float, questions: int) -> float:
    """The standard deviation of that many questions' score, in percent."""
    return sqrt(percentage * (100 - percentage) / questions)
