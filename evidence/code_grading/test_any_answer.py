"""Whatever a model answers is scored, by every scorer that looks for something in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.code_grading.graders import graded
from meta_tests.judging.unreadable_files import within
from meta_tests.made_runs import MadeRun
from meta_tests.scorers.answers import ANY_TEXT, answer
from meta_tests.tampering.rule_breaks import not_passed
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DeepseekR1Scorer
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B, GptOssScorer
from mlperf_suite.features.code_grading.benchmarks.mixtral_8x7b import MixtralScorer
from mlperf_suite.features.code_grading.scorers.math_equality import as_in_math, is_equal, plain
from mlperf_suite.rules import judge
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


def test_a_verification_of_many_empty_lines_is_read_at_once() -> None:
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Offline"), "test07", submitted=True)
    run.verify += ["\n" * 1_000_000 + "-", "Accuracy score: 1"]
    with within(300):
        assert "test07_verified" in not_passed(judge(run.facts()))
