"""What pytest prints for the suite: its tests where it only collects, its plan, its errors."""

import os
from functools import cache

from meta_tests.suite_runs import PYTEST
from meta_tests.warm_pytest import run_warm


@cache
def pytest_output(*arguments: str, code: int = 0, python_path: str = "") -> str:
    """What `pytest` prints when it is started in the suite's folder, which must exit with `code`.

    `python_path`: a folder of plugins. For sessions that run no test.
    """
    paths = os.pathsep.join(filter(None, [python_path, os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": paths}
    status, output = run_warm([*PYTEST[3:], *arguments], environment, patience_s=1800)
    assert status == code, output
    return output


def collected_tests(*options: str) -> list[str]:
    """The ids of the suite's tests that a session with these options would run."""
    output = pytest_output("--collect-only", "-q", *options)
    return [line for line in output.splitlines() if "::" in line]


def collect(*arguments: str, code: int = 0) -> str:
    return pytest_output("--collect-only", "-q", *arguments, code=code)


def reasons(output: str) -> str:
    """The lines that say what is not selected, as one."""
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("not selected: "))
    sentence = [lines[start]]
    for line in lines[start + 1 :]:
        if not line.startswith("  ") or line.lstrip()[:1] == "<":
            break
        sentence.append(line)
    assert max(map(len, sentence)) <= 80
    return " ".join(line.strip() for line in sentence)


def usage_error(*arguments: str) -> str:
    """The one line that refuses a session."""
    lines = collect(*arguments, code=4).splitlines()
    (line,) = [line for line in lines if line.startswith("ERROR: ")]
    return line
