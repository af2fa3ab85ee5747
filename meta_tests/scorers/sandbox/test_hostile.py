"""Hostile programs in the sandbox: nothing happens to the machine, each is done in time."""

from __future__ import annotations

import os
import platform
import socket
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from meta_tests.scorers.sandbox.hostile import HOSTILE, PREAMBLE, Hostile, out_of_memory, timed_out
from meta_tests.suite_runs import ROOT
from mlperf_suite.scorers.sandbox import memory_group
from mlperf_suite.scorers.sandbox.box import Limits, ProgramOutcome, Sandbox

MARK = f"hostile-{uuid.uuid4().hex}"
TOKEN = "hf_abcdefghijklmnop"
NUMBERS = {
    "x86_64": {"clone": 56, "bpf": 321, "perf": 298, "keyctl": 250, "io_setup": 206},
    "aarch64": {"clone": 220, "bpf": 280, "perf": 241, "keyctl": 219, "io_setup": 0},
}


def run(sandbox: Sandbox, hostile: Hostile, names: Mapping[str, object]) -> ProgramOutcome:
    code = hostile.code
    for name, value in names.items():
        code = code.replace(f"{{{name}}}", str(value))
    command = [sandbox.python, "-I", "-S", "-c", PREAMBLE + code, MARK]
    return sandbox.run(command, limits=hostile.limits, keep=hostile.keep)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """What the programs go for: a secret in a file, a port and a socket that are listened on."""
    secret = tmp_path_factory.mktemp("secrets") / "secret"
    secret.write_text(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(f"\0{MARK}")
        local.listen()
        for listening in (server, local):
            listening.setblocking(False)
        yield {
            "mark": MARK,
            "secret": secret,
            "project": ROOT,
            "home": Path.home(),
            "pid": os.getpid(),
            "port": server.getsockname()[1],
            **NUMBERS[platform.machine()],
        }
        for listening in (server, local):
            with pytest.raises(BlockingIOError):
                listening.accept()
    assert secret.read_text() == TOKEN


@pytest.fixture(scope="module")
def outcomes(sandbox: Sandbox, names: Mapping[str, object]) -> Iterator[dict[str, ProgramOutcome]]:
    """Every program's outcome; they ran side by side, with a token in the environment."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(8) as pool:
        patch.setenv("HF_TOKEN", TOKEN)
        # What memory is counted here, the kernel limits there: see the test below.
        patch.setattr(memory_group, "_parent", lambda: None)
        outcomes = list(pool.map(lambda hostile: run(sandbox, hostile, names), HOSTILE.values()))
    yield dict(zip(HOSTILE, outcomes, strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_gets_nowhere(outcomes: Mapping[str, ProgramOutcome], name: str) -> None:
    assert HOSTILE[name].holds(outcomes[name]), outcomes[name]


@pytest.mark.parametrize("name", [n for n, h in HOSTILE.items() if h.holds is out_of_memory])
def test_the_kernel_limits_memory_where_a_control_group_can_be_made(
    sandbox: Sandbox, name: str
) -> None:
    parent = memory_group._parent()
    if not parent:
        pytest.skip("this process may make no control group")
    outcome = run(sandbox, HOSTILE[name], {})
    assert out_of_memory(outcome), outcome
    assert not list(parent.glob(f"mlperf-sandbox-{os.getpid()}-*"))


def test_nothing_is_left_of_them(
    outcomes: Mapping[str, ProgramOutcome], names: Mapping[str, object]
) -> None:
    assert outcomes
    assert not remaining()
    for folder in ("/", "/tmp", "/usr", "/etc", "/dev", "/dev/shm", ROOT, Path.home(), Path.cwd()):
        assert not [entry for entry in Path(folder).iterdir() if MARK in entry.name]
    assert not list(Path("/dev/shm").glob("x"))


def remaining() -> list[psutil.Process]:
    """Processes that one of the programs left, or its supervisor."""
    processes = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if MARK in line or ("inside.py" in line and process.ppid() == os.getpid()):
            processes.append(process)
    return processes


BIG = {
    "fork bomb": Hostile(HOSTILE["fork bomb"].code, timed_out, Limits()),
    "all memory": Hostile(HOSTILE["all memory"].code, out_of_memory, Limits(wall_s=120)),
    "all memory, by many": Hostile(
        "for _ in range(4): os.fork()\nx = []\nwhile True: x.append(bytearray(2**22))",
        out_of_memory,
        Limits(wall_s=120),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BIG)
def test_the_limits_of_the_graders_hold_too(
    sandbox: Sandbox, names: Mapping[str, object], name: str
) -> None:
    before = psutil.virtual_memory().available
    outcome = run(sandbox, BIG[name], names)
    assert BIG[name].holds(outcome), outcome
    assert not remaining()
    assert before - psutil.virtual_memory().available < Limits().memory_bytes
