"""LiveCodeBench: the code of an answer, the problems' files, and when a program passes."""

import base64
import json
import math
import pickle
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.scorers.answers import answer
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading.sandbox.box import NoSandbox, Sandbox
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.features.code_grading.scorers.live_code_bench import (
    LiveCodeBench,
    Problem,
    Problems,
    _Judge,
    _most_commas,
    agrees_printed,
    agrees_returned,
    passes,
    pickled_string,
)
from mlperf_suite.features.code_grading.scorers.python_program import _plain

# --- The problems ---------------------------------------------------------------------------------


def packed(tests: object, protocol: int = 4) -> str:
    """Private tests as the data set has them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests), protocol))).decode()


def row(question_id: str, public: object, private: str, function: str | None = None) -> str:
    metadata = {} if function is None else {"func_name": function}
    return json.dumps(
        {
            "question_title": 'a "question_id": "trap" in a title',
            "question_id": question_id,
            "starter_code": "",
            "public_test_cases": json.dumps(public),
            "private_test_cases": private,
            "metadata": json.dumps(metadata),
        }
    )


def case(test_input: str, reference: str, kind: str = "stdin") -> dict[str, str]:
    return {"input": test_input, "output": reference, "testtype": kind}


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    """A release of two files: `sum` reads two lines and adds, `add` is a function."""
    first = row("sum", [case("1 2\n3\n", "6\n")], packed([case("4 5\n6\n", "15.0\n")]))
    second = row("add", [case("1\n2", "3", "functional")], json.dumps([]), "addUp")
    (tmp_path / "test.jsonl").write_text(first + "\n\n")
    (tmp_path / "test2.jsonl").write_text(second + "\n")
    return tmp_path


def test_problems_are_read_from_the_files_of_a_folder(problems: Path) -> None:
    release = Problems(problems)
    assert len(release) == 2
    assert release["sum"] == Problem("sum", None, ("1 2\n3\n", "4 5\n6\n"), ("6\n", "15.0\n"))
    assert release["add"] == Problem("add", "addUp", ("1\n2",), ("3",))
    assert "trap" not in release
    assert "add" not in Problems(problems / "test.jsonl")


@pytest.mark.parametrize(
    "private",
    [
        *("no base64!", "[[]]", base64.b64encode(b"no zlib").decode()),
        base64.b64encode(zlib.compress(pickle.dumps("[]"))[:-4]).decode(),
        *(
            base64.b64encode(zlib.compress(content)).decode()
            for content in (b"no pickle", pickle.dumps("{}"), pickle.dumps("no json"))
        ),
    ],
)
def test_tests_that_cannot_be_read_name_file_and_problem(tmp_path: Path, private: str) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text(row("sum", [], private) + "\n")
    with pytest.raises(DatasetError, match=r"test\.jsonl: problem sum"):
        Problems(path)["sum"]


@pytest.mark.parametrize("length", [0, 1, 128, 256, 200_000])
def test_a_pickled_string_is_read_and_a_part_of_it_or_anything_else_refused(length: int) -> None:
    for protocol in range(2, 6):
        whole = pickle.dumps("é" * length, protocol)
        assert pickled_string(whole) == "é" * length
        others = [pickle.dumps(other, protocol) for other in (["x"], b"x", None, Decimal(length))]
        for wrong in (*(whole[:end] for end in (*range(9), -1)), whole + whole, *others):
            with pytest.raises(ValueError, match=r"pickle|utf-8|not opened"):
                pickled_string(wrong)


# --- What agrees ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "reference", "agree"),
    [
        ("\n 1 2 \n3\n\n", "1 2\n3", True),
        ("1  2\n3", "1 2\n3", True),
        ("1 2 3", "1 2\n3", False),
        ("1 2\n\n3", "1 2\n3", False),
        ("1.0 2e0\n03", "1 2\n3", True),
        ("50000000000000001", "50000000000000000", False),
        ("yes 1.0", "yes 1", False),
        ("NaN", "NaN", True),
        ("NaN", "nan", False),
        ("", "", True),
        ("1\r\n2", "1\n2", True),
        ("sNaN", "1", False),
        (6, "6", False),
    ],
)
def test_printed_lines_agree_as_text_or_as_decimals(
    output: Any, reference: str, agree: bool
) -> None:
    assert agrees_printed(output, reference) is agree


def test_a_fraction_is_compared_by_its_terms() -> None:
    assert agrees_returned({"ratio": ["0x2", "0x4"]}, "0.5")
    assert not agrees_returned({"ratio": ["0x0", "0x0"]}, "0")


@pytest.mark.parametrize("values", [b"{}," * 200_000, b'[{"":0,"a":1}],' * 40_000])
def test_a_line_with_more_values_than_the_reference_is_not_read(
    monkeypatch: pytest.MonkeyPatch, values: bytes
) -> None:
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("was read"))
    judge = _Judge(ADD, b"word")
    assert not judge.take(b"[[" + values + b"0]]\n")
    assert not judge.passed


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def through(value: object) -> Any:
    """A returned value as it comes out of the sandbox."""
    return json.loads(json.dumps(_plain(value)))


@given(ANY, ANY)
def test_values_agree_where_python_says_they_are_equal(value: Any, other: object) -> None:
    for text in (json.dumps(value), json.dumps(other)):
        equal = value == json.loads(text)
        assert agrees_returned(through(value), text) == equal
        assert not equal or json.dumps([_plain(value)]).count(",") <= _most_commas(text)


REFERENCES: list[object] = [3, [1, 2], {}, {"a": [1]}, True, [[1, 2]], 0.5, None, "x"]


@pytest.mark.parametrize(
    "value",
    [
        *(True, 3.0, np.int64(3), np.float64(3), np.float32(0.5), np.bool_(True), Decimal(3)),
        *(Fraction(1, 2), Decimal("0.5"), Decimal("NaN"), math.inf, 3 + 0j, 3 + 1j),
        *(Counter(), defaultdict(list, a=[1]), OrderedDict(a=[1]), deque([1, 2]), range(1, 3)),
        *([(1, 2)], {1, 2}, frozenset(), {1: 2}, b"x", iter([1, 2]), np.array([1, 2]), object()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_types_agree_where_they_do_in_python(value: Any) -> None:
    plain = through(value)
    for reference in REFERENCES:
        try:
            equal = bool(value == reference)
        except ValueError:
            equal = False  # of an array of truth values, which LiveCodeBench takes for an error
        assert agrees_returned(plain, json.dumps(reference)) == equal, reference
    assert not agrees_returned(through(mock.ANY), "3"), "it calls itself equal"


# --- The verdict ----------------------------------------------------------------------------------

SUM = Problem("sum", None, ("1 2\n3\n", "4 5\n6\n"), ("6\n", "15.0\n"))
ADD = Problem("add", "addUp", ("1\n2", "[1]\n[2]"), ("3", "[1, 2]"))
READ = "import sys\ndata = sys.stdin.read().split()\n"
STDIN = {
    "right": (READ + "print(sum(map(int, data)))", True),
    "under a guard, with names that are imported for it": (
        "def main():\n    print(reduce(operator.add, map(int, stdin.read().split())))\n"
        "if __name__ == '__main__':\n    main()",
        True,
    ),
    "bytes and numpy": (
        "import sys, numpy as np\ndata = sys.stdin.buffer.read().split()\n"
        "print(np.array(data, dtype=int).sum())",
        True,
    ),
    "leaves after its output": (READ + "print(sum(map(int, data)))\nexit()", True),
    "prints too much": (READ + "print(sum(map(int, data)))\nprint(0)", False),
    "fails after its output": (READ + "print(sum(map(int, data)))\n1 / 0", False),
    "no program": ("print(", False),
    "writes results itself": (
        'import os, json\nfor n in range(64):\n    try: os.write(n, b\'["6"]\\n["15"]\\n\')\n'
        "    except OSError: pass\nos._exit(0)",
        False,
    ),
    "looks for what is expected": (
        "import os\n"
        "found = [open(f'/tmp/work/{name}').read() for name in os.listdir('/tmp/work')]\n"
        "print('15.0' if any('15.0' in text for text in found) else '')",
        False,
    ),
    "does not end": ("while True: pass", False),
    "fills the output": ("import sys\nwhile True: print('x' * 10**6)", False),
    "is not text": ("print('\udcff')", False),
}
FUNCTION = {
    "a method": ("class Solution:\n    def addUp(self, a: List[int], b: int): return a + b", True),
    "a function": ("def addUp(a, b): return a + b", True),
    "a tuple": ("def addUp(a, b): return (*a, *b) if isinstance(a, list) else a + b", True),
    "leaves": ("def addUp(a, b):\n    import os\n    os._exit(0)", False),
    "exits": ("def addUp(a, b): raise SystemExit", False),
    "deep": ("def addUp(a, b):\n    for _ in range(10**5): a = [a]\n    return a", False),
}


ENDLESS = ("stdin does not end", "stdin fills the output")


def test_programs_pass_or_do_not(sandbox: Sandbox) -> None:
    """All of them, side by side."""
    jobs = [(f"stdin {name}", code, SUM) for name, (code, _) in STDIN.items()]
    jobs += [(f"function {name}", code, ADD) for name, (code, _) in FUNCTION.items()]
    with ThreadPoolExecutor(8) as pool:
        passed = pool.map(
            lambda job: passes(sandbox, job[1], job[2], 1 if job[0] in ENDLESS else 120), jobs
        )
        verdicts = dict(zip([name for name, _, _ in jobs], passed, strict=True))
    expected = {f"stdin {name}": verdict for name, (_, verdict) in STDIN.items()}
    expected |= {f"function {name}": verdict for name, (_, verdict) in FUNCTION.items()}
    assert verdicts == expected


def test_answers_are_graded_in_their_order(sandbox: Sandbox, problems: Path) -> None:
    right = STDIN["right"][0]
    answers = [
        answer("", "sum"),
        answer(right, "sum"),
        answer(right, "add"),
        answer("def addUp(a, b): return a + b", "add"),
    ]
    assert LiveCodeBench(problems, test_s=120)(answers) == CodeGrades((False, True, False, True))


def test_what_cannot_be_judged_says_why(problems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [answer("x", "sum"), answer("x", "other")]
    empty, unread = problems / "empty", problems / "unread.jsonl"
    empty.mkdir()
    unread.write_text(row("sum", [], "?") + "\n")
    monkeypatch.setattr(Sandbox, "find", lambda: Sandbox("namespaces"))
    for path, of, why in (
        (None, answers, "no LiveCodeBench problems: no file was named"),
        (problems / "no", answers, f"problems: {problems / 'no'}: No such file or directory"),
        (empty, answers, f"no LiveCodeBench problems: none in {empty}"),
        (problems / "test.jsonl", answers, "lacks 1 of those asked (other ...)"),
        (unread, answers[:1], "problem sum"),
    ):
        grades = LiveCodeBench(path)(of)
        assert grades.passed == (None,) * len(of)
        assert why in grades.not_judged
    monkeypatch.setattr(Sandbox, "find", lambda: NoSandbox("forbidden"))
    grades = LiveCodeBench(problems)(answers[:1])
    assert grades == CodeGrades((None,), "no sandbox: forbidden")
