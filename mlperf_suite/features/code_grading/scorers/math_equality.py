r"""Whether two MATH answers are equal, by the rules of PRM800K's grader.

Source of the rules: grading/ of github.com/openai/prm800k, which DeepSeek-R1's evaluation calls.
Two answers are equal if

- both are the same in the notation of the authors of MATH (`as_in_math`), or
- both are the same without units, LaTeX and commas (`plain`), or
- they have the same number of elements, in the same brackets if there are several, and sympy
  simplifies the difference of each pair of elements to 0. If both are fractions of integers or
  only one is an integer, they must be identical instead: an answer must be in lowest terms.

Answers come from a model, so nothing in them is evaluated as Python: sympy's parser only turns an
answer into the text of an expression, from which `_Evaluator` accepts numbers, symbols, sympy's
functions and arithmetic and rejects everything else. LaTeX and sympy run in separate processes,
each comparison within TIME_LIMIT_S; the original has no limit, and an answer can keep sympy busy
forever. A comparison that takes longer, or more than MEMORY_LIMIT bytes, counts as not equal.
"""

from __future__ import annotations

import ast
import functools
import logging
import math
import multiprocessing
import operator
import re
import resource
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import psutil

from mlperf_suite.errors import SuiteError
from mlperf_suite.features.code_grading.sandbox.inside import raise_oom_score
from mlperf_suite.features.code_grading.scorers.code_grading import worker_count

TIME_LIMIT_S = 20.0
MEMORY_LIMIT = 4 * 2**30
MAX_ANSWER_LENGTH = 4_000
"""A longer answer, in characters, is compared by `as_in_math` only; MATH's own answers have at most
a few hundred."""
_START_LIMIT_S = 600.0
_PAIRS_PER_PROCESS = 24
_MAX_BITS = 100_000
_MAX_FACTORIAL = 8_000
"""Limits on powers and factorials: integers of that many bits, about the same for both."""

