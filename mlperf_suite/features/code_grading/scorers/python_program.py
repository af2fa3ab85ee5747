"""Runs in the sandbox: the Python program of an answer, as the official graders run it.

Official graders execute a program within their own process, and the program can notice: which
modules are imported, what it may not call, how standard input behaves, what interrupts it. Verdicts
depend on that, so it is the same here, by the kind of order:

- `live_code_bench`: run_test of LiveCodeBench's lcb_runner/evaluation/testing_util.py, at the
  commit that mlcommons/inference names (b1e7cab). It differs in one point: nothing is compared
  here, since the program has full control of this process. The result of each test is written as
  a line of JSON, and `live_code_bench.py` compares it outside the sandbox.
- `mbxp`: check_correctness of amazon-science/mxeval's execution.py. The tests are part of the
  program, so they can only run here.

To prove that a program ran to completion, a word from standard input is written at the end; a
program that does not search this process for it cannot know it.

Working folder: answer.py and order.json, {"kind", "timeout_s", "function": name or null, "inputs"}.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import io
import json
import numbers
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn
from unittest.mock import mock_open, patch

RECURSION_LIMIT = 50_000
INTEGER_DIGITS = 50_000
_IMPORTS = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json"),
)
_STAR_IMPORTS = (*_IMPORTS, "builtins", "typing")
"""In this order, since later names hide earlier ones."""
_PREAMBLE = "\n".join(
    [
        *(f"from {name} import *" for name in _STAR_IMPORTS),
        *(f"import {name}" for name in _IMPORTS),
        f"sys.setrecursionlimit({RECURSION_LIMIT})",
        "",
    ]
)
_ENTRY = "wrapped_function"
_WITHOUT: dict[ModuleType, tuple[str, ...]] = {
    builtins: ("quit", "help"),
    os: (
        *("kill", "system", "putenv", "remove", "removedirs", "rmdir", "fchdir", "setuid", "fork"),
        *("forkpty", "killpg", "rename", "renames", "truncate", "replace", "unlink", "fchmod"),
        *("fchown", "chmod", "chown", "chroot", "lchflags", "lchmod", "lchown", "getcwd", "chdir"),
    ),
    shutil: ("rmtree", "move", "chown"),
    subprocess: ("Popen",),
}
"""What both graders set to None. It only keeps verdicts equal; the sandbox provides the
protection."""


class TimeoutException(Exception):  # noqa: N818  # its name can be seen by the program
    """A test took too long."""


class _Bytes:
    """LiveCodeBench's substitute for sys.stdin.buffer: each read starts at the beginning."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()

    def read(self, *_: object) -> bytes:
        return self._data

    def readline(self, *_: object) -> bytes:
        return self._data.split(b"\n")[0] + b"\n"


