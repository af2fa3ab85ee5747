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
from pathlib import Path

import psutil
import pytest

from meta_tests.scorers.sandbox.test_hostile import remaining
from meta_tests.suite_runs import ROOT
from mlperf_suite.scorers.sandbox import inside
from mlperf_suite.scorers.sandbox.box import (
    Limits,
    NoSandbox,
    Sandbox,
    SandboxError,
    fault,
)
from mlperf_suite.scorers.sandbox.system_calls import filter_program, known_machine

SYSTEM_PYTHON = "/usr/bin/python3"


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
    outcome = sandbox.run(command, limits=Limits(wall_s=60), watch=watch)
    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (None, None, False)
    assert not remaining()


def test_an_event_ends_a_program(sandbox: Sandbox) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    outcome = sandbox.run(["/bin/sleep", "60"], limits=Limits(wall_s=60), stop=stop)
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
    assert not psutil.wait_procs(children, timeout=20)[1]


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


def run_elsewhere(
    before: list[str], python: str, tmp_path: Path, path: str = "/usr/bin:/bin"
) -> str:
    """What `Sandbox.find` says in another process that is started this way."""
    package = tmp_path / "package"
    shutil.copytree(ROOT / "mlperf_suite", package / "mlperf_suite")
    for folder in (package, *package.parents):
        if folder.is_relative_to(tmp_path):
            folder.chmod(0o755)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from mlperf_suite.scorers.sandbox.box import Sandbox; print(Sandbox.find())"
    )
    return subprocess.run(
        [*before, python, "-c", code, str(package)],
        env={"PATH": path, "HOME": "/nonexistent"},
        check=False,
        capture_output=True,
        text=True,
    ).stdout


def test_where_namespaces_are_forbidden_there_is_none(sandbox: Sandbox, tmp_path: Path) -> None:
    # In a user namespace that allows no further one, as many containers are.
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    before = ["unshare", "-Urm", "sh", "-c", forbid, "sh"]
    message = run_elsewhere(before, str(Path(sys.executable).resolve()), tmp_path)
    assert message.startswith("NoSandbox(reason='namespaces: [Errno 28] making namespaces")


def world_readable(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_one(
    sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    version = "import sys; sys.exit(sys.version_info < (3, 11))"
    if subprocess.run([SYSTEM_PYTHON, "-c", version], check=False).returncode:
        pytest.skip("the system's Python is too old")
    with_folder = Path("/var/tmp") / f"sandbox-{os.getpid()}"
    with_folder.mkdir()
    try:
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        message = run_elsewhere(become, SYSTEM_PYTHON, with_folder)
        assert message.startswith("Sandbox(kind=")
    finally:
        shutil.rmtree(with_folder)


def test_bubblewrap_makes_the_same_sandbox(sandbox: Sandbox) -> None:
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None or os.geteuid() == 0:
        pytest.skip("no bubblewrap, or root, for whom it is not used")
    assert fault(Sandbox("bubblewrap", bubblewrap)) == ""


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


def test_no_filter_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not known_machine("riscv64")
    Sandbox.find.__func__.__globals__["_find"].cache_clear()  # type: ignore[attr-defined]
    try:
        candidate = Sandbox.find()
        assert isinstance(candidate, NoSandbox)
        assert "riscv64" in candidate.reason
    finally:
        monkeypatch.undo()
        Sandbox.find.__func__.__globals__["_find"].cache_clear()  # type: ignore[attr-defined]


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
