"""LiveCodeBench: runs programs that a model wrote against the tests of their problems.

A program passes by the rules of LiveCodeBench's lcb_runner/evaluation (testing_util.py,
compute_code_generation_metrics.py) as MLPerf calls it for DeepSeek-R1 and gpt-oss-120b
(mlcommons/inference, language/deepseek-r1 and language/gpt-oss-120b, eval_accuracy.py): release_v1
and release_v6, one minute per test, and it must pass every public and private test. A program never
sees the output expected of it, so it cannot forge a verdict.

The problems are files of the data set livecodebench/code_generation_lite (test.jsonl for
release_v1, test.jsonl to test6.jsonl for release_v6), which the user fetches.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import ScorerOption
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading.sandbox.box import (
    GIBIBYTE,
    MEBIBYTE,
    Limits,
    NoSandbox,
    Sandbox,
)
from mlperf_suite.features.code_grading.scorers.code_grading import (
    CodeGrades,
    grade_each,
    run_python,
)
from mlperf_suite.scorers.scorer import Answer, Scorer

TEST_S = 60
"""The `timeout` of both eval_accuracy.py, for each test of a problem."""
PROBLEM_S = 1200.0
"""The time that both eval_accuracy.py give the whole data set, used as the limit for one
problem."""
BUDGET_S = 4 * 3600.0
_MEMORY_BYTES = 4 * GIBIBYTE
_MAX_TESTS_BYTES = GIBIBYTE
_WORD = re.compile(r"\S+")
_QUESTION_ID = re.compile(rb'"question_id"\s*:\s*"([^"\\]+)"')


# --- The problems ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """The tests of a problem. `function` is None if the program reads standard input."""

    question_id: str
    function: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Problems:
    """The problems in JSON lines files. Reads each problem when it is looked up.

    A release has gigabytes of tests; only the position of each problem is kept in memory.
    """

    def __init__(self, path: Path) -> None:
        """`path` is a file, or a folder of *.jsonl. Raises DatasetError if there are no
        problems."""
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        self._places: dict[str, tuple[Path, int]] = {}
        try:
            for file in files:
                for question_id, offset in _lines(file):
                    self._places[question_id] = (file, offset)
        except OSError as error:
            raise DatasetError(f"no LiveCodeBench problems: {path}: {error.strerror}") from None
        if not self._places:
            raise DatasetError(f"no LiveCodeBench problems: none in {path}")

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, question_id: str) -> Problem:
        """Raises KeyError for an unknown problem, DatasetError for an unreadable one."""
        file, offset = self._places[question_id]
        with file.open("rb") as lines:
            lines.seek(offset)
            line = lines.readline()
        try:
            row = json.loads(line)
            tests = [*_tests(row["public_test_cases"]), *_tests(row["private_test_cases"])]
            return Problem(
                question_id,
                json.loads(row["metadata"]).get("func_name"),
                tuple(str(test["input"]) for test in tests),
                tuple(str(test["output"]) for test in tests),
            )
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
            raise DatasetError(f"{file}: problem {question_id}: {error!r}") from None


def _lines(file: Path) -> Iterator[tuple[str, int]]:
    """The question id of each line of a file, and the line's offset."""
    offset = 0
    with file.open("rb") as lines:
        for line in lines:
            match = _QUESTION_ID.search(line)
            if match:
                yield match[1].decode(errors="replace"), offset
            offset += len(line)


def _tests(text: str) -> list[Mapping[str, Any]]:
    """Test cases as JSON, or as JSON in a pickled string, compressed with zlib, in base64."""
    try:
        cases = json.loads(text)
    except ValueError:
        try:
            packed = base64.b64decode(text, validate=True)
        except binascii.Error:
            raise ValueError("test cases that are neither JSON nor base64") from None
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, _MAX_TESTS_BYTES)
        if not unpacker.eof:
            raise ValueError(
                f"test cases of more than {_MAX_TESTS_BYTES} bytes, or cut off"
            ) from None
        cases = json.loads(pickled_string(data))
    if not isinstance(cases, list):
        raise TypeError("test cases that are not a list")
    return cases


