"""Hierarchical F1 of product categories, of answers that are a JSON object.

Sources: multimodal/qwen3-vl/src/mlperf_inf_mm_q3vl/evaluation.py of mlcommons/inference (v6.0), and
ShopifyCategoryF1Scorer in evaluation/scoring.py of mlcommons/endpoints (v6.1). An answer is valid
as pydantic reads it in both: exactly these members, "yes" and 1 count as true. One that is not
valid counts as a path of the reference's length with nothing right. Nothing of an answer is
evaluated: it is parsed by a reader that limits how deep it may be nested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mlperf_suite.benchmarks.definition import F1
from mlperf_suite.scorers.scorer import GEN_NUM, Answer, Score, Scores, token_figures

UNREADABLE = "unreadable_answers"
_SEPARATOR = " > "
_MAX_TEXT_LENGTH = 1_000_000
"""A longer answer is not read: its category would have more levels than all the references."""


@dataclass(frozen=True, slots=True)
class HierarchicalF1Scorer:
    """`f1` in percent over the levels of all categories; and how many answers were not valid.

    `strips`: whether spaces at both ends of a category are dropped before it is split into levels
    (v6.1), and not only those of each level (v6.0): "Shoes > " is one level or two.
    """

    strips: bool = False
    name: str = "hierarchical_f1"

    def check(self) -> None:
        """Nothing is needed."""

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score the answers. An answer's own figure is not given: F1 is over all levels."""
        counts = [levels_of(a.text, a.sample.reference, strips=self.strips) for a in answers]
        right, given, wanted = (sum(count[place] for count in counts) for place in range(3))
        unreadable = sum(category_of(answer.text) is None for answer in answers)
        return Scores(
            (
                Score(F1, 100 * _f1(right / given, right / wanted), "%"),
                Score(UNREADABLE, unreadable, "answers"),
                Score(GEN_NUM, len(answers), "answers"),
                *token_figures(answers, 1),
            )
        )


def levels_of(text: str, reference: str, *, strips: bool) -> tuple[int, int, int]:
    """Of an answer: the levels that are right, all its levels, and those of the reference.

    A level is right if all those above it are.
    """
    answer = category_of(text)
    if strips:
        answer, reference = answer and answer.strip(), reference.strip()
    wanted = _levels(reference)
    if answer is None:
        return 0, len(wanted), len(wanted)
    levels, right = _levels(answer), 0
    for mine, other in zip(levels, wanted, strict=False):
        if mine != other:
            break
        right += 1
    return right, len(levels), len(wanted)


def _levels(category: str) -> list[str]:
    return [level.strip() for level in category.split(_SEPARATOR)]


def category_of(text: str) -> str | None:
    """The category of an answer, None if the answer is not valid."""
    if len(text) > _MAX_TEXT_LENGTH:
        return None
    try:
        return _reader()(text)
    # pydantic's ValidationError, and a text that cannot be encoded.
    except ValueError:
        return None


@lru_cache(maxsize=1)
def _reader() -> Callable[[str], str]:
    """Takes an answer's category; raises ValueError if the answer is not valid."""
    from pydantic import BaseModel, ConfigDict

    class Product(BaseModel):
        model_config = ConfigDict(extra="forbid")
        category: str
        brand: str
        is_secondhand: bool

    return lambda text: Product.model_validate_json(text).category


def _f1(precision: float, recall: float) -> float:
    both = precision + recall
    return 2 * (precision * recall) / both if both else 0.0
