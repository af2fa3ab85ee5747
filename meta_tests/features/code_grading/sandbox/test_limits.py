"""What a program in the sandbox may use at most, and what its end tells.

That a program sees and reaches nothing outside is checked by `fault` whenever a sandbox is found;
`evidence/sandbox/` has programs that try to get out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import pytest

from meta_tests.features.code_grading.sandbox.left_processes import remaining
from mlperf_suite.features.code_grading.sandbox import memory_group
from mlperf_suite.features.code_grading.sandbox.box import MEBIBYTE, Limits, ProgramOutcome, Sandbox

MARK = f"limits-{uuid.uuid4().hex}"
LIMITS = Limits(
    wall_s=120.0,
    memory_bytes=160 * MEBIBYTE,
    processes=20,
    disk_bytes=4 * MEBIBYTE,
    files=200,
    output_bytes=65536,
)


class Case(NamedTuple):
    """A Python program, and what becomes of it; `wall_s` where it is to come to its end of time."""

    code: str
    holds: Callable[[ProgramOutcome], bool]
    wall_s: float = LIMITS.wall_s


def fails(error: str) -> Callable[[ProgramOutcome], bool]:
    return lambda outcome: outcome.stderr.decode().count(error) == 1 and outcome.exit_code == 1


CASES = {
    "time": Case(
        "import time; time.sleep(10**6)", lambda o: o.timed_out and o.exit_code is None, 0.5
    ),
    "memory": Case(
        "x = []\nwhile True: x.append(bytearray(2**20))",
        lambda o: o.out_of_memory and o.exit_code is None,
    ),
    "processes": Case(
        "import os, time\nfor _ in range(30):\n    if not os.fork(): time.sleep(600)",
        fails("BlockingIOError"),
    ),
    "disk": Case(
        "for n in range(3): open(str(n), 'wb').write(bytes(2 * 2**20))", fails("No space left")
    ),
    "number of files": Case(
        "import os\nfor n in range(300): os.mkdir(str(n))", fails("No space left")
    ),
    "output": Case(
        "import sys\nfor _ in range(64): sys.stdout.write('x' * 65536)",
        lambda o: o.exit_code == 0 and o.truncated and len(o.stdout) == LIMITS.output_bytes,
    ),
    "system calls": Case(
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == 1\nos.memfd_create('x')",
        fails("PermissionError"),
    ),
    "a forged outcome": Case(
        "import os\nfor n in range(3, 64):\n"
        '    try: os.write(n, b\'{"started": true, "exit_code": 0, "signal": null}\\n\')\n'
        "    except OSError: pass\nos._exit(3)",
        lambda o: o.exit_code == 3,
    ),
    "a process that stays": Case(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)",
        lambda o: o.exit_code == 0 and not o.timed_out,
    ),
    "its own end": Case("import os, signal\nos.kill(0, signal.SIGKILL)", lambda o: o.signal == 9),
}


@pytest.fixture(scope="module")
def outcomes(sandbox: Sandbox) -> Mapping[str, ProgramOutcome]:
    """Of all programs, side by side."""

    def run(case: Case) -> ProgramOutcome:
        command = [sandbox.python, "-I", "-S", "-c", case.code, MARK]
        return sandbox.run(command, limits=replace(LIMITS, wall_s=case.wall_s))

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        # The memory is then counted here, which works on every machine; else the kernel limits it.
        patch.setattr(memory_group, "_parent", lambda: None)
        return dict(zip(CASES, pool.map(run, CASES.values()), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_program_is_limited(outcomes: Mapping[str, ProgramOutcome], name: str) -> None:
    assert CASES[name].holds(outcomes[name]), outcomes[name]


def test_nothing_is_left_of_them(outcomes: Mapping[str, ProgramOutcome]) -> None:
    assert outcomes
    assert not remaining(MARK)
