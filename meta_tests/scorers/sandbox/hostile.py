"""Programs that a model might write to do harm, and what may become of them at most.

A program of each kind; `evidence/sandbox/` has the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from meta_tests.suite_runs import ROOT
from mlperf_suite.scorers.sandbox import memory_group
from mlperf_suite.scorers.sandbox.box import MEBIBYTE, Limits, ProgramOutcome, Sandbox

LIMITS = Limits(
    wall_s=1.0,
    memory_bytes=160 * MEBIBYTE,
    processes=20,
    disk_bytes=4 * MEBIBYTE,
    files=200,
    open_files=64,
    output_bytes=65536,
)
LONG = dataclasses.replace(LIMITS, wall_s=120.0)
"""For programs that are not to come to the end of their time, however busy the machine is."""
PREAMBLE = """
import ctypes, errno, json, os, resource, signal, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def tried(action, *arguments):
    # The name of the error that an action meets, or what it returns.
    try:
        return str(action(*arguments))
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except Exception as error:
        return type(error).__name__
def called(name, *arguments):
    # The name of the error of a function of the C library.
    ctypes.set_errno(0)
    getattr(libc, name)(*arguments)
    return errno.errorcode.get(ctypes.get_errno(), "done")
def tell(*told):
    print(json.dumps(told))
"""


def reports(outcome: ProgramOutcome) -> list[str]:
    """What a program printed with `tell`."""
    assert outcome.stdout, outcome
    answers: list[str] = json.loads(outcome.stdout)
    return answers


def meets(*errors: str) -> Callable[[ProgramOutcome], bool]:
    """The program met these errors, one for each thing it tried."""
    return lambda outcome: reports(outcome) == list(errors)


def fails_with(*errors: str) -> Callable[[ProgramOutcome], bool]:
    """All that the program tried ended in one of these errors."""
    return lambda outcome: bool(reports(outcome)) and set(reports(outcome)) <= set(errors)


def timed_out(outcome: ProgramOutcome) -> bool:
    return outcome.timed_out and outcome.exit_code is None


def flooded(outcome: ProgramOutcome) -> bool:
    longest = max(len(outcome.stdout), len(outcome.stderr))
    return timed_out(outcome) and outcome.truncated and longest == LIMITS.output_bytes


def out_of_memory(outcome: ProgramOutcome) -> bool:
    return outcome.out_of_memory and outcome.exit_code is None


def ends_well(outcome: ProgramOutcome) -> bool:
    return outcome.exit_code == 0 and not outcome.timed_out


@dataclass(frozen=True)
class Hostile:
    """A Python program, what it may come to, and the limits it runs under.

    The program finds what {names} of `aims` stand for in its text.
    """

    code: str
    holds: Callable[[ProgramOutcome], bool]
    limits: Limits = LONG
    keep: tuple[str, ...] = field(default=())


HOSTILE = {
    "more processes than it may have": Hostile(
        """
children = 0
try:
    for _ in range(1000):
        if not os.fork(): time.sleep(60)
        children += 1
except OSError as error:
    tell(errno.errorcode[error.errno], "few" if children < 20 else str(children))
sys.stdout.flush()
os._exit(0)
""",
        meets("EAGAIN", "few"),
    ),
    "a daemon that stays": Hostile(
        """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
        while True: time.sleep(1)
    os._exit(0)
""",
        ends_well,
    ),
    "sleeps for ever": Hostile("time.sleep(10**6)", timed_out, LIMITS),
    "kills all it can": Hostile(
        "for n in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):\n"
        "    tried(os.kill, -1, n); tried(os.kill, 1, n); tried(os.kill, {pid}, n)\n"
        "os.kill(0, signal.SIGKILL)",
        lambda outcome: outcome.signal == 9,
    ),
    "all memory": Hostile("x = []\nwhile True: x.append(bytearray(2**20))", out_of_memory),
    "memory that belongs to nobody": Hostile(
        "tell(tried(os.memfd_create, 'x'), called('shmget', 0, 2**20, 0o1600),"
        " called('semget', 0, 1, 0o1600), called('msgget', 0, 0o1600))",
        fails_with("EPERM"),
    ),
    "fills the disk": Hostile(
        """
written = 0
try:
    for n in range(100):
        with open(f"/tmp/{n}", "wb", buffering=0) as file:
            for _ in range(16): written += file.write(bytes(65536))
except OSError as error:
    tell(errno.errorcode[error.errno], "little" if written <= 4 * 2**20 else str(written))
