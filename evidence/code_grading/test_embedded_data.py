"""Embedded data of the graded benchmarks is of their graders' form, and tells right from wrong."""

from __future__ import annotations

import contextlib
import json

import pytest

from mlperf_suite.features.code_grading.frames import (
    DEEPSEEK_R1,
    EMBEDDED_PROBLEMS,
    GPT_OSS_120B,
    MIXTRAL_8X7B,
)


def test_the_embedded_references_are_of_their_graders_form() -> None:
    for item in MIXTRAL_8X7B.load("embedded").items:
        if item.kind == "GSM8K":
            assert float(item.reference) >= 0
        if item.kind == "MBXP":
            language, name = item.id.split("_", 1)
            assert language in ("python", "javascript")
            assert name in item.input and name in item.reference


def test_the_embedded_python_tests_tell_right_from_wrong() -> None:
    right = {
        "python_count_vowels": "def count_vowels(t):\n    return sum(c in 'aeiou' for c in t)\n",
        "python_middle": "def middle(n):\n    return sorted(n)[1]\n",
    }
    for item in MIXTRAL_8X7B.load("embedded").items:
        if item.id.startswith("python_"):
            solution = right[item.id]
            wrong = solution.split("return")[0] + "return 3\n"
            for code, passes in ((solution, True), (wrong, False)):
                with contextlib.nullcontext() if passes else pytest.raises(AssertionError):
                    exec(code + item.reference, {})


def test_the_embedded_problems_are_those_that_the_data_names() -> None:
    lines = EMBEDDED_PROBLEMS.read_text(encoding="utf-8").splitlines()
    problems = {row["question_id"]: row for row in map(json.loads, lines)}
    items = [*DEEPSEEK_R1.load("embedded").items, *GPT_OSS_120B.load("embedded").items]
    graded = [item for item in items if item.kind == "livecodebench"]
    assert {item.reference for item in graded} == problems.keys()
    for item in graded:
        assert problems[item.reference]["question_content"] in item.input
    for problem in problems.values():
        for column in ("public_test_cases", "private_test_cases"):
            for case in json.loads(problem[column]):
                assert case["testtype"] == ("functional" if problem["starter_code"] else "stdin")
                assert isinstance(case["input"], str) and isinstance(case["output"], str)
        function = json.loads(problem["metadata"]).get("func_name")
        assert (function is not None) == bool(problem["starter_code"])