def pickled_string(data: bytes) -> str:
    """The one string in a pickle, read without unpickling; other content is rejected.

    Takes protocols 2 to 5 (the opcodes are those of Lib/pickletools.py). Raises ValueError for a
    pickle of anything but a string.
    """
    sizes = {b"X": 4, b"\x8c": 1, b"\x8d": 8}
    skipped = {b"\x80": 1, b"\x95": 8, b"\x94": 0, b"q": 1, b"r": 4}
    text: str | None = None
    at = 0
    while at < len(data):
        opcode = data[at : at + 1]
        at += 1
        if opcode == b".":
            if text is None or at != len(data):
                break
            return text
        if opcode in skipped:
            at += skipped[opcode]
        elif opcode in sizes and text is None:
            begin = at + sizes[opcode]
            at = begin + int.from_bytes(data[begin - sizes[opcode] : begin], "little")
            if at > len(data):
                break
            text = data[begin:at].decode("utf-8", "surrogatepass")
        else:
            break
    raise ValueError("a pickle that holds something else than one string; it was not opened")


def problems_option(make: Callable[[Path], Scorer]) -> ScorerOption:
    """The option that names the problems for a scorer of programs."""
    return ScorerOption(
        "code_problems",
        lambda named: make(Path(named)),
        "'s answers contain programs; name the file or folder of LiveCodeBench's problems",
    )


# --- The verdict ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LiveCodeBench:
    """Tests programs against the problems in a file or folder of the data set.

    If `problems` is None or lacks a problem, or there is no sandbox, nothing is judged. `test_s`
    limits one test, `budget_s` the time during which programs are started, both in seconds.
    """

    problems: Path | None
    test_s: int = TEST_S
    budget_s: float = BUDGET_S

    def obstacle(self, samples: Sequence[Sample], /) -> str:
        """Why these samples' programs cannot be graded here: no sandbox, or missing problems."""
        means = self._means(samples)
        return means if isinstance(means, str) else ""

    def _means(self, samples: Sequence[Sample]) -> tuple[Sandbox, Problems] | str:
        """The sandbox and problems for these samples, or the reason why one is missing."""
        if self.problems is None:
            return "no LiveCodeBench problems: no file was named"
        sandbox = Sandbox.find()
        if isinstance(sandbox, NoSandbox):
            return f"no sandbox: {sandbox.reason}"
        try:
            problems = Problems(self.problems)
        except DatasetError as error:
            return str(error)
        unknown = {sample.reference for sample in samples if sample.reference not in problems}
        if unknown:
            return (
                f"no LiveCodeBench problems: {self.problems} lacks {len(unknown)} of those asked "
                f"({min(unknown)} ...)"
            )
        return sandbox, problems

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        """Whether each answer's program passes all tests of the problem `sample.reference`.

        An answer without code does not pass.
        """
        means = self._means([answer.sample for answer in answers])
        if isinstance(means, str):
            return CodeGrades((None,) * len(answers), means)
        sandbox, problems = means
        errors: list[str] = []

        def grade(index: int, stop: threading.Event) -> bool | None:
            code = answers[index].text
            if not code:
                return False
            try:
                problem = problems[answers[index].sample.reference]
            except DatasetError as error:
                errors.append(str(error))
                return None
            return passes(sandbox, code, problem, self.test_s, stop)

        memory, budget_s = _MEMORY_BYTES, self.budget_s
        grades = grade_each(len(answers), grade, memory_bytes=memory, budget_s=budget_s)
        return CodeGrades(grades.passed, errors[0]) if errors else grades


def passes(
    sandbox: Sandbox,
    code: str,
    problem: Problem,
    test_s: int = TEST_S,
    stop: threading.Event | None = None,
) -> bool:
    """Whether a program passes all tests. Raises SandboxError if it could not be run."""
    order = {
        "kind": "live_code_bench",
        "function": problem.function,
        "inputs": problem.inputs,
        "timeout_s": test_s,
    }
    try:
        program = code.encode()
    except UnicodeEncodeError:
        return False
    size = sum(len(text) for text in problem.inputs)
    word = secrets.token_hex(16).encode() + b"\n"
    judge = _Judge(problem, word)
    limits = Limits(
        wall_s=min((test_s + 1) * len(problem.inputs) + 5, PROBLEM_S),
        memory_bytes=_MEMORY_BYTES,
        address_space_bytes=_MEMORY_BYTES,
        disk_bytes=2 * size + 64 * MEBIBYTE,
        # The outputs go to `judge` as they arrive; the stored copy is not used.
        output_bytes=0,
    )
    run_python(sandbox, program, order, limits, word=word, watch=judge.take, stop=stop)
    return judge.passed