""",
        meets("ENOSPC", "little"),
    ),
    "writes outside": Hostile(
        "tell(*(tried(open, path, 'w') for path in ('/{mark}', '/usr/{mark}', '/etc/{mark}',"
        " '/dev/{mark}', '/proc/{mark}', '/proc/sys/kernel/core_pattern', '{secret}',"
        " '{project}/{mark}', sys.executable)))",
        fails_with("EROFS", "ENOENT", "EACCES", "EPERM"),
    ),
    "reads what is not its own": Hostile(
        "tell(*(tried(open, path) for path in ('/etc/shadow', '/etc/passwd', '{secret}',"
        " '{project}/pyproject.toml', '{home}/.bashrc', '{home}/.ssh/id_rsa',"
        " '/proc/{pid}/environ', '/sys/kernel', '/dev/mem', '/dev/vda', '/var/log',"
        " '/root/.bashrc')))",
        fails_with("ENOENT", "EACCES"),
    ),
    "links out of its folder": Hostile(
        "os.symlink('/etc/passwd', 'kept'); os.symlink('/', 'way')\n"
        "tell(tried(open, 'kept'), tried(open, 'way/etc/shadow'), tried(open, 'way/{mark}', 'w'))",
        lambda outcome: reports(outcome) == ["ENOENT", "ENOENT", "EROFS"] and not outcome.files,
        keep=("kept", "way", "nothing"),
    ),
    "further namespaces": Hostile(
        """
tell(called("unshare", 0x10000000), called("unshare", 0x00020000), called("setns", 0, 0),
     called("syscall", {clone}, 0x10000000 | 17, 0, 0, 0, 0))
""",
        fails_with("EPERM"),
    ),
    "reads a token of the environment": Hostile(
        "tell(*sorted(os.environ), *os.environ.values(), open('/proc/self/environ').read())",
        lambda outcome: not any("HF_TOKEN" in word or "hf_" in word for word in reports(outcome)),
    ),
    "opens sockets": Hostile(
        "tell(*(tried(socket.socket, family, kind) for family in (2, 10, 16, 17, 40)"
        " for kind in (1, 2, 3)))",
        fails_with("EPERM"),
    ),
    "endless output": Hostile("while True: sys.stdout.write('x' * 65536)", flooded, LIMITS),
    "forges its outcome": Hostile(
        """
for n in range(3, 1024):
    tried(os.write, n, b'{"started": true, "exit_code": 0, "signal": null}\\n')
print('{"started": true, "exit_code": 0}')
sys.exit(3)
""",
        lambda outcome: outcome.exit_code == 3,
    ),
}
NUMBERS = {
    "x86_64": {"clone": 56, "bpf": 321, "perf": 298, "keyctl": 250, "io_setup": 206},
    "aarch64": {"clone": 220, "bpf": 280, "perf": 241, "keyctl": 219, "io_setup": 0},
}
MARK = f"hostile-{uuid.uuid4().hex}"
TOKEN = "hf_abcdefghijklmnop"


def run(sandbox: Sandbox, hostile: Hostile, names: Mapping[str, object]) -> ProgramOutcome:
    """Run a program in whose text each {name} stands for a value of `names`."""
    code = hostile.code
    for name, value in names.items():
        code = code.replace(f"{{{name}}}", str(value))
    command = [sandbox.python, "-I", "-S", "-c", PREAMBLE + code, MARK]
    return sandbox.run(command, limits=hostile.limits, keep=hostile.keep)


def outcomes_of(
    sandbox: Sandbox, programs: Mapping[str, Hostile], names: Mapping[str, object]
) -> dict[str, ProgramOutcome]:
    """Every program's outcome; they run side by side, with a token in the environment."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(8) as pool:
        patch.setenv("HF_TOKEN", TOKEN)
        # The memory is then counted here, which works on every machine; else the kernel limits it.
        patch.setattr(memory_group, "_parent", lambda: None)
        outcomes = list(pool.map(lambda hostile: run(sandbox, hostile, names), programs.values()))
    return dict(zip(programs, outcomes, strict=True))


@contextlib.contextmanager
def aims(folder: Path) -> Iterator[dict[str, object]]:
    """What the programs go for: a secret in a file, a port and a socket that are listened on."""
    secret = folder / "secret"
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


def remaining() -> list[psutil.Process]:
    """Processes that one of the programs left, or its supervisor."""
    processes = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if MARK in line or ("inside.py" in line and process.ppid() == os.getpid()):
            processes.append(process)
    return processes


def files_left() -> list[Path]:
    """What a program left outside, by its name."""
    folders = ("/", "/tmp", "/usr", "/etc", "/dev", "/dev/shm", ROOT, Path.home(), Path.cwd())
    entries = [entry for folder in folders for entry in Path(folder).iterdir()]
    return [entry for entry in entries if MARK in entry.name]
