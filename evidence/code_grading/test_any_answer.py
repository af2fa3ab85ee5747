"""Whatever a model answers is scored, by every scorer that looks for something in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.code_grading.graders import graded
from meta_tests.scorers.answers import ANY_TEXT, answer
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DeepseekR1Scorer
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GptOssScorer
from mlperf_suite.features.code_grading.benchmarks.mixtral_8x7b import MixtralScorer
from mlperf_suite.features.code_grading.scorers.math_equality import as_in_math, is_equal, plain
from mlperf_suite.scorers.scorer import Scorer

NEVER = graded(lambda text: False)
KINDS_OF: dict[str, tuple[Scorer, tuple[str, ...]]] = {
    "DeepSeek-R1": (DeepseekR1Scorer(NEVER), ("gpqa", "mmlu_pro", "aime", "livecodebench")),
    "gpt-oss-120b": (GptOssScorer(NEVER), ("gpqa_diamond", "aime25", "livecodebench_v6")),
    "Mixtral": (MixtralScorer(NEVER), ("GSM8K", "MBXP", "OpenOrca")),
}


@pytest.mark.parametrize(("scorer", "kinds"), KINDS_OF.values(), ids=KINDS_OF)
@given(text=ANY_TEXT)
def test_any_text_is_scored(scorer: Scorer, kinds: tuple[str, ...], text: str) -> None:
    scores = scorer.score([answer(text, "7. b|c", kind, "cpp_f") for kind in kinds])
    assert scores.not_judged == {}
    for score in scores.scores:
        assert score.unit != "%" or 0 <= score.value <= 100


@given(st.text(max_size=30) | st.text("0129x\\frac{}sqt()[],.^/-+ $%!", max_size=14))
def test_forms_of_any_text_are_made(text: str) -> None:
    as_in_math(text)
    plain(text)
    assert is_equal(text, text) is bool(text.strip())
