"""Runs pytest in forks of a process that has imported the libraries, but nothing of the package.

Reads lines of JSON from standard input: the repository's copy, pytest's arguments, the file for
what it prints, the most seconds. Answers each with pytest's exit status, or -1 if the time was
over.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from importlib import import_module

_LIBRARIES = (
    *("pytest", "hypothesis", "numpy", "psutil", "yaml", "msgspec", "rich.table", "rich.progress"),
    *("scipy.stats", "matplotlib.figure", "matplotlib.backends.backend_svg", "jinja2.ext"),
    *("pyarrow.parquet", "tokenizers", "nltk", "rouge_score.rouge_scorer"),
)


def _run(copy: str, arguments: list[str], output: str) -> int:
    """In the fork: pytest in a copy of the repository."""
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(copy)
    # Python's caches by time and size alone would keep the file before the mistake.
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": copy, "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path.insert(0, copy)
    import pytest

    return int(pytest.main(arguments))


def _wait(child: int, most_s: float) -> int:
    """The exit status of a fork, -1 if it had to be killed; what it started is killed too."""
    deadline = time.monotonic() + most_s
    status = 0
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    is_over = time.monotonic() >= deadline
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if is_over:
        os.waitpid(child, 0)
        return -1
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    for name in _LIBRARIES:
        import_module(name)
    for line in sys.stdin:
        copy, arguments, output, most_s = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 3
            try:
                status = _run(copy, arguments, output)
            finally:
                sys.stdout.flush()
                os._exit(status)
        print(_wait(child, most_s), flush=True)


if __name__ == "__main__":
    main()
