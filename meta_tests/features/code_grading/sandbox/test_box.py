"""What a sandbox does for whoever runs a program in it, and when there is none."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from meta_tests.features.code_grading.sandbox.left_processes import remaining
from meta_tests.suite_runs import ROOT
from mlperf_suite.features.code_grading.sandbox import box, inside, memory_group
from mlperf_suite.features.code_grading.sandbox.box import (
    MEBIBYTE,
    Limits,
    NoSandbox,
    ProgramOutcome,
    Sandbox,
    SandboxError,
    fault,
)
from mlperf_suite.features.code_grading.sandbox.system_calls import filter_program, known_machine


def test_a_program_has_its_input_files_and_outputs_and_begins_anew(sandbox: Sandbox) -> None:
    data = os.urandom(3 * 2**20)
    script = b"#!/bin/sh\ncat data > copy; echo e >&2; ls -A /tmp . ; touch x /tmp/y; cat; exit 7\n"
    for _ in range(2):
        outcome = sandbox.run(
            ["/bin/sh", "run"],
            {"run": script, "data": data},
            stdin=data,
            limits=Limits(output_bytes=4 * 2**20),
            keep=("copy", "missing"),
        )
        assert (outcome.exit_code, outcome.signal, outcome.stderr) == (7, None, b"e\n")
        assert outcome.stdout == b".:\ncopy\ndata\nrun\n\n/tmp:\nwork\n" + data
        assert dict(outcome.files) == {"copy": data}
        assert not (outcome.timed_out or outcome.out_of_memory or outcome.truncated)
    outcome = sandbox.run(["/no/such/program"])
    assert outcome.exit_code == 127
    assert b"/no/such/program" in outcome.stderr


def test_what_is_asked_for_can_be_read_and_neither_written_nor_the_home_seen(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "home" / "secret").mkdir(parents=True)
    (tmp_path / "word").write_text("found")
    (tmp_path / "own-tool").write_text("#!/bin/sh\n")
    (tmp_path / "own-tool").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    script = f"cat word; (echo x > word) || echo no; ls -R {tmp_path}"
    command = ["/bin/sh", "-c", f"cd {tmp_path}; {script}"]
    outcome = sandbox.run(command, readable={tmp_path: str(tmp_path)}, environment={})
    assert outcome.stdout.startswith(b"foundno\n")
    assert b"home" in outcome.stdout and b"secret" not in outcome.stdout
    assert (tmp_path / "word").read_text() == "found"
    placed = sandbox.run(["/bin/cat", "/opt/given/word"], readable={tmp_path: "/opt/given"})
    assert placed.stdout == b"found"
    # Tools are found in the system's folders alone.
    assert sandbox.tool("own-tool") is None
    assert sandbox.tool("sh") in {"/usr/bin/sh", "/bin/sh"}


@pytest.mark.parametrize("by_event", [False, True])
def test_a_watch_or_an_event_ends_a_program(sandbox: Sandbox, by_event: bool) -> None:
    output, stop = bytearray(), threading.Event()

    def watch(data: bytes) -> bool:
        output.extend(data)
        if by_event:
            stop.set()
        return by_event or len(output) < 1000

    script = "echo began; exec sleep 900" if by_event else "while true; do echo x; done"
    outcome = sandbox.run(
        ["/bin/sh", "-c", script], limits=Limits(wall_s=600), watch=watch, stop=stop
    )
    assert output
    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (None, None, False)
    assert not remaining()


def test_a_program_dies_with_the_process_that_asked_for_it(sandbox: Sandbox) -> None:
    asking = "\n".join(
        [
            "import sys; sys.path.insert(0, sys.argv[1])",
            "from mlperf_suite.features.code_grading.sandbox.box import Sandbox, Limits",
            "sandbox = Sandbox('namespaces')",
            "sandbox.run(['/bin/sleep', '987'], limits=Limits(wall_s=900))",
        ]
    )
    process = subprocess.Popen([sys.executable, "-c", asking, str(ROOT)])
    try:
        while not any("987" in child.cmdline() for child in below(process.pid)):
            assert process.poll() is None
            time.sleep(0.02)
        children = below(process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not psutil.wait_procs(children, timeout=120)[1]


def below(pid: int) -> list[psutil.Process]:
    """Processes that another started; those that ended meanwhile left out."""
    alive = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            process.cmdline()
        except psutil.Error:
            continue
        alive.append(process)
    return alive


def test_a_sandbox_that_isolates_nothing_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box, "_TRIAL_S", 600.0)
    # What bubblewrap would be if it ran the program as it stands, in a small /tmp alone.
    pretender = tmp_path / "bwrap"
    script = inside.__file__
    command = f'{Path(sys.executable).resolve()} -I -S -c "$code" within "${{@: -2}}"'
    pretender.write_text(
        f"#!/bin/bash\ncode=$(<{script})\nmount -t tmpfs none /tmp\nexec {command}\n"
    )
    pretender.chmod(0o755)
    unshare = shutil.which("unshare")
    assert unshare
    # Its PID namespace is real, since the supervisor ends what it sees.
    outer = tmp_path / "outer"
    outer.write_text(f'#!/bin/bash\nexec {unshare} -Urpf --mount-proc {pretender} "$@"\n')
    outer.chmod(0o755)
    assert fault(Sandbox("bubblewrap", str(outer))) == "it does not isolate (ids)"


@pytest.fixture
def found_anew() -> Iterator[None]:
    """What was found on this machine counts before and after the test alone."""
    box._find.cache_clear()
    yield
    box._find.cache_clear()


@pytest.mark.usefixtures("found_anew")
def test_where_none_can_be_made_each_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    unusable = [Sandbox("bubblewrap", "/bin/false"), Sandbox("bubblewrap", "/no/such/program")]
    for each in unusable:
        with pytest.raises(SandboxError, match="no sandbox"):
            each.run(["/bin/true"])
    with monkeypatch.context() as patch:
        patch.setattr(platform, "machine", lambda: "riscv64")
        candidate = Sandbox.find()
    assert isinstance(candidate, NoSandbox)
    assert "riscv64" in candidate.reason
    box._find.cache_clear()
    monkeypatch.setattr(box, "_candidates", lambda: unusable)
    candidate = Sandbox.find()
    assert isinstance(candidate, NoSandbox)
    first, second = candidate.reason.split("; ")
    assert first.startswith("bubblewrap: ")
    assert second == "bubblewrap: [Errno 2] No such file or directory"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_a_valid_program(machine: str) -> None:
    steps = filter_program(machine)
    count = len(steps) // 8
    assert known_machine(machine) and not known_machine("riscv64")
    assert len(steps) % 8 == 0
    assert count < 4096
    for index in range(count):
        code, true, false = steps[8 * index], steps[8 * index + 2], steps[8 * index + 3]
        # A jump that ends beyond the program would be refused by the kernel.
        assert code & 7 != 5 or index + 1 + max(true, false) < count
    assert steps[-8] == 0x06


def test_every_kind_of_memory_of_a_process_counts(tmp_path: Path) -> None:
    """Of what is resident, in swap and in page tables, and of what descriptors may hold."""
    status = (
        "Name:\tx 5\nFDSize:\t2\nVmSize:\t9000 kB\nVmRSS:\t100 kB\nVmPTE:\t8 kB\nVmSwap:\t16 kB\n"
    )
    (tmp_path / "task" / "1").mkdir(parents=True)
    (tmp_path / "status").write_text(status)
    held = (100 + 16 + 8 + 2 * 32) << 10
    for once in (False, True):
        assert inside._process_bytes(str(tmp_path), shared_once=once) == held
    (tmp_path / "smaps_rollup").write_text("0-1 [rollup]\nRss: 100 kB\nPss: 50 kB\nSwapPss: 4 kB\n")
    (tmp_path / "fd" / "1").mkdir(parents=True)
    assert inside._process_bytes(str(tmp_path), shared_once=False) == held
    assert inside._process_bytes(str(tmp_path), shared_once=True) == (50 + 4 + 8 + 32) << 10
    # The first thread has ended.
    (tmp_path / "status").write_text("Name:\tx\nFDSize:\t0\n")
    (tmp_path / "task" / "1" / "status").write_text(status)
    assert inside._process_bytes(str(tmp_path), shared_once=False) == held


def test_files_without_content_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """bubblewrap does not limit their number."""
    disk = os.statvfs_result((4096, 4096, 100, 90, 90, 5000, 1000, 1000, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    monkeypatch.setattr(os, "listdir", lambda _: [])
    monkeypatch.setattr(inside, "_read", lambda _: "sockets: used 3\n")
    assert inside._used_bytes(1000, shared_once=False) == 10 * 4096 + 4000 * 5120 + 3000


# What a program in the sandbox may use at most, and what its end tells.
#
# That a program sees and reaches nothing outside is checked by `fault` whenever a sandbox is found;
# `evidence/code_grading/` has programs that try to get out.


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
