"""MBXP's programs in languages that need a compiler or an interpreter, as mxeval judges them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from meta_tests.scorers.answers import answer as answer_of
from mlperf_suite.features.code_grading.sandbox.box import Sandbox
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.features.code_grading.scorers.mbxp import Mbxp, missing_languages
from mlperf_suite.scorers.scorer import Answer

ASSERT = "\nrequire('assert').equal(add(2, 3), 5);\n"
TESTS = {
    "javascript": ASSERT,
    "typescript": ASSERT,
    "php": "\nif (add(2, 3) !== 5) { throw new Exception('wrong'); }\n",
    "ruby": "\nraise 'wrong' unless add(2, 3) == 5\n",
    "cpp": "\nint main() { return add(2, 3) == 5 ? 0 : 1; }\n",
}
RIGHT = {
    "javascript": "function add(a, b) { return a + b; }\n",
    "typescript": "const add = (a: number, b: number): number => { return a + b; }\n",
    "php": "<?php\nfunction add($a, $b) { return $a + $b; }\n",
    "ruby": "def add(a, b)\n  a + b\nend\n",
    "cpp": "int add(int a, int b) { return a + b; }\n",
}


def answer(language: str, text: str) -> Answer:
    return answer_of(text, TESTS[language], "MBXP", f"{language}_add")


COMPILED_OR_INTERPRETED: Mapping[str, Mapping[str, bool]] = {
    "javascript": {
        RIGHT["javascript"]: True,
        "function add(a, b) { return a - b; }": False,
        "function add(a, b) { return (": False,
        # With exit code 0 a program has passed, whatever it left out.
        "process.exit(0)": True,
        "process.exit(3)": False,
        "function add(a, b) { process.stdout.write(Buffer.from([255])); return a + b; }": False,
        "function add(a, b) { console.log('ü'.repeat(2000000)); return a + b; }": True,
    },
    "cpp": {RIGHT["cpp"]: True, "int add(int a, int b) { return a; }": False, "int add(": False},
    "php": {RIGHT["php"]: True, "<?php\nfunction add($a, $b) { return 1; }": False},
    "ruby": {RIGHT["ruby"]: True, "def add(a, b)\n  a\nend\n": False},
    "typescript": {RIGHT["typescript"]: True, "const add = (a, b) => a;": False},
}

PACKAGES = {
    "javascript": "nodejs",
    "cpp": "g++",
    "php": "php-cli",
    "ruby": "ruby",
    "typescript": "nodejs node-typescript",
}
"""Those of Debian and Ubuntu that run each language."""


@pytest.mark.parametrize("language", COMPILED_OR_INTERPRETED)
def test_a_program_passes_with_exit_code_zero(sandbox: Sandbox, language: str) -> None:
    answers = [answer(language, text) for text in COMPILED_OR_INTERPRETED[language]]
    if missing_languages([answer.sample for answer in answers], sandbox):
        pytest.skip(f"no {language}: apt-get install {PACKAGES[language]}")
    assert Mbxp(run_s=60)(answers) == CodeGrades(tuple(COMPILED_OR_INTERPRETED[language].values()))
