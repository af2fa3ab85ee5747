"""Equality of mathematical answers, against what PRM800K's own grader said of these pairs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mlperf_suite.features.code_grading.scorers import math_equality
from mlperf_suite.features.code_grading.scorers.math_equality import (
    as_in_math,
    grade_math,
    is_equal,
    plain,
)

EQUAL = [
    *(("42", "42"), ("\\dfrac12", "\\frac{1}{2}"), ("0.5", "\\frac{1}{2}")),
    *(("10,\\!000", "10000"), ("\\text{Yes}", "yes"), ("90^\\circ", "90"), ("5\\text{ cm}", "5")),
    *(("\\$5.00", "5"), ("(x+1)^2", "x^2+2x+1"), ("2\\sqrt2", "\\sqrt{8}")),
    *(("\\frac{1}{\\sqrt{3}}", "\\frac{\\sqrt{3}}{3}"), ("7\\frac{3}{4}", "\\frac{31}{4}")),
    *(("(0.5, 1.5)", "(\\frac{1}{2},\\frac{3}{2})"), ("\\left[1,2\\right]", "[1,2]")),
    *(("x^{2}", "xx"), ("5!", "120.5-0.5")),
]
DIFFERENT = [
    *(("42", "43"), ("\\frac{2}{4}", "\\frac{1}{2}"), ("(1,2]", "(1,2)"), ("(2,1)", "(1,2)")),
    *(("(1,2,3)", "(1,2)"), ("1.5 million", "1500000"), ("2^{10}", "1024"), ("", "0"), ("", "")),
    *(("\\text{}", "\\text{a}"), ("0.333", "1/3")),
]
HOSTILE = ["9**9**9**9", "1000000000!/x", "{" * 3900, "__import__('os').getpid()", "x" * 100_000]


def test_pairs_are_equal_or_not_as_the_original_says() -> None:
    # After those that are refused, the others are judged.
    pairs = [*((text, "\\frac{x}{2}") for text in HOSTILE), *EQUAL, *DIFFERENT]
    verdicts = {pair: pair in EQUAL for pair in pairs}
    assert dict(zip(pairs, grade_math(pairs), strict=True)) == verdicts
    assert all(is_equal(*pair) == verdicts[pair] for pair in (*EQUAL, *DIFFERENT))


def test_what_takes_too_long_is_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_equality, "TIME_LIMIT_S", 0)
    assert grade_math([("2x", "x+x"), ("7", "7"), ("3x", "x+2x")]) == [False, True, False]


def test_the_kernel_ends_what_compares_before_the_engine() -> None:
    with math_equality._Comparer() as comparer:
        comparer._start()
        own = Path(f"/proc/{comparer._process.pid}/oom_score_adj").read_text(encoding="ascii")
    assert own == "1000\n"


def test_nothing_of_an_answer_is_evaluated_as_python_nor_a_huge_number_computed() -> None:
    # Each would be equal to 0, were it evaluated.
    for text in ("x-x.n()+0.0", "[0.0][0]", "0.0if(1)else(1)", "(x:=0.0)", "sqrt"):
        assert not is_equal(text, "0.5-0.5")
    assert not is_equal("x*9**9**9", "x")
    assert not is_equal("1000000000!*x", "x")
    assert is_equal("2**100*x/2**99", "2x") and is_equal("-y+x^y", "x^y-y")
    assert is_equal("sqrt(20000)", "100\\sqrt{2}")


@pytest.mark.parametrize(
    ("form_of", "text", "form"),
    [
        (as_in_math, " \\text{ (A) } ", "(A)"),
        (as_in_math, ".5", "\\frac{1}{2}"),
        (as_in_math, "\\tfrac1{72}", "\\frac{1}{72}"),
        (as_in_math, "\\frac1", "\\frac1"),
        *((as_in_math, text, text) for text in ("\\frac", "\\sqrt")),
        (as_in_math, "2 \\sqrt 3", "2\\sqrt{}3"),
        (as_in_math, "-3/04", "-3/04"),
        (as_in_math, "k=2=k", "k=2=k"),
        (as_in_math, "k=2", "2"),
        (as_in_math, "5\\text{ a}\\text{ b}", "5\\text{ a}\\text{ b}"),
        *((plain, text, "red") for text in ("\\text{Red} ", "\\text{Red}")),
        (plain, "{2.99999999}", "3"),
        (plain, "1,234,567.0", "1234567"),
        (plain, "7 3/4", "7+3/4"),
        (plain, "2 centimeters^2 or 3", "2,3"),
        (plain, "-\\frac{1}{2}", "-1/2"),
    ],
)
def test_forms_of_an_answer(form_of: Callable[[str], str], text: str, form: str) -> None:
    assert form_of(text) == form
