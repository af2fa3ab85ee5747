"""The letter of an answer is that of the official pattern, whatever the text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.features.code_grading.scorers.exams import letter_after_answer


@given(
    st.lists(
        st.sampled_from(
            ["ANSWER", "final", " ", "\n", ":", "=", "(", ")", "A", "d", "e", "_", "\u0131", "x."]
        ),
        max_size=10,
    ).map("".join)
)
def test_letters_are_those_of_the_official_pattern(text: str) -> None:
    official = r"\b(?:ANSWER|FINAL\s*ANSWER)\b\s*[:=]?\s*(?:\(?\s*([A-D])\s*\)?)(?:\s*$|[^A-Za-z])"
    letters = re.findall(official, text, re.IGNORECASE)
    assert letter_after_answer(text, "D") == (letters[-1].upper() if letters else None)


def test_a_long_run_of_spaces_is_read_once() -> None:
    """The official pattern takes more than a minute for 2,000 spaces, and the cube of it."""
    assert letter_after_answer("ANSWER" + " " * 1_000_000 + "x", "D") is None
    assert letter_after_answer("ANSWER:" + " " * 1_000_000 + "b", "D") == "B"
