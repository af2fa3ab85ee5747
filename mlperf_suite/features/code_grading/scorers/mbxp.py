"""MBXP: runs the programs that a model completed, in six languages, against their tests.

A program passes by the rules of MLPerf's evaluate_mbxp.py for Mixtral (mlcommons/inference,
language/mixtral-8x7b) with amazon-science/mxeval's execution.py. A Python program passes if it runs
to completion, with its tests, within 20 s. A program in another language passes if it exits with
code 0 within 20 s, even if it exits before its tests: this weakness of the official figure is kept
so that figures stay comparable.
"""

from __future__ import annotations

import codecs
import dataclasses
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.code_grading.sandbox.box import (
    Limits,
    NoSandbox,
    ProgramOutcome,
    Sandbox,
)
from mlperf_suite.features.code_grading.scorers.code_grading import (
    CodeGrades,
    grade_each,
    run_python,
)
from mlperf_suite.scorers.scorer import Answer

RUN_S = 20.0
"""The time limit that evaluate_mbxp.py gives a program."""
COMPILE_S = 100.0
"""The time limit that mxeval gives a compiler."""
BUDGET_S = 4 * 3600.0
_PYTHON = "python"


@dataclass(frozen=True, slots=True)
class _Language:
    """How a program is compiled and run. The sandbox's own Python is not looked up.

    `success` is the exit code of a successful compiler run, `binary` the file that it writes.
    """

    source: str
    run: tuple[str, ...]
    compiler: tuple[str, ...] = ()
    success: int = 0
    binary: str = ""

    @property
    def tools(self) -> tuple[str, ...]:
        tools = {words[0] for words in (self.compiler, self.run) if words}
        return tuple(sorted(tool for tool in tools if not tool.startswith(".")))


LANGUAGES = {
    "cpp": _Language(
        "program.cpp",
        ("./program_cpp",),
        ("g++", "program.cpp", "-o", "program_cpp"),
        binary="program_cpp",
    ),
    "javascript": _Language("program.js", ("node", "program.js")),
    "php": _Language("program.php", ("php", "program.php")),
    _PYTHON: _Language("answer.py", ()),
    "ruby": _Language("program.rb", ("ruby", "program.rb")),
    # mxeval takes exit code 2 of the compiler, and only that, for success: the tests call
    # `require`, which has no declared type, so each gives an error, but JavaScript is written all
    # the same.
    "typescript": _Language(
        "program.ts",
        ("node", "program.js"),
        ("tsc", "program", "--target", "es5", "--lib", "es2016"),
        success=2,
        binary="program.js",
    ),
}
"""The languages that evaluate_mbxp.py grades; it ignores answers in any other."""


def language_of(sample: Sample) -> str:
    """The first part of the sample's id, "<language>_<entry point>"."""
    return sample.id.partition("_")[0]


def missing_languages(samples: Sequence[Sample], sandbox: Sandbox) -> tuple[str, ...]:
    """The languages of the samples that cannot be run here, in alphabetical order."""
    languages = {language_of(sample) for sample in samples} & LANGUAGES.keys()
    return tuple(
        name
        for name in sorted(languages)
        if any(sandbox.tool(tool) is None for tool in LANGUAGES[name].tools)
    )


@dataclass(frozen=True, slots=True)
class Mbxp:
    """Runs MBXP programs with their own tests.

    Without a sandbox, or if a language's compiler or interpreter is missing, nothing is judged.
    `run_s` limits one program, `budget_s` the time during which programs are started, both in
    seconds.
    """

    run_s: float = RUN_S
    budget_s: float = BUDGET_S

    def obstacle(self, samples: Sequence[Sample], /) -> str:
        """Why these samples' programs cannot be graded here: no sandbox, or missing languages."""
        sandbox = Sandbox.find()
        if isinstance(sandbox, NoSandbox):
            return f"no sandbox: {sandbox.reason}"
        languages = missing_languages(samples, sandbox)
        return f"no {', '.join(languages)}" if languages else ""

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        """Whether each answer's program passes its tests, `sample.reference`.

        The grade is None for an answer in a language that MLPerf does not grade.
        """
        sandbox = Sandbox.find()
        obstacle = self.obstacle([answer.sample for answer in answers])
        if obstacle or isinstance(sandbox, NoSandbox):
            return CodeGrades((None,) * len(answers), obstacle)
        limits = Limits(wall_s=self.run_s)

        def grade(index: int, stop: threading.Event) -> bool | None:
            language = LANGUAGES.get(language_of(answers[index].sample))
            if language is None:
                return None
            try:
                program = program_of(answers[index]).encode()
            except UnicodeEncodeError:
                return False
            if language_of(answers[index].sample) == _PYTHON:
                return _python_passes(sandbox, program, limits, stop)
            return _passes(sandbox, language, program, limits, stop)

        memory, budget_s = limits.memory_bytes, self.budget_s
        return grade_each(len(answers), grade, memory_bytes=memory, budget_s=budget_s)


def program_of(answer: Answer) -> str:
    """The program to run: the answer up to the end of its code block, then the tests.

    The prompt is left out, since Mixtral repeats it; so are the backslashes that Mixtral puts
    before underscores.
    """
    solution = answer.text.partition("```")[0]
    if language_of(answer.sample) != _PYTHON:
        return solution.replace("\\_", "_") + answer.sample.reference
    solution = solution.lstrip().replace("\\_", "_")
    entry_point = answer.sample.id.partition("_")[2]
    return f"{solution}\n{answer.sample.reference}\ncheck({entry_point})"


def _passes(
    sandbox: Sandbox, language: _Language, program: bytes, limits: Limits, stop: threading.Event
) -> bool:
    files = {language.source: program}
    if language.compiler:
        compiled = sandbox.run(
            _command(sandbox, language.compiler),
            files,
            limits=Limits(wall_s=COMPILE_S),
            keep=(language.binary,),
            stop=stop,
        )
        binary = compiled.files.get(language.binary)
        if compiled.exit_code != language.success or binary is None or not _is_text(compiled):
            return False
        files = {language.binary: binary}
    outcome = sandbox.run(_command(sandbox, language.run), files, limits=limits, stop=stop)
    return outcome.exit_code == 0 and _is_text(outcome)


def _python_passes(sandbox: Sandbox, program: bytes, limits: Limits, stop: threading.Event) -> bool:
    word = secrets.token_bytes(32)
    order = {"kind": "mbxp", "timeout_s": limits.wall_s}
    # One second more than the program's own timeout, as mxeval waits for it.
    limits = dataclasses.replace(limits, wall_s=limits.wall_s + 1)
    return run_python(sandbox, program, order, limits, word=word, stop=stop).stdout == word


def _command(sandbox: Sandbox, words: tuple[str, ...]) -> tuple[str, ...]:
    return (sandbox.tool(words[0]) or words[0], *words[1:])


def _is_text(outcome: ProgramOutcome) -> bool:
    """Whether both outputs are UTF-8: mxeval decodes them, and a decoding error is a failure."""
    try:
        for output in (outcome.stdout, outcome.stderr):
            # A truncated output may end within a character.
            codecs.getincrementaldecoder("utf-8")().decode(output, final=not outcome.truncated)
    except UnicodeDecodeError:
        return False
    return True
