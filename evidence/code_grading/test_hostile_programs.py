"""Hostile programs in the sandbox: nothing happens to the machine, each is done in time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from evidence.code_grading.hostile_programs import (
    HOSTILE,
    MARK,
    Hostile,
    aims,
    files_left,
    out_of_memory,
    outcomes_of,
    run,
    timed_out,
)
from meta_tests.features.code_grading.sandbox.left_processes import remaining
from mlperf_suite.features.code_grading.sandbox import memory_group
from mlperf_suite.features.code_grading.sandbox.box import MEBIBYTE, Limits, ProgramOutcome, Sandbox

NO_CONTROL_GROUP = (
    "this process may make no control group: run it as root outside a container, or in "
    "systemd-run --user --scope"
)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, object]]:
    with aims(tmp_path_factory.mktemp("secrets")) as names:
        yield names


@pytest.fixture(scope="module")
def outcomes(sandbox: Sandbox, names: Mapping[str, object]) -> Mapping[str, ProgramOutcome]:
    return outcomes_of(sandbox, HOSTILE, names)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_gets_nowhere(outcomes: Mapping[str, ProgramOutcome], name: str) -> None:
    assert HOSTILE[name].holds(outcomes[name]), outcomes[name]


def test_nothing_is_left_of_them(outcomes: Mapping[str, ProgramOutcome]) -> None:
    assert outcomes
    assert not remaining(MARK)
    assert not files_left()
    assert not list(Path("/dev/shm").glob("x"))


@pytest.mark.parametrize("name", [n for n, h in HOSTILE.items() if h.holds is out_of_memory])
def test_the_kernel_limits_memory_where_a_control_group_can_be_made(
    sandbox: Sandbox, name: str
) -> None:
    parent = memory_group._parent()
    if not parent:
        pytest.skip(NO_CONTROL_GROUP)
    outcome = run(sandbox, HOSTILE[name], {})
    assert out_of_memory(outcome), outcome
    assert not list(parent.glob(f"mlperf-sandbox-{os.getpid()}-*"))


def test_a_program_is_in_its_group_and_its_supervisor_is_not(sandbox: Sandbox) -> None:
    if not memory_group._parent():
        pytest.skip(NO_CONTROL_GROUP)
    read = "print(*(open(f'/proc/{i}/cgroup').read() for i in ('self', 1)), sep='|')"
    outcome = sandbox.run([sandbox.python, "-c", read], limits=Limits(memory_bytes=64 * MEBIBYTE))
    program, _, supervisor = outcome.stdout.decode().partition("|")
    assert "mlperf-sandbox-" in program and "mlperf-sandbox-" not in supervisor


BIG = {
    "fork bomb": Hostile(HOSTILE["fork bomb"].code, timed_out, Limits()),
    "all memory": Hostile(HOSTILE["all memory"].code, out_of_memory, Limits(wall_s=120)),
    "all memory, by many": Hostile(
        "for _ in range(4): os.fork()\nx = []\nwhile True: x.append(bytearray(2**22))",
        out_of_memory,
        Limits(wall_s=120),
    ),
}


@pytest.mark.parametrize("name", BIG)
def test_the_limits_of_the_graders_hold_too(
    sandbox: Sandbox, names: Mapping[str, object], name: str
) -> None:
    before = psutil.virtual_memory().available
    outcome = run(sandbox, BIG[name], names)
    assert BIG[name].holds(outcome), outcome
    assert not remaining(MARK)
    assert before - psutil.virtual_memory().available < Limits().memory_bytes
