"""Published questions that the repository may not hold."""

from __future__ import annotations

from evidence.from_elsewhere import REAL_MMLU, needs_real_mmlu
from mlperf_suite.features.mmlu.mmlu_questions import Mmlu, load_mmlu


def questions_of(data: Mmlu) -> set[str]:
    return {q.question for split in (data.dev, data.test) for qs in split.values() for q in qs}


@needs_real_mmlu
def test_no_embedded_question_is_one_of_the_published_ones() -> None:
    published = questions_of(load_mmlu(str(REAL_MMLU)))
    assert published
    assert not questions_of(load_mmlu("embedded")) & published