class _Judge:
    """Compares test results as they arrive, and stops the program at the first wrong one."""

    def __init__(self, problem: Problem, word: bytes) -> None:
        """`word` is the line after the results of a program that ran to completion."""
        self._problem = problem
        self._word = word.rstrip(b"\n")
        self._complete = False
        self._agrees = agrees_printed if problem.function is None else agrees_returned
        self._line = bytearray()
        self._right = 0
        self._wrong = False

    @property
    def passed(self) -> bool:
        return not self._wrong and self._complete

    def take(self, data: bytes) -> bool:
        """Take a part of standard output; returns False once a result is wrong."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._line += end
            self._judge(bytes(self._line))
            self._line.clear()
        self._line += rest
        self._wrong |= len(self._line) > _longest(self._problem)
        return not self._wrong

    def _judge(self, line: bytes) -> None:
        if self._right == len(self._problem.outputs):
            self._wrong |= self._complete or line != self._word
            self._complete = True
        if self._wrong or self._complete:
            return
        reference = self._problem.outputs[self._right]
        # Millions of small values would take sixty times the memory of their line.
        if self._problem.function and line.count(b",") > _most_commas(reference):
            self._wrong = True
            return
        try:
            (result,) = json.loads(line)
            agrees = self._agrees(result, reference)
        except (ValueError, TypeError, ArithmeticError, RecursionError, KeyError):
            agrees = False
        self._right += agrees
        self._wrong |= not agrees


def _longest(problem: Problem) -> int:
    """The maximum bytes of a correct result: JSON escapes and longer spellings of numbers count."""
    return 16 * max((len(output) for output in problem.outputs), default=0) + 16 * MEBIBYTE


def agrees_printed(output: object, reference: str) -> bool:
    """Whether two outputs agree: line by line, stripped, as text or as decimal numbers.

    Takes time and memory linear in the output, whatever a program prints.
    """
    if not isinstance(output, str):
        return False
    output, reference = output.strip(), reference.strip()
    # First, so that no endless output is split.
    if output.count("\n") != reference.count("\n"):
        return False
    lines = zip(output.split("\n"), reference.split("\n"), strict=True)
    return all(_lines_agree(line.strip(), reference_line.strip()) for line, reference_line in lines)


def _lines_agree(line: str, reference: str) -> bool:
    if line == reference:
        return True
    words = zip_longest(_WORD.finditer(line), _WORD.finditer(reference))
    try:
        return all(a and b and Decimal(a[0]) == Decimal(b[0]) for a, b in words)
    except ArithmeticError:  # no number, or one that signals
        return False


def agrees_returned(result: object, reference: str) -> bool:
    """Whether a returned value, as `python_program.py` writes it, equals this JSON."""
    return bool(_value(result) == json.loads(reference))


@dataclass(frozen=True, slots=True, eq=False)
class _Ratio:
    """A fraction as a program gives it. A Fraction would be reduced first, which takes minutes for
    a megabyte of digits."""

    numerator: int
    denominator: int

    def __eq__(self, number: object) -> bool:
        if not isinstance(number, int | float):
            return False
        try:
            numerator, denominator = number.as_integer_ratio()
        except (ValueError, OverflowError):  # NaN and infinity are no fractions
            return False
        cross = self.numerator * denominator == self.denominator * numerator
        return cross and self.denominator != 0

    __hash__ = None  # type: ignore[assignment]


def _most_commas(reference: str) -> int:
    """The commas of the longest line that agrees with this JSON: each entry of an object and each
    fraction adds one to the reference's own."""
    return 2 * reference.count(",") + reference.count(":") + 1


def _value(plain: Any) -> Any:  # noqa: PLR0911
    """The decoded value; an object that equals nothing if it is not a JSON value."""
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    match plain:
        case None | bool() | str():
            return plain
        case {"int": str(digits)}:
            return int(digits, 16)
        case {"float": str(digits)}:
            return float.fromhex(digits)
        case {"ratio": [str(numerator), str(denominator)]}:
            return _Ratio(int(numerator, 16), int(denominator, 16))
        case {"dict": list(items)}:
            return {str(key): _value(item) for key, item in items}
    return object()
