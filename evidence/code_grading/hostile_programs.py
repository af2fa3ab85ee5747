"""Programs that a model might write to do harm, and what may become of them at most."""

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

import pytest

from meta_tests.suite_runs import ROOT
from mlperf_suite.features.code_grading.sandbox import memory_group
from mlperf_suite.features.code_grading.sandbox.box import MEBIBYTE, Limits, ProgramOutcome, Sandbox

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
    # Processes.
    "fork bomb": Hostile(
        "while True:\n    try: os.fork()\n    except OSError: pass",
        timed_out,
        LIMITS,
    ),
    "more threads than it may have": Hostile(
        """
try:
    for _ in range(1000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError: tell("RuntimeError")
sys.stdout.flush(); os._exit(0)
""",
        meets("RuntimeError"),
    ),
    "zombies": Hostile(
        """
for _ in range(200):
    try:
        if os.fork() == 0: os._exit(0)
    except OSError: pass
""",
        ends_well,
    ),
    "ignores SIGTERM": Hostile(
        "for n in range(1, 65):\n    tried(signal.signal, n, signal.SIG_IGN)\n"
        "while True: time.sleep(60)",
        timed_out,
        LIMITS,
    ),
    "spins in every thread": Hostile(
        "def f():\n    while True: pass\n"
        "for _ in range(8): threading.Thread(target=f, daemon=True).start()\nf()",
        timed_out,
        LIMITS,
    ),
    "stops itself": Hostile("os.kill(os.getpid(), signal.SIGSTOP)", timed_out, LIMITS),
    "stops itself and its supervisor": Hostile(
        "os.kill(1, signal.SIGSTOP); os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGINT)\n"
        "os.kill(1, signal.SIGTERM); os.kill(os.getpid(), signal.SIGSTOP)",
        timed_out,
        LIMITS,
    ),
    "takes more rights by priority": Hostile(
        "tell(tried(os.nice, -10),"
        " tried(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)))",
        fails_with("EPERM", "EACCES"),
    ),
    "lets the kernel choose another": Hostile(
        "tell(tried(open, '/proc/self/oom_score_adj', 'w'),"
        " tried(open, '/proc/thread-self/oom_adj', 'w'))",
        meets("EROFS", "EROFS"),
    ),
    # Memory.
    "all memory, by many": Hostile(
        "for _ in range(3): os.fork()\nx = bytearray(b'x') * (40 * 2**20)\ntime.sleep(60)",
        out_of_memory,
    ),
    "shares memory and stays below": Hostile(
        "x = bytearray(b'x') * (60 * 2**20)\n"
        "for _ in range(2): os.fork()\ntime.sleep(0.3)\nos._exit(0)",
        ends_well,
    ),
    "all address space": Hostile(
        "tell(tried(bytearray, 2**32))",
        meets("MemoryError"),
        Limits(wall_s=1, address_space_bytes=256 * MEBIBYTE),
    ),
    # Pages of these stay when no process maps them any more, and no process shows them.
    "shared memory without a name": Hostile(
        "import mmap\nshared = lambda *flags: mmap.mmap(-1, 2**21, *flags)\n"
        "tell(tried(shared), tried(shared, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 2),"
        " tried(shared, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))",
        fails_with("EPERM"),
    ),
    "shared memory of a device": Hostile("tell(tried(open, '/dev/zero'))", meets("ENOENT")),
    "pages kept in a pipe": Hostile(
        "import fcntl\nends = os.pipe()\n"
        "tell(called('vmsplice', ends[1], 0, 0, 0), tried(fcntl.fcntl, ends[1], 1031, 2**20))",
        fails_with("EPERM"),
    ),
    "what the kernel keeps for a program": Hostile(
        "context = ctypes.c_ulong(0)\n"
        "tell(called('syscall', {io_setup}, 1, ctypes.byref(context)), called('inotify_init1', 0),"
        " called('syscall', 444, 0, 0, 1), called('socketpair', 30, 1, 0, 0),"
        " tried(socket.socket(socket.AF_UNIX).setsockopt, 1, socket.SO_SNDBUF, 2**22),"
        " tried(resource.setrlimit, resource.RLIMIT_SIGPENDING, (2000, 2000)))",
        fails_with("EPERM", "ValueError"),
    ),
    "page tables": Hostile(
        "libc.mmap.restype = ctypes.c_size_t\nstep = 2**21\nwhile True:\n"
        "    begin = libc.mmap(0, ctypes.c_size_t(2**40), 3, 0x4022, -1, 0)\n"
        "    for at in range(begin, begin + 2**40, step): ctypes.string_at(at, 1)",
        out_of_memory,
    ),
    "sockets' buffers": Hostile(
        """
for _ in range(15):
    if not os.fork(): break
pairs = [socket.socketpair() for _ in range(29)]
for end in (end for pair in pairs for end in pair):
    end.setblocking(False)
    try:
        while True: end.send(bytes(2**16))
    except BlockingIOError: pass
time.sleep(60)
""",
        out_of_memory,
    ),
    "memory of a process whose first thread has ended": Hostile(
        """
def hold():
    time.sleep(0.2)
    held = []
    while True: held.append(bytearray(2**20))
threading.Thread(target=hold).start()
libc.pthread_exit(None)
""",
        out_of_memory,
    ),
    "deep recursion": Hostile(
        "sys.setrecursionlimit(10**9)\nclass A:\n"
        "    def __getattr__(self, name): return getattr(self, name + 'x')\nA().x",
        lambda outcome: outcome.signal is not None or outcome.exit_code == 1 or outcome.timed_out,
    ),
    "raises its limits": Hostile(
        "tell(*(tried(resource.setrlimit, n, (-1, -1)) for n in (resource.RLIMIT_NPROC,"
        " resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)))",
        fails_with("EPERM", "ValueError"),
    ),
    # Files.
    "fills shared memory": Hostile(
        """
try:
    with open("/dev/shm/x", "wb", buffering=0) as file:
        while True: file.write(bytes(65536))
except OSError as error: tell(errno.errorcode[error.errno])
""",
        fails_with("ENOSPC", "EFBIG"),
    ),
    "a sparse file of a tebibyte": Hostile(
        "tell(tried(os.truncate, os.open('x', os.O_CREAT | os.O_WRONLY), 2**40))",
        meets("EFBIG"),
    ),
    "100,000 files at once": Hostile(
        "x = []\ntry:\n    while len(x) < 10**5: x.append(open(f'{len(x)}', 'w'))\n"
        "except OSError as error:\n    tell(errno.errorcode[error.errno])",
        meets("EMFILE"),
    ),
    "100,000 files one after another": Hostile(
        "try:\n    for n in range(10**5): os.mkdir(f'{n}')\n"
        "except OSError as error:\n    tell(errno.errorcode[error.errno])",
        meets("ENOSPC"),
    ),
    "leaves something else than a file": Hostile(
        "os.mkfifo('fifo'); os.mkdir('folder'); open('file', 'w').write('x')",
        lambda outcome: dict(outcome.files) == {"file": b"x"},
        keep=("fifo", "folder", "file"),
    ),
    "makes a device": Hostile(
        "tell(tried(os.mknod, 'x', 0o60666, os.makedev(254, 0)))", meets("EPERM")
    ),
    "leaves its root": Hostile(
        "os.mkdir('x'); tell(tried(os.chroot, 'x'), called('pivot_root', b'x', b'x')"
        " if hasattr(libc, 'pivot_root') else 'EPERM', tried(os.stat, '/../../../../{secret}'))",
        fails_with("EPERM", "ENOENT"),
    ),
    "mounts": Hostile(
        "tell(called('mount', b'none', b'/tmp', b'tmpfs', 0, None),"
        " called('umount2', b'/proc', 2))",
        meets("EPERM", "EPERM"),
    ),
    "opens the root by a handle": Hostile(
        "tell(called('name_to_handle_at', -100, b'/', 0, 0, 0),"
        " called('open_by_handle_at', -100, 0, 0))",
        meets("EPERM", "EPERM"),
    ),
    # Rights.
    "a namespace by clone3": Hostile(
        "tell(called('syscall', 435, ctypes.create_string_buffer(88), 88))",
        meets("ENOSYS"),
    ),
    "becomes root": Hostile(
        "tell(tried(os.setuid, 0), tried(os.setgid, 0), tried(os.setgroups, [0]),"
        " tried(os.setresuid, 0, 0, 0), str(os.getuid()), str(os.geteuid()))",
        lambda outcome: set(reports(outcome)) == {"EPERM", "1000"},
    ),
    "traces its parent": Hostile(
        "tell(called('ptrace', 16, 1, 0, 0), called('process_vm_readv', 1, 0, 0, 0, 0, 0),"
        " called('ptrace', 0, 0, 0, 0))",
        fails_with("EPERM"),
    ),
    "reads its parent": Hostile(
        "tell(*(tried(open, '/proc/1/' + name) for name in ('environ', 'mem', 'maps')),"
        " tried(os.listdir, '/proc/1/fd'), tried(os.readlink, '/proc/1/root'))",
        fails_with("EACCES", "EPERM"),
    ),
    "parts of the kernel": Hostile(
        "tell(called('syscall', 425, 1, 0), called('syscall', {bpf}, 0, 0, 0),"
        " called('syscall', {perf}, 0, 0, 0, 0, 0), called('syscall', {keyctl}, 0, 0, 0))",
        fails_with("EPERM"),
    ),
    "reboots": Hostile("tell(called('reboot', 0x1234567))", meets("EPERM")),
    # Secrets and ways out.
    "uses files left open": Hostile(
        "tell(*(tried(os.fstat, n) for n in range(3, 1024)))", fails_with("EBADF")
    ),
    "connects to this machine": Hostile(
        "tell(tried(socket.create_connection, ('127.0.0.1', {port}), 0.3),"
        " tried(socket.socket(socket.AF_UNIX).connect, '\\0{mark}'))",
        fails_with("EPERM", "ECONNREFUSED"),
    ),
    "connects elsewhere": Hostile(
        "tell(tried(socket.create_connection, ('1.1.1.1', 53), 0.3),"
        " tried(socket.getaddrinfo, 'example.org', 80))",
        lambda outcome: not any("socket" in word or "(" in word for word in reports(outcome)),
    ),
    # Verdicts.
    "endless errors": Hostile("while True: os.write(2, b'x' * 65536)", flooded, LIMITS),
    "closes its files": Hostile(
        "for n in range(3): os.close(n)\nos._exit(7)", lambda o: o.exit_code == 7
    ),
    "ends by a signal": Hostile(
        "os.kill(os.getpid(), signal.SIGSEGV)", lambda outcome: outcome.signal == 11
    ),
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


def files_left() -> list[Path]:
    """What a program left outside, by its name."""
    folders = ("/", "/tmp", "/usr", "/etc", "/dev", "/dev/shm", ROOT, Path.home(), Path.cwd())
    entries = [entry for folder in folders for entry in Path(folder).iterdir()]
    return [entry for entry in entries if MARK in entry.name]
