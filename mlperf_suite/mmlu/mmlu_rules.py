"""The rules for an MMLU run."""

from __future__ import annotations

import dataclasses
from math import sqrt

from mlperf_suite.datasets.mmlu_questions import CHANCE, PUBLISHED_SCORES
from mlperf_suite.mmlu.evaluation import Scores
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

MMLU_RULES = ("mmlu_all_scored", "mmlu_score")
_SIGMAS = 3


def judge_mmlu(
    scores: Scores, planned: int, model: str, min_accuracy: float | None
) -> list[Verdict]:
    """A verdict for each of MMLU_RULES. `planned`: how many questions were to be scored."""
    found = (
        verdict(len(scores.samples) == planned, f"{len(scores.samples):,}", f"{planned:,}"),
        _score(scores, model, min_accuracy),
    )
    return [dataclasses.replace(v, rule=rule) for v, rule in zip(found, MMLU_RULES, strict=True)]


def unscored(planned: int, why: str) -> list[Verdict]:
    """The verdicts if the run is not possible. `why`: what the engine lacks."""
    found = not_judged("no scores", f"{planned:,} questions scored", why)
    return [dataclasses.replace(found, rule=rule) for rule in MMLU_RULES]


def _score(scores: Scores, model: str, min_accuracy: float | None) -> Verdict:
    accuracy = scores.overall.accuracy
    found = f"{accuracy:.2f}%"
    if min_accuracy is not None:
        return verdict(accuracy >= min_accuracy, found, f"at least {min_accuracy:g}%")
    floor = above_chance(scores.overall.questions)
    required = f"above {floor:.2f}%, which random guessing rarely reaches"
    if model not in PUBLISHED_SCORES:
        return not_judged(found, required, "no score is known for this model: --mmlu-min-accuracy")
    published, source = PUBLISHED_SCORES[model]
    return verdict(accuracy > floor, found, required, f"{published:g}% by {source}")


def above_chance(questions: int) -> float:
    """The percentage that guessing that many questions exceeds about once in a thousand times."""
    chance = CHANCE / 100
    return min(100.0, 100 * (chance + _SIGMAS * sqrt(chance * (1 - chance) / questions)))
