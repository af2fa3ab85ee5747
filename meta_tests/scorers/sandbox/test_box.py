"""What a sandbox does for whoever runs a program in it, and when there is none."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from meta_tests.scorers.sandbox.left_processes import remaining
from meta_tests.suite_runs import ROOT
from mlperf_suite.scorers.sandbox import box, inside
from mlperf_suite.scorers.sandbox.box import (
    Limits,
    NoSandbox,
    Sandbox,
    SandboxError,
    fault,
)
from mlperf_suite.scorers.sandbox.system_calls import filter_program, known_machine


def test_exit_code_outputs_and_input(sandbox: Sandbox) -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('e', file=sys.stderr); sys.exit(7)"
    outcome = sandbox.run([sandbox.python, "-c", code], stdin=b"word")
    assert (outcome.exit_code, outcome.signal) == (7, None)
    assert (outcome.stdout, outcome.stderr) == (b"WORD\n", b"e\n")
    assert not (outcome.timed_out or outcome.out_of_memory or outcome.truncated)


def test_files_are_handed_in_and_out(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 8192
    outcome = sandbox.run(
        ["/bin/sh", "-c", "./run && cat data > copy && pwd"],
        {"run": b"#!/bin/sh\nexit 0\n", "data": data},
        keep=("copy", "missing"),
    )
    assert outcome.stdout == b"/tmp/work\n"
    assert dict(outcome.files) == {"copy": data}


def test_each_program_begins_anew(sandbox: Sandbox) -> None:
    for _ in range(2):
        outcome = sandbox.run(["/bin/sh", "-c", "ls -A /tmp . ; touch x /tmp/y"])
        assert outcome.stdout == b".:\n\n/tmp:\nwork\n"


def test_a_large_input_and_output_pass(sandbox: Sandbox) -> None:
    data = os.urandom(3 * 2**20)
    limits = Limits(output_bytes=4 * 2**20)
    outcome = sandbox.run(["/bin/cat"], stdin=data, limits=limits)
    assert outcome.stdout == data
    assert not outcome.truncated


def test_what_is_asked_for_can_be_read_and_not_written(sandbox: Sandbox, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "word").write_text("found")
    command = ["/bin/sh", "-c", "cat /opt/given/word; echo x > /opt/given/word || echo no"]
    outcome = sandbox.run(command, readable={tmp_path: "/opt/given"})
    assert outcome.stdout == b"foundno\n"
    assert (tmp_path / "word").read_text() == "found"


def test_the_home_and_the_project_are_hidden_below_a_readable_folder(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    home = tmp_path / "home"
    (home / "secret").mkdir(parents=True)
    (tmp_path / "other").touch()
    monkeypatch.setenv("HOME", str(home))
    outcome = sandbox.run(
        ["/bin/ls", "-R", str(tmp_path)], readable={tmp_path: str(tmp_path)}, environment={}
    )
    assert b"other" in outcome.stdout
    assert b"home" in outcome.stdout
    assert b"secret" not in outcome.stdout


def test_a_command_that_does_not_exist_is_the_programs_failure(sandbox: Sandbox) -> None:
    outcome = sandbox.run(["/no/such/program"])
    assert outcome.exit_code == 127
    assert b"/no/such/program" in outcome.stderr


def test_tools_are_found_in_the_systems_folders_alone(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own-tool").write_text("#!/bin/sh\n")
    (tmp_path / "own-tool").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert sandbox.tool("own-tool") is None
    assert sandbox.tool("sh") in {"/usr/bin/sh", "/bin/sh"}


def test_a_watch_ends_a_program(sandbox: Sandbox) -> None:
    output = bytearray()

    def watch(data: bytes) -> bool:
        output.extend(data)
        return len(output) < 1000

    command = [sandbox.python, "-c", "while True: print('x')"]
    outcome = sandbox.run(command, limits=Limits(wall_s=600), watch=watch)
    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (None, None, False)
    assert not remaining()


def test_an_event_ends_a_program(sandbox: Sandbox) -> None:
    stop = threading.Event()

    def watch(data: bytes) -> bool:
        stop.set()
        return True

    command = ["/bin/sh", "-c", "echo began; exec sleep 900"]
    outcome = sandbox.run(command, limits=Limits(wall_s=600), watch=watch, stop=stop)
    assert outcome.stdout == b"began\n"
    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (None, None, False)
    assert not remaining()


def test_a_program_dies_with_the_process_that_asked_for_it(sandbox: Sandbox) -> None:
    asking = "\n".join(
        [
            "import sys; sys.path.insert(0, sys.argv[1])",
            "from mlperf_suite.scorers.sandbox.box import Sandbox, Limits",
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


def test_a_supervisor_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    unusable = Sandbox("bubblewrap", "/bin/false")
    with pytest.raises(SandboxError, match="no sandbox"):
        unusable.run(["/bin/true"])
    with pytest.raises(SandboxError, match="no sandbox"):
        Sandbox("bubblewrap", str(tmp_path / "missing")).run(["/bin/true"])


def test_a_sandbox_that_isolates_nothing_is_found_out(tmp_path: Path) -> None:
    # What bubblewrap would be if it ran the program as it stands.
    pretender = tmp_path / "bwrap"
    script = ROOT / "mlperf_suite" / "scorers" / "sandbox" / "inside.py"
    last = '"${@: -1}"'
    pretender.write_text(
        f"#!/bin/bash\nexec {Path(sys.executable).resolve()} -I -S {script} within {last}\n"
    )
    pretender.chmod(0o755)
    unshare = shutil.which("unshare")
    assert unshare
    # Its PID namespace is real, since the supervisor ends what it sees.
    outer = tmp_path / "outer"
    outer.write_text(f'#!/bin/bash\nexec {unshare} -Urpf --mount-proc {pretender} "$@"\n')
    outer.chmod(0o755)
    assert fault(Sandbox("bubblewrap", str(outer)))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_a_valid_program(machine: str) -> None:
    steps = filter_program(machine)
    count = len(steps) // 8
    assert known_machine(machine)
    assert len(steps) % 8 == 0
    assert count < 4096
    for index in range(count):
        code, true, false = steps[8 * index], steps[8 * index + 2], steps[8 * index + 3]
        if code & 7 == 5:
            # A jump that ends beyond the program would be refused by the kernel.
            assert index + 1 + max(true, false) < count
    assert steps[-8] == 0x06


@pytest.fixture
def found_anew() -> Iterator[None]:
    """What was found on this machine counts before and after the test alone."""
    box._find.cache_clear()
    yield
    box._find.cache_clear()


@pytest.mark.usefixtures("found_anew")
def test_where_none_can_be_made_each_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    unusable = [Sandbox("bubblewrap", "/bin/false"), Sandbox("bubblewrap", "/no/such/program")]
    monkeypatch.setattr(box, "_candidates", lambda: unusable)
    candidate = Sandbox.find()
    assert isinstance(candidate, NoSandbox)
    first, second = candidate.reason.split("; ")
    assert first.startswith("bubblewrap: ")
    assert second == "bubblewrap: [Errno 2] No such file or directory"


@pytest.mark.usefixtures("found_anew")
def test_no_filter_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(platform, "machine", lambda: "riscv64")
        assert not known_machine("riscv64")
        candidate = Sandbox.find()
    assert isinstance(candidate, NoSandbox)
    assert "riscv64" in candidate.reason


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
