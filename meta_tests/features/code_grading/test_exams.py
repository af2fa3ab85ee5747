"""The answer at the end of a text, against what the official parsers found in these texts."""

import pytest

from mlperf_suite.features.code_grading.benchmarks import deepseek_r1
from mlperf_suite.features.code_grading.scorers.exams import (
    aime_integer,
    boxed,
    is_choice,
    is_integer,
)


@pytest.mark.parametrize(
    ("text", "of_four", "of_ten"),
    [
        *(("Answer: B", "B", "B"), ("ANSWER: (c)", "C", "C"), ("Final Answer = D", "D", "D")),
        ("answer A. Then ANSWER: B, and answer Cats", "B", "B"),
        *(("The answer is D", None, "D"), ("ANSWER: E", None, "E"), ("['Answer: A']", "A", "A")),
        *(("Thus\\nAnswer:\\n C", "C", "C"), ("Answer: BC", None, None)),
        *(("so (E) or j", None, "J"), ("an\u0131wer: A", None, "A")),
        *(("an\u017fwer: A", "A", "A"), ("Answer: **C**", None, "C"), ("Answer: A_", "A", "A")),
    ],
)
def test_the_letter_that_is_chosen(text: str, of_four: str | None, of_ten: str | None) -> None:
    assert deepseek_r1.choice(text, "D") == of_four
    assert deepseek_r1.choice(text, "J") == of_ten


@pytest.mark.parametrize(
    ("text", "content"),
    [
        *(("\\boxed{5}", "5"), ("\\boxed{1} \\boxed{ \\frac{1}{2} } done", "\\frac{1}{2}")),
        *(("\\boxed{}", ""), ("none", None), ("\\boxed{{}", None), ("\\boxed{a}\\boxed{b", None)),
    ],
)
def test_what_is_in_the_last_box(text: str, content: str | None) -> None:
    assert boxed(text) == content


@pytest.mark.parametrize(
    ("text", "integer"),
    [
        ("\\boxed{204}", 204),
        *(("\\boxed{ 007 }", 7), ("\\boxed{1000}", None), ("\\boxed{-5} Answer: 12", 12)),
        *(("\\boxed{1} \\boxed{2} Answer: 3", 2), ("\\boxed{1000} Answer: 3", None)),
        *(("answer:7 and so", 7), ("Answer: 3.5", None), ("Answer: 12\u0660", 120)),
        *(("Answer: **5**", None), ("\\boxed{" + "9" * 5000 + "}", None)),
    ],
)
def test_the_integer_of_aime(text: str, integer: int | None) -> None:
    assert aime_integer(text) == integer


def test_a_choice_or_an_integer_is_compared_as_one() -> None:
    assert is_choice("C", "c", "D") and is_choice("J", "J", "J")
    assert not any([is_choice("E", "E", "D"), is_choice(None, "", "D"), is_choice("A", "", "D")])
    assert is_integer(7, " 007 ")
    assert not is_integer(7, "seven") and not is_integer(None, "7")
