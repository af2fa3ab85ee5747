"""MBXP against what mxeval and MLPerf's evaluate_mbxp.py do: which program, and when it passes."""

import pytest

from meta_tests.scorers.answers import answer as answer_of
from mlperf_suite.features.code_grading.sandbox.box import NoSandbox, Sandbox
from mlperf_suite.features.code_grading.scorers import mbxp
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.features.code_grading.scorers.mbxp import (
    LANGUAGES,
    Mbxp,
    _Language,
    missing_languages,
)
from mlperf_suite.scorers.scorer import Answer

CHECK = "\n\ndef check(candidate):\n    assert candidate(2, 3) == 5\n"
TESTS = {"python": CHECK, "cpp": "\nint main() { return 0; }\n", "ruby": "\n1\n"}


def answer(language: str, text: str) -> Answer:
    return answer_of(text, TESTS.get(language, ""), "MBXP", f"{language}_add")


def python(*body: str) -> Answer:
    return answer("python", "\n    ".join(["def add(a, b):", *body]) + "\n")


PYTHON: dict[str, tuple[Answer, bool | None]] = {
    "right": (python("return a + b"), True),
    "wrong": (python("return a - b"), False),
    "no program": (python("return (a"), False),
    "leaves before the tests": (python("import os", "os._exit(0)"), False),
    "ends in time, interrupted": (python("while True: pass"), False),
    "does not let itself be interrupted": (
        python("while True:", "    try:", "        while True: pass", "    except: pass"),
        False,
    ),
    "looks for the word in standard input": (
        python(
            "import os",
            "os.lseek(0, 0, 0)",
            "word = os.read(0, 99) or b'passed' * 6",
            "for n in range(1, 64):",
            "    try: os.write(n, word)",
            "    except OSError: pass",
            "os._exit(0)",
        ),
        False,
    ),
    "reads standard input": (python("input()", "return a + b"), False),
    "prints": (python("print('x' * 10**6, '\\udcff')", "return a + b"), True),
    "leaves a thread": (
        python(
            "import threading, time",
            "threading.Thread(target=time.sleep, args=(600,)).start()",
            "return a + b",
        ),
        True,
    ),
    "makes a process": (python("import os", "os.fork()", "return a + b"), False),
    "is not text": (python("return a + b  # \udcff"), False),
    "is no part of it": (answer("go", "package main"), None),
}


ENDLESS = ("ends in time, interrupted", "does not let itself be interrupted")


def test_a_python_program_passes_with_its_tests(sandbox: Sandbox) -> None:
    for names, run_s in ((PYTHON.keys() - ENDLESS, 120), (ENDLESS, 1)):
        grades = Mbxp(run_s=run_s)([PYTHON[name][0] for name in names])
        assert grades.not_judged == ""
        assert dict(zip(names, grades.passed, strict=True)) == {
            name: PYTHON[name][1] for name in names
        }


@pytest.fixture
def shell_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of the six: one that is interpreted, and one whose compiler succeeds with 2."""
    run, compiler = ("sh", "program.sh"), ("sh", "program", "compile")
    compiled = _Language("program", ("./program.out",), compiler, success=2, binary="program.out")
    monkeypatch.setattr(
        mbxp, "LANGUAGES", {"interpreted": _Language("program.sh", run), "compiled": compiled}
    )


COMPILES = 'printf "#!/bin/sh\\n%s\\n" > program.out; chmod +x program.out; %s'
"""A program that is its own compiler: what it writes, and how it ends."""


@pytest.mark.usefixtures("shell_languages")
def test_a_program_passes_with_exit_code_zero(sandbox: Sandbox) -> None:
    programs = {
        # With exit code 0 a program has passed, whatever it left out.
        "interpreted": [
            ("exit 0", True),
            ("exit 3", False),
            ("printf '\\377'", False),
            ("printf '\\303\\274'", True),
            # A truncated output may end within a character.
            ("yes ü | head -c 3000001", True),
        ],
        "compiled": [
            (COMPILES % ("exit 0", "exit 2"), True),
            (COMPILES % ("exit 1", "exit 2"), False),
            (COMPILES % ("exit 0", "exit 0"), False),
            (COMPILES % ("exit 0", "printf '\\377'; exit 2"), False),
            ("exit 2", False),
        ],
    }
    cases = [(name, *case) for name, of in programs.items() for case in of]
    answers = [answer_of(text, "\n", "MBXP", f"{name}_add") for name, text, _ in cases]
    grades = Mbxp(run_s=60)(answers)
    assert grades == CodeGrades(tuple(passes for _, _, passes in cases))


class Node(Sandbox):
    """A sandbox on a machine whose only tool is node."""

    def tool(self, name: str) -> str | None:
        return "/usr/bin/node" if name == "node" else None


def test_a_language_needs_all_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [answer(language, "") for language in (*LANGUAGES, "python", "go", "ruby")]
    samples = [answer.sample for answer in answers]
    absent = ("cpp", "php", "ruby", "typescript")
    assert missing_languages(samples, Node("namespaces")) == absent
    for candidate, why in (
        (Node("namespaces"), f"no {', '.join(absent)}"),
        (NoSandbox("forbidden"), "no sandbox: forbidden"),
    ):
        monkeypatch.setattr(Sandbox, "find", lambda candidate=candidate: candidate)
        assert Mbxp()(answers) == CodeGrades((None,) * len(answers), why)
    # As mxeval has it; its tests call `require`, which no declaration knows.
    assert LANGUAGES["typescript"].success == 2
