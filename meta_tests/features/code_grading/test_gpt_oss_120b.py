"""gpt-oss-120b's scores, against what the official script found in these texts."""

import pytest

from meta_tests.features.code_grading.graders import graded, no_sandbox
from meta_tests.scorers.answers import answer
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GptOssScorer, choice, program
from mlperf_suite.scorers.rouge import OpenOrcaScorer
from mlperf_suite.scorers.scorer import reads_special_tokens

ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
RETURN = "<|return|>"
SCORER = GptOssScorer(graded(lambda text: text == "good"))


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (f"{FINAL}B{RETURN}", "B"),
        (f"{ANALYSIS}Answer: A<|end|><|start|>assistant{FINAL}**C**{RETURN}", "C"),
        (f"{FINAL}None.\nAnswer: d.", "D"),
        (f"{ANALYSIS}Answer: A", "A"),
        ("A good one: Answer C", "A"),
        (f"<|channel|>final \u660e<|message|>A{RETURN}", "A"),
        (f"<|channel|>final<x<|message|>B{RETURN}Answer: D", "D"),
        (f"{FINAL}None. Answer E. ANSWER = (B)", "B"),
        (f"{FINAL}{RETURN}ANSWER: C", "C"),
        ("", None),
        (f"{FINAL}['C']{RETURN}", "C"),
        (f"{FINAL}Answer: ABC{RETURN}", None),
        (f"{FINAL}\u0131{RETURN}", None),
        # The official pattern takes most of a minute for 2,000 spaces.
        pytest.param("x Answer" + " " * 1_000_000 + "x", None, id="spaces"),
    ],
)
def test_the_letter_that_is_chosen(text: str, letter: str | None) -> None:
    assert choice(text) == letter


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"{FINAL}```python\nx\n```", "x"),
        (f"{ANALYSIS}```python\ndraft\n```{FINAL}```\nx\n```{RETURN}", "x"),
        (f"{ANALYSIS}```python\ndraft\n```{FINAL}see above", "draft"),
        ("```python\na\n``` ```python\nb\n```", "b"),
        (f"{FINAL}```python\na\n```\n```\nb\n```", "a"),
        ("x", None),
    ],
)
def test_the_program_of_an_answer(text: str, code: str | None) -> None:
    assert program(text) == code


ANSWERS = [
    answer(f"{FINAL}A{RETURN}", "A", "gpqa_diamond"),
    answer(f"{FINAL}A{RETURN}", "B", "gpqa_diamond"),
    answer(f"{FINAL}B{RETURN}", "B", "gpqa_diamond"),
    answer("\\boxed{5}", "5", "aime25"),
    answer("\\boxed{6}", "5", "aime25"),
    answer(f"{FINAL}```\ngood\n```", "q", "livecodebench_v6"),
    answer(f"{FINAL}```\nbad\n```", "q", "livecodebench_v6"),
]


def test_each_exam_counts_for_its_questions() -> None:
    SCORER.check()
    assert reads_special_tokens(SCORER) and not reads_special_tokens(OpenOrcaScorer())
    scores = SCORER.score(ANSWERS)
    # As the official script printed: (2/5 + 1/8 + 1/3) of (3/5 + 2/8 + 2/3).
    shares = {name: scores.values[name] for name in ("exact_match", "aime25", "livecodebench")}
    assert shares == {"exact_match": 56.593, "aime25": 50, "livecodebench": 50}
    assert scores.values["gpqa"] == pytest.approx(200 / 3)
    assert scores.per_answer["gpqa"] == (100, 0, 100, None, None, None, None)
    assert "exact_match" not in scores.per_answer


def test_without_the_programs_there_is_no_exact_match() -> None:
    scores = GptOssScorer(no_sandbox).score(ANSWERS)
    assert set(scores.not_judged) == {"exact_match", "livecodebench"}
    assert scores.values["gpqa"] == pytest.approx(200 / 3)
    assert "exact_match" not in scores.values
    assert GptOssScorer(no_sandbox).score(ANSWERS[:3]).values["exact_match"] == 66.667