_WHOLE_TEXT = re.compile(r"\\text\{(.+?)\}$")
_INTEGER_RATIO = re.compile(r"(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)")
_MATH_REWRITES = (
    ("\n", ""),
    ("\\!", ""),
    ("\\\\", "\\"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    ("\\left", ""),
    ("\\right", ""),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("\\$", ""),
)
_PLAIN_REWRITES = (
    ("\\%", "%"),
    ("\\$", "$"),
    ("$", ""),
    ("%", ""),
    (" or ", " , "),
    (" and ", " , "),
    ("million", "*10^6"),
    ("billion", "*10^9"),
    ("trillion", "*10^12"),
)
_UNITS = tuple(
    re.compile(unit + r"(es)?(s)? *(\^[0-9]+)?")
    for unit in (
        *("degree", "cm", "centimeter", "meter", "mile", "second", "minute", "hour", "day"),
        *("week", "month", "year", "foot", "feet", "inch", "yard"),
    )
)
"""In this order: "centimeter" must go before "meter", which would leave "centi" behind."""
_FROM_LATEX = (
    ("\N{SQUARE ROOT}", "sqrt"),
    ("\N{GREEK SMALL LETTER PI}", "pi"),
    ("\N{INFINITY}", "inf"),
    ("\N{UNION}", "U"),
    ("\N{MIDDLE DOT}", "*"),
    ("\N{MULTIPLICATION SIGN}", "*"),
)
_THOUSANDS = re.compile(r"(\d),(\d\d\d)($|\D)")
_FRACTION = re.compile(r"-?[0-9]+.?/0*[1-9][0-9]*.?$")
_BRACKETS = "()[]"
_HARD_POWER = re.compile(r"\^\(|\^\{|\^[0-9]+\^|\^[0-9][0-9]")
_MAX_VARIABLES = 2


def grade_math(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether each answer equals its reference, the second item of its pair.

    An empty text equals nothing. Raises SuiteError if no process can be started.
    """
    equal = [_same_in_math(answer, reference) for answer, reference in pairs]
    places = [
        place
        for place, (answer, reference) in enumerate(pairs)
        if not equal[place] and answer.strip() and reference and len(answer) <= MAX_ANSWER_LENGTH
    ]
    if not places:
        return equal
    processes = min(worker_count(MEMORY_LIMIT), math.ceil(len(places) / _PAIRS_PER_PROCESS))

    def compare(share: Sequence[int]) -> list[tuple[int, bool]]:
        with _Comparer() as comparer:
            return [(place, comparer.equal(*pairs[place])) for place in share]

    with ThreadPoolExecutor(processes) as pool:
        for verdicts in pool.map(compare, [places[i::processes] for i in range(processes)]):
            for place, verdict in verdicts:
                equal[place] = verdict
    return equal


def _same_in_math(answer: str, reference: str) -> bool:
    if not answer.strip() or not reference:
        return False
    return as_in_math(answer.strip()) == as_in_math(reference)


def is_equal(answer: str, reference: str) -> bool:
    """Whether an answer equals its reference. Has no time limit: only for short, trusted texts.

    An empty text equals nothing.
    """
    if _same_in_math(answer, reference):
        return True
    return bool(answer.strip() and reference) and _equal_when_plain(answer.strip(), reference)


def as_in_math(answer: str) -> str:
    """An answer in the notation of the authors of MATH, for literal comparison."""
    answer = answer.strip()
    if text := _WHOLE_TEXT.match(answer):
        answer = text[1].strip()
    try:
        return _rewritten(answer)
    except ValueError:
        return answer


def _rewritten(text: str) -> str:
    """Raises ValueError for a text that these rules cannot rewrite."""
    for old, new in _MATH_REWRITES:
        text = text.replace(old, new)
    text, *more = text.split("\\text{ ")
    if len(more) > 1:
        raise ValueError("more than one unit")
    text = text.replace("\\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if text.startswith("."):
        text = "0" + text
    name, *values = text.split("=")
    if len(values) == 1 and len(name) <= 2:
        text = values[0]
    text = _braced_fractions(_braced_roots(text).replace(" ", ""))
    if text == "0.5":
        return "\\frac{1}{2}"
    if ratio := _INTEGER_RATIO.fullmatch(text):
        return f"\\frac{{{ratio[1]}}}{{{ratio[2]}}}"
    return text


def _braced_roots(text: str) -> str:
    first, *parts = text.split("\\sqrt")
    if "" in parts:
        raise ValueError("a root of nothing")
    braced = (part if part[0] == "{" else f"{{{part[0]}}}{part[1:]}" for part in parts)
    return "\\sqrt".join((first, *braced))


def _braced_fractions(text: str) -> str:
    first, *parts = text.split("\\frac")
    braced = [first]
    for part in parts:
        if not part:
            raise ValueError("a fraction of nothing")
        if part[0] == "{":
            braced.append(part)
        elif len(part) == 1:
            return text
        elif part[1] == "{":
            braced.append(f"{{{part[0]}}}{part[1:]}")
        else:
            braced.append(f"{{{part[0]}}}{{{part[1]}}}{part[2:]}")
    return "\\frac".join(braced)


def plain(answer: str) -> str:
    """An answer without units, LaTeX, spaces, braces and capitals; integers in plain form."""
    if text := _WHOLE_TEXT.match(answer):
        answer = text[1]
    for old, new in _PLAIN_REWRITES:
        answer = answer.replace(old, new)
    for unit in _UNITS:
        answer = unit.sub("", answer)
    answer = re.sub(r"\^ *\\circ", "", answer)
    if answer.startswith("{") and answer.endswith("}"):
        answer = answer[1:-1]
    answer = re.sub(r",\\! *", "", answer)
    number = _near_integer(answer)
    if number is not None:
        answer = str(round(number))
    if "\\" in answer:
        answer = _without_latex(answer)
    answer = re.sub("- *", "-", answer)
    answer = re.sub("([0-9]) +([0-9])", r"\1+\2", answer)  # 7 3/4 is 7 + 3/4
    answer = re.sub("[ {}]", "", answer).lower()
    if _near_integer(_without_thousands(answer)) is not None:
        # Truncated, not rounded as above: the original does the same.
        return str(int(float(answer.replace(",", ""))))
    return answer


def _without_latex(text: str) -> str:
    from pylatexenc.latex2text import LatexNodes2Text

    latex = text.replace("\\tfrac", "\\frac").replace("\\dfrac", "\\frac")
    try:
        # The space keeps the two parts of a mixed number apart.
        read = LatexNodes2Text().latex_to_text(latex.replace("\\frac", " \\frac"))
    except Exception:  # Any text may come, and the parser has no common error class.
        return text
    for old, new in _FROM_LATEX:
        read = read.replace(old, new)
    return str(read).strip()


def _near_integer(text: str) -> float | None:
    """The number in a text if it is within rounding of an integer, else None."""
    try:
        number = float(text)
        return number if abs(number - round(number)) <= 1e-7 else None
    except (ValueError, OverflowError):
        return None


def _without_thousands(text: str) -> str:
    """The text without commas between thousands; commas between elements stay."""
    while True:
        without = _THOUSANDS.sub(r"\1\2\3", text)
        if without == text:
            return text
        text = without


def _elements(text: str) -> list[str]:
    """The elements of a tuple or interval, or else the text alone."""
    text = _without_thousands(text)
    inner = text[1:-1]
    bracketed = inner and text[0] in _BRACKETS and text[-1] in _BRACKETS
    if bracketed and not any(bracket in inner for bracket in _BRACKETS):
        return [element.strip() for element in inner.split(",")]
    return [text]


def _equal_when_plain(answer: str, reference: str) -> bool:
    answer, reference = plain(answer), plain(reference)
    if answer == reference:
        return True
    if not answer or not reference:
        return False
    elements, reference_elements = _elements(answer), _elements(reference)
    if len(elements) != len(reference_elements):
        return False
    if len(elements) > 1 and (answer[0] != reference[0] or answer[-1] != reference[-1]):
        return False
    return all(map(_equal_elements, elements, reference_elements))


def _equal_elements(element: str, reference: str) -> bool:
    if _FRACTION.match(element) and _FRACTION.match(reference):
        return element == reference
    if _is_integer(element) != _is_integer(reference):
        return False
    return _vanishes(f"({reference})-({element})")


def _is_integer(element: str) -> bool:
    return _near_integer(_without_thousands(element)) is not None


def _vanishes(difference: str) -> bool:
    """Whether sympy simplifies a difference to 0; False if it is too complex to try."""
    unknown = difference.replace("sqrt", "").replace("frac", "")
    letters = {character for character in unknown if character.isalpha()}
    if len(letters) > _MAX_VARIABLES or _HARD_POWER.search(difference):
        return False
    import sympy

    try:
        return bool(sympy.simplify(_read(difference)) == 0)
    except Exception:  # sympy has no common error class for texts without meaning.
        return False


def _read(text: str) -> Any:
    """The expression that sympy's parser finds in a text; raises various errors if there is
    none."""
    from sympy.parsing import sympy_parser

    transformations = (
        *sympy_parser.standard_transformations,
        sympy_parser.implicit_multiplication_application,
    )
    names = dict(_names())
    code = sympy_parser.stringify_expr(text.replace("^", "**"), {}, names, transformations)
    return _Evaluator(names).value(ast.parse(code.strip(), mode="eval").body)


@functools.cache
def _names() -> Mapping[str, object]:
    """The names that sympy's parser knows."""
    import sympy

    return {name: getattr(sympy, name) for name in sympy.__all__}


class _Evaluator:
    """Evaluates the code that sympy's parser writes: no names but sympy's, no attributes, no power
    or factorial of more than about 100,000 bits."""

    _MAKERS = ("Integer", "Float", "Rational", "Number", "Symbol", "Function")
    _FUNCTIONS = ("sqrt", "factorial", "factorial2")
    _FACTORIALS = ("factorial", "factorial2", "ff", "rf")

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names

    def value(self, node: ast.expr) -> Any:
        """The value of a node. Raises ValueError if the node cannot be part of an expression."""
        match node:
            case ast.Constant(value=int() | float() | str() as literal):
                return literal
            case ast.Name(id=name):
                return self._constant(name)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return _UNARY[type(op)](self._expression(operand))
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return _power(self._expression(base), self._expression(exponent))
            case ast.BinOp(left=first, op=op, right=second) if type(op) in _BINARY:
                return _BINARY[type(op)](self._expression(first), self._expression(second))
            case ast.Call(func=function, args=args, keywords=[]):
                return self._call(function, args)
        raise ValueError(f"{type(node).__name__} is not part of an expression")

    def _expression(self, node: ast.expr) -> Any:
        import sympy

        value = self.value(node)
        if not isinstance(value, sympy.Basic):
            raise ValueError("not an expression")
        return value

    def _constant(self, name: str) -> Any:
        import sympy

        value = self._names[name]
        if not isinstance(value, sympy.Basic):
            raise ValueError(f"{name} is not a number")
        return value

    def _call(self, function: ast.expr, args: Sequence[ast.expr]) -> Any:
        import sympy

        name = function.id if isinstance(function, ast.Name) else ""
        factory: Any = self._names[name] if name else self.value(function)
        if name in self._MAKERS:
            return factory(*map(self.value, args))
        if name not in self._FUNCTIONS and not isinstance(factory, sympy.FunctionClass):
            raise ValueError("no function")
        values = [self._expression(arg) for arg in args]
        if name in self._FACTORIALS and any(
            value.is_number and abs(value) > _MAX_FACTORIAL for value in values
        ):
            raise ValueError("too large a factorial")
        return factory(*values)


_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _power(base: Any, exponent: Any) -> Any:
    if base.is_Rational and exponent.is_Rational:
        bits = max(int(base.p).bit_length(), int(base.q).bit_length())
        if bits * abs(exponent) > _MAX_BITS:
            raise ValueError("too large a power")
    return base**exponent


class _Comparer:
    """A process that compares; it is replaced after each comparison that took too long or died."""

    def __init__(self) -> None:
        self._process: Any = None
        self._connection: Connection | None = None

    def __enter__(self) -> _Comparer:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def equal(self, answer: str, reference: str) -> bool:
        """Whether the answer equals its reference; False if that is not found in time."""
        connection = self._connection or self._start()
        try:
            connection.send((answer, reference))
            if connection.poll(TIME_LIMIT_S):
                return bool(connection.recv())
        except (EOFError, OSError):
            pass
        self._stop()
        return False

    def _start(self) -> Connection:
        # Not fork: the engine's threads live in this process.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()
        self._connection = here
        try:
            ready = here.poll(_START_LIMIT_S) and here.recv()
        except (EOFError, OSError):
            ready = False
        if not ready:
            self._stop()
            raise SuiteError("the process that compares mathematical answers did not start")
        return here

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(connection: Connection) -> None:
    """Compare pairs until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles Ctrl-C.
    raise_oom_score()
    # On top of what the parent's main module, which spawn imports again, has already mapped.
    limit = psutil.Process().memory_info().vms + MEMORY_LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # Nobody needs a parser's warnings about an answer.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    _names()
    connection.send(True)
    while True:
        try:
            answer, reference = connection.recv()
        except EOFError:
            return
        connection.send(is_equal(answer, reference))
