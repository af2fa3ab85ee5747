"""Answers that keep their judge busy until it is ended by force, or would if they were read."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from mlperf_suite.features.code_grading.sandbox.box import Sandbox
from mlperf_suite.features.code_grading.scorers import math_equality
from mlperf_suite.features.code_grading.scorers.live_code_bench import (
    Problem,
    agrees_printed,
    agrees_returned,
    passes,
)
from mlperf_suite.features.code_grading.scorers.math_equality import grade_math

HOSTILE = [
    "9**9**9**9",
    "1000000000!/x",
    "((((9^9)^9)^9)^9)^9/7",
    "2**99999999999*x",
    "(" * 60 + "x" + ")" * 60,
    "{" * 3900,
    "\\sqrt{" * 600,
    "1e99999999999x",
    "__import__('os').getpid()",
    "x.n()",
    "(lambda:x)()",
    "[x][0]",
    "'x'",
    "x" * 100_000,
    "\x00",
]


def test_a_program_that_does_not_let_itself_be_interrupted(sandbox: Sandbox) -> None:
    code = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    problem = Problem("sum", None, ("1 2\n3\n", "4 5\n6\n"), ("6\n", "15.0\n"))
    assert not passes(sandbox, code, problem, 1)


def test_a_new_process_comes_after_one_that_was_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_equality, "TIME_LIMIT_S", 10)
    nested = "(" * 1900 + "x" + ")" * 1900  # keeps sympy's parser busy for minutes
    assert grade_math([(nested, "2x"), ("x+x", "2x")]) == [False, True]


def test_hostile_answers_are_wrong_and_those_after_them_are_judged() -> None:
    pairs = [(text, "\\frac{x}{2}") for text in HOSTILE] + [("x/2", "\\frac{x}{2}")]
    assert grade_math(pairs) == [False] * len(HOSTILE) + [True]


@pytest.mark.parametrize("output", ["1 " * 200_000, "1\n" * 200_000, "1\n\n" * 100_000 + "1"])
def test_what_is_printed_takes_no_more_memory_than_its_text(output: str) -> None:
    tracemalloc.start()
    try:
        assert not agrees_printed(output, "1\n1")
        assert tracemalloc.get_traced_memory()[1] < 4 * len(output)
    finally:
        tracemalloc.stop()


def test_a_fraction_is_not_reduced() -> None:
    """Reducing this one takes minutes; its terms are a program's to choose."""
    plain = {"ratio": ["0x" + "f" * 2_400_000, "0x" + "d" * 2_400_000]}
    begin = time.process_time()
    assert not agrees_returned(plain, "0.5")
    assert time.process_time() - begin < 30
