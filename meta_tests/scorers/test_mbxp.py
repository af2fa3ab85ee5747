"""MBXP against what mxeval and MLPerf's evaluate_mbxp.py do: which program, and when it passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from meta_tests.scorers.answers import answer as answer_of
from mlperf_suite.scorers.code_grading import CodeGrades
from mlperf_suite.scorers.mbxp import (
    LANGUAGES,
    Mbxp,
    language_of,
    missing_languages,
    program_of,
)
from mlperf_suite.scorers.sandbox.box import NoSandbox, Sandbox
from mlperf_suite.scorers.scorer import Answer

CHECK = "\n\ndef check(candidate):\n    assert candidate(2, 3) == 5\n"
ASSERT = "\nrequire('assert').equal(add(2, 3), 5);\n"
TESTS = {
    "python": CHECK,
    "javascript": ASSERT,
    "typescript": ASSERT,
    "php": "\nif (add(2, 3) !== 5) { throw new Exception('wrong'); }\n",
    "ruby": "\nraise 'wrong' unless add(2, 3) == 5\n",
    "cpp": "\nint main() { return add(2, 3) == 5 ? 0 : 1; }\n",
}
RIGHT = {
    "python": "def add(a, b):\n    return a + b\n",
    "javascript": "function add(a, b) { return a + b; }\n",
    "typescript": "const add = (a: number, b: number): number => { return a + b; }\n",
    "php": "<?php\nfunction add($a, $b) { return $a + $b; }\n",
    "ruby": "def add(a, b)\n  a + b\nend\n",
    "cpp": "int add(int a, int b) { return a + b; }\n",
}


def answer(language: str, text: str) -> Answer:
    return answer_of(text, TESTS.get(language, ""), "MBXP", f"{language}_add")


def python(*body: str) -> Answer:
    return answer("python", "\n    ".join(["def add(a, b):", *body]) + "\n")


def test_a_program_is_the_answer_to_the_end_of_its_block_and_the_tests() -> None:
    text = "\n  int a\\_b;\n```\nThis adds.\n```"
    assert program_of(answer("cpp", text)) == "\n  int a_b;\n" + TESTS["cpp"]


def test_a_python_program_loses_its_indent_and_calls_its_check() -> None:
    assert program_of(answer("python", "\n  x = 1```")) == f"x = 1\n{CHECK}\ncheck(add)"


def test_an_entry_point_may_have_underscores() -> None:
    add_two = answer_of("", "T", id_="python_add_two")
    assert program_of(add_two).endswith("\ncheck(add_two)")
    assert language_of(add_two.sample) == "python"


def test_a_block_that_begins_the_answer_leaves_no_program() -> None:
    assert program_of(answer("ruby", "```ruby\n1\n```")) == TESTS["ruby"]


@dataclass(frozen=True)
class Case:
    answer: Answer
    passes: bool | None


PYTHON = {
    "right": Case(python("return a + b"), True),
    "with words after it": Case(answer("python", RIGHT["python"] + "```\nIt adds."), True),
    "wrong": Case(python("return a - b"), False),
    "no program": Case(python("return (a"), False),
    "leaves before the tests": Case(python("import os", "os._exit(0)"), False),
    "exits before the tests": Case(python("raise SystemExit(0)"), False),
    "ends in time, interrupted": Case(python("while True: pass"), False),
    "does not let itself be interrupted": Case(
        python(
            "while True:",
            "    try:",
            "        while True: pass",
            "    except BaseException: pass",
        ),
        False,
    ),
    "forges a verdict": Case(
        python(
            "import os",
            "for n in range(64):",
            "    try: os.write(n, b'passed' * 6)",
            "    except OSError: pass",
            "os._exit(0)",
        ),
        False,
    ),
    "looks for the word in standard input": Case(
        python(
            "import os",
            "os.lseek(0, 0, 0)",
            "word = os.read(0, 99)",
            "for n in range(1, 64):",
            "    try: os.write(n, word)",
            "    except OSError: pass",
            "os._exit(0)",
        ),
        False,
    ),
    "reads standard input": Case(python("input()", "return a + b"), False),
    "prints": Case(python("print('x' * 10**6, '\\udcff')", "return a + b"), True),
    "leaves a thread": Case(
        python(
            "import threading, time",
            "threading.Thread(target=time.sleep, args=(600,)).start()",
            "return a + b",
        ),
        True,
    ),
    "makes a process": Case(python("import os", "os.fork()", "return a + b"), False),
    "is no text": Case(python("return a + b  # \udcff"), False),
    "uses numpy": Case(python("import numpy", "return int(numpy.add(a, b))"), True),
    "uses a temporary file": Case(
        python("import tempfile", "with tempfile.TemporaryFile(): return a + b"), True
    ),
    "is no part of it": Case(answer("go", "package main"), None),
}


@pytest.fixture(scope="module")
def python_grades(sandbox: Sandbox) -> CodeGrades:
    return Mbxp(run_s=2)([case.answer for case in PYTHON.values()])


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_program_passes_with_its_tests(python_grades: CodeGrades, name: str) -> None:
    assert python_grades.not_judged == ""
    assert python_grades.passed[list(PYTHON).index(name)] is PYTHON[name].passes


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


@pytest.mark.parametrize("language", COMPILED_OR_INTERPRETED)
def test_a_program_passes_with_exit_code_zero(sandbox: Sandbox, language: str) -> None:
    answers = [answer(language, text) for text in COMPILED_OR_INTERPRETED[language]]
    if missing_languages([answer.sample for answer in answers], sandbox):
        pytest.skip(f"no {language} here")
    assert Mbxp(run_s=3)(answers) == CodeGrades(tuple(COMPILED_OR_INTERPRETED[language].values()))


class Bare(Sandbox):
    """A sandbox on a machine with no tool but these."""

    tools: tuple[str, ...] = ()

    def tool(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.tools else None


def test_absent_languages_are_named_and_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [answer(language, "") for language in ("ruby", "python", "php", "go", "ruby")]
    monkeypatch.setattr(Sandbox, "find", lambda: Bare("namespaces"))
    assert Mbxp()(answers) == CodeGrades((None,) * 5, "no php, ruby")


def test_a_language_needs_all_its_tools() -> None:
    class Node(Bare):
        tools = ("node",)

    answers = [answer(language, "") for language in LANGUAGES]
    languages = missing_languages([answer.sample for answer in answers], Node("namespaces"))
    assert languages == ("cpp", "php", "ruby", "typescript")


def test_without_a_sandbox_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "find", lambda: NoSandbox("forbidden"))
    assert Mbxp()([answer("python", "")]) == CodeGrades((None,), "no sandbox: forbidden")


def test_the_compiler_of_typescript_succeeds_with_2() -> None:
    # As mxeval has it; its tests call `require`, which no declaration knows.
    assert LANGUAGES["typescript"].success == 2