class _Stdin:
    """LiveCodeBench's substitute for sys.stdin; it cannot be iterated over."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._file = io.StringIO(text)
        self.buffer = _Bytes(text)

    def read(self, *_: object) -> str:
        return self._text

    def readline(self, *sizes: int) -> str:
        return self._file.readline(*sizes)

    def readlines(self, *_: object) -> list[str]:
        return self._text.split("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _time_over(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise TimeoutException


def _without_main_guard(code: str) -> str:
    """The program with the body of a final `if __name__ == '__main__'` moved to the top level."""
    try:
        body = ast.parse(code).body
        last = body[-1]
        if isinstance(last, ast.If) and ast.unparse(last.test).strip() == "__name__ == '__main__'":
            return f"{_text(body[:-1])}\n{_text(last.body)}"
    except Exception:  # noqa: S110  # the program is then taken as it stands
        pass
    return code


def _as_function(code: str) -> str:
    """The program as the body of one function, after its top-level imports."""
    try:
        body = ast.parse(code).body
        imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
        statements = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
        no_arguments = ast.arguments(
            posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        function = ast.FunctionDef(
            name=_ENTRY, args=no_arguments, body=statements, decorator_list=[], lineno=-1
        )
        return f"{_PREAMBLE}\n{_text(imports)}\n{ast.unparse(function)}"
    except Exception:  # a program that cannot be read fails when it is compiled
        return code


def _text(nodes: Sequence[ast.stmt]) -> str:
    return ast.unparse(ast.Module(body=list(nodes), type_ignores=[]))


def _compiled(code: str, timeout_s: int) -> Any:
    signal.alarm(timeout_s)
    try:
        module = ModuleType("tmp_sol", "")
        exec(code, module.__dict__)  # noqa: S102  # within the sandbox
        return module.Solution() if "class Solution" in code else module
    finally:
        signal.alarm(0)


def _output(function: Any, text: str, timeout_s: int) -> str:
    """What a program writes to sys.stdout with this text as its standard input."""
    lines = iter(text.split("\n"))
    captured, stdout = io.StringIO(), sys.stdout
    captured.close = lambda _: 1  # type: ignore[method-assign, misc, assignment]
    sys.stdout = captured
    signal.alarm(timeout_s)
    try:
        # The three methods are those of the file that a program may already have imported as
        # `stdin`, so they come first.
        with (
            patch("sys.stdin.read", lambda *_: text),
            patch("sys.stdin.readlines", lambda *_: text.split("\n")),
            patch("sys.stdin.readline", lambda *_: next(lines)),
            patch("sys.stdin", _Stdin(text)),
            patch("builtins.open", mock_open(read_data=text)),
            contextlib.suppress(SystemExit),
        ):
            function()
    finally:
        signal.alarm(0)
        sys.stdout = stdout
    return captured.getvalue()


def _result(function: Any, text: str, timeout_s: int) -> object:
    """What a function returns for arguments given as JSON, one per line."""
    arguments = [json.loads(line) for line in text.split("\n")]
    signal.alarm(timeout_s)
    try:
        value = function(*arguments)
    finally:
        signal.alarm(0)
    return _plain(list(value) if isinstance(value, tuple) else value)


def _plain(value: Any) -> object:  # noqa: PLR0911
    """A value as JSON that keeps apart what == does; {} stands for a value that equals no JSON."""
    if value is None or isinstance(value, bool | str):
        return value
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return _plain(value.item())
    if isinstance(value, int):
        return {"int": hex(value)}
    if isinstance(value, complex) and value.imag == 0:
        return _plain(value.real)
    if isinstance(value, float):
        return {"float": float.hex(value)}
    if isinstance(value, list):
        return [_plain(item) for item in list.__iter__(value)]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in dict.keys(value)):
            return {"dict": [[key, _plain(item)] for key, item in dict.items(value)]}
        return {}
    if isinstance(value, numbers.Rational) or hasattr(value, "as_integer_ratio"):
        try:
            exact = Fraction(value)
        except (ValueError, OverflowError, TypeError):
            return {}
        return {"ratio": [hex(exact.numerator), hex(exact.denominator)]}
    return {}


class _Unreadable(io.StringIO):
    """mxeval's substitute for all three standard files."""

    def read(self, *_: object) -> NoReturn:
        raise OSError

    def readline(self, *_: object) -> NoReturn:
        raise OSError

    def readlines(self, *_: object) -> NoReturn:
        raise OSError

    def readable(self) -> bool:
        return False


def _check(code: str, timeout_s: float, word: bytes, results: int) -> None:
    """Write the word once a program, whose tests are at its end, has finished."""
    builtins.exit = None  # type: ignore[assignment]
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    sys.stdin = sys.stdout = sys.stderr = _Unreadable()
    exec(code, {})  # noqa: S102  # within the sandbox
    os.write(results, word)


def _restrict() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    for module, names in _WITHOUT.items():
        for name in names:
            setattr(module, name, None)
    for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
        sys.modules[name] = None  # type: ignore[assignment]


def _test(order: dict[str, Any], code: str, results: int) -> None:
    """Write the result of each test of a LiveCodeBench problem."""
    timeout_s = order["timeout_s"]
    sys.set_int_max_str_digits(INTEGER_DIGITS)
    if order["function"] is None:
        source, name = _as_function(_without_main_guard(code)), _ENTRY
        run: Any = _output
    else:
        source, name = f"{_PREAMBLE}\n\n{code}", order["function"]
        run = _result
    function = getattr(_compiled(source, timeout_s), name)
    for text in order["inputs"]:
        view = memoryview(json.dumps([run(function, text, timeout_s)]).encode() + b"\n")
        while view:
            view = view[os.write(results, view) :]


def main() -> None:
    order = json.loads(Path("order.json").read_bytes())
    code = Path("answer.py").read_bytes().decode()
    word = os.read(0, 1024)
    # What the program prints to the real standard output belongs to no test.
    results = os.dup(1)
    silent = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(silent, number)
    sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123
    signal.signal(signal.SIGALRM, _time_over)
    # Both graders have done this by then, and it fails once names are removed.
    tempfile.gettempdir()
    if "numpy" in code:
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy")
    _restrict()
    try:
        if order["kind"] == "mbxp":
            _check(code, order["timeout_s"], word, results)
        else:
            _test(order, code, results)
            os.write(results, word)
    finally:
        # Threads that the program left are not waited for.
        os._exit(0)


if __name__ == "__main__":
    main()
