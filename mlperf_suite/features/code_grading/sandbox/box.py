"""The sandbox that runs programs written by a model.

A program in it has no network, no environment variables and no open files of this process. Of the
file system it sees only the system's own folders, read-only, and an empty, private /tmp of limited
size. It is an ordinary user without capabilities, alone in its own namespaces, and may not make
system calls that reach around them (`system_calls.py`). When it ends or exceeds a limit, every
process that it started is killed.

There are two implementations: bubblewrap, if it is installed, and the suite itself through the
kernel's namespaces (`inside.py`), both without root. `Sandbox.find` starts one and checks from
within that it isolates. If none does, nothing is run at all.

Limits on all processes of a program together: wall time, their number, output, data written to
/tmp, and memory, which is checked 50 times a second and so can be exceeded for a moment. Limits on
each process: CPU time, address space, file size, open files. Where a control group can be made
(`memory_group.py`), the kernel limits memory too, at once. If the machine itself is short of
memory, the kernel ends sandboxes first.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import math
import os
import platform
import selectors
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlperf_suite import PACKAGE
from mlperf_suite.errors import SuiteError
from mlperf_suite.features.code_grading.sandbox import inside
from mlperf_suite.features.code_grading.sandbox.inside import INSIDE_ID, WORK_FOLDER
from mlperf_suite.features.code_grading.sandbox.memory_group import MemoryGroup
from mlperf_suite.features.code_grading.sandbox.system_calls import filter_program, known_machine

MEBIBYTE = 2**20
GIBIBYTE = 2**30

_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_SETTINGS = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "php", "perl")
"""What interpreters and the dynamic linker read below /etc; it contains no accounts or keys."""
_DEVICE_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/shm": "/tmp",  # noqa: S108  # within the sandbox, and counted with it
}
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": WORK_FOLDER,
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_GRACE_S = 20.0
"""Beyond the program's own time, to set up and tear down the sandbox on a busy machine."""
_POLL_S = 0.05
"""How quickly a run reacts to a stop request, and to its control group's limit."""
_CHUNK = 65536
_SIGNALS = 1024
"""Queued signals and timers of all processes of the user; each takes some hundred bytes."""
_USUAL_SEND_BUFFER = 212_992


class SandboxError(SuiteError):
    """The sandbox could not be set up now, though it could before; the program did not run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a program.

    `wall_s`, `memory_bytes`, `processes`, `disk_bytes` and `files` (in /tmp) apply to all its
    processes together, `output_bytes` to each of its two outputs; the rest apply to each process.
    `cpu_s` None means the wall time on every core. `address_space_bytes` None sets no limit: Node
    reserves far more address space than it uses, and does not start under such a limit.
    """

    wall_s: float = 20.0
    cpu_s: int | None = None
    memory_bytes: int = 4 * GIBIBYTE
    address_space_bytes: int | None = None
    processes: int = 64
    disk_bytes: int = 64 * MEBIBYTE
    files: int = 4096
    open_files: int = 256
    output_bytes: int = MEBIBYTE


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """How a program ended.

    Its exit code or the signal that ended it; both are None if it exceeded a limit, was stopped by
    `watch` or `stop`, or killed its supervisor. `stdout` and `stderr` are what it wrote, up to
    Limits.output_bytes each; `truncated` says whether there was more. `files` are the requested
    ones that exist.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    out_of_memory: bool
    stdout: bytes
    stderr: bytes
    truncated: bool
    seconds: float
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Why no sandbox is available on this machine, in a few words."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Runs programs, each in its own sandbox; may be used from several threads.

    `kind` is "bubblewrap" or "namespaces"; `bubblewrap` is the path of its program.
    """

    kind: str
    bubblewrap: str = ""

    @classmethod
    def find(cls) -> Sandbox | NoSandbox:
        """A sandbox that was tested and isolates, or why there is none. Tested once per process."""
        return _find()

    @property
    def python(self) -> str:
        """The Python interpreter within the sandbox: this one, without its virtual environment."""
        return os.path.realpath(sys.executable)

    def tool(self, name: str) -> str | None:
        """The path of the named program if it is visible within the sandbox, else None.

        Searches only the system's folders: what a user installed at home stays hidden.
        """
        path = shutil.which(name, path=_ENVIRONMENT["PATH"])
        return path if path and _is_below(os.path.realpath(path), _readable()) else None

    def run(
        self,
        command: Sequence[str],
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
        *,
        keep: Iterable[str] = (),
        readable: Mapping[Path, str] | None = None,
        environment: Mapping[str, str] | None = None,
        watch: Callable[[bytes], bool] | None = None,
        stop: threading.Event | None = None,
    ) -> ProgramOutcome:
        """Run a command, its first word an absolute path within, in a folder with these files.

        `files` are plain names; each file is also executable. `keep` names files of that folder to
        return, `readable` maps further paths that the program may read to their paths within.
        `watch` gets standard output as it arrives; once it returns False, or `stop` is set, the
        program is killed.

        Raises SandboxError if the sandbox could not be set up.
        """
        limits = limits or Limits()
        order = _order(command, files or {}, stdin, limits, keep, readable or {}, environment or {})
        return _Run(self._supervisor(order), order, limits, watch, stop).outcome()

    def _supervisor(self, order: Mapping[str, Any]) -> list[str]:
        """The command that sets up the sandbox, without the two descriptors at its end."""
        script = inside.__file__
        python = [self.python, "-I", "-S"]
        if self.kind == "namespaces":
            return [*python, script, "namespaces"]
        within = "/inside.py"
        arguments = _bubblewrap_arguments(self.bubblewrap, order, script, within)
        return [*python, script, "bubblewrap", *arguments, *python, within, "within"]


class _Run:
    """One program, from its start until nothing of it is left."""

    def __init__(
        self,
        supervisor: list[str],
        order: Mapping[str, Any],
        limits: Limits,
        watch: Callable[[bytes], bool] | None,
        stop: threading.Event | None,
    ) -> None:
        self._limits = limits
        self._watch = watch
        self._stop = stop
        self._unsent = memoryview(json.dumps(order).encode())
        self._content = {name: bytearray() for name in ("status", "stdout", "stderr")}
        self._truncated = False
        self._stopped = False
        self._group_exceeded = False
        self._group = MemoryGroup.make(limits.memory_bytes)
        with contextlib.ExitStack() as ours:
            status, write_status = os.pipe()
            ours.callback(os.close, write_status)
            descriptors = [write_status, -1]
            try:
                if self._group:
                    descriptors[1] = self._group.cgroup_procs_fd()
                    ours.callback(os.close, descriptors[1])
                self._process = subprocess.Popen(
                    [*supervisor, *map(str, descriptors)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=[number for number in descriptors if number >= 0],
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                os.close(status)
                if self._group:
                    self._group.remove()
                raise SandboxError(f"no sandbox: {error}") from None
        self._status = open(status, "rb", buffering=0)  # noqa: SIM115, PTH123  # closed in outcome

    def outcome(self) -> ProgramOutcome:
        process = self._process
        assert process.stdin and process.stdout and process.stderr
        pipes = {"status": self._status, "stdout": process.stdout, "stderr": process.stderr}
        try:
            with selectors.DefaultSelector() as selector:
                for name, pipe in pipes.items():
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, selectors.EVENT_READ, name)
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE, "order")
                self._exchange(selector)
        finally:
            # Killing the process that set up the sandbox kills everything within; after a normal
            # run it is already gone.
            process.kill()
            process.wait()
            if self._group:
                self._group_exceeded = self._group.exceeded()
                self._group.remove()
            for pipe in (*pipes.values(), process.stdin):
                with contextlib.suppress(OSError):
                    pipe.close()
        return self._result()

    def _exchange(self, selector: selectors.BaseSelector) -> None:
        """Send the order and read the output, until all pipes are closed or time is up."""
        deadline = time.monotonic() + self._limits.wall_s + _GRACE_S
        while selector.get_map() and not self._stopped:
            remaining_s = deadline - time.monotonic()
            self._group_exceeded = bool(self._group and self._group.exceeded())
            if remaining_s <= 0 or self._group_exceeded or (self._stop and self._stop.is_set()):
                self._stopped = True
                return
            for key, _ in selector.select(min(remaining_s, _POLL_S)):
                ordering = key.data == "order"
                if self._send(key.fd) if ordering else self._take(key.fd, key.data):
                    selector.unregister(key.fileobj)
                    if ordering:
                        key.fileobj.close()  # type: ignore[union-attr]

    def _send(self, number: int) -> bool:
        try:
            self._unsent = self._unsent[os.write(number, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        return not self._unsent

    def _take(self, number: int, name: str) -> bool:
        try:
            data = os.read(number, _CHUNK)
        except BlockingIOError:
            return False
        content = self._content[name]
        if name == "status":
            content += data
            return not data
        if name == "stdout" and data and self._watch and not self._watch(data):
            self._stopped = True
        room = self._limits.output_bytes - len(content)
        content += data[:room]
        self._truncated |= len(data) > room
        return not data

    def _result(self) -> ProgramOutcome:
        status: dict[str, Any] = {}
        for line in bytes(self._content["status"]).splitlines():
            status.update(json.loads(line))
        if "error" in status or not (status.get("started") or self._stopped):
            why = status.get("error") or _last_line(self._content["stderr"]) or "it did not start"
            raise SandboxError(f"no sandbox: {why}")
        if self._group_exceeded:
            status |= {"exit_code": None, "signal": None, "out_of_memory": True}
        return ProgramOutcome(
            exit_code=status.get("exit_code"),
            signal=status.get("signal"),
            timed_out=status.get("timed_out", False),
            out_of_memory=status.get("out_of_memory", False),
            stdout=bytes(self._content["stdout"]),
            stderr=bytes(self._content["stderr"]),
            truncated=self._truncated,
            seconds=status.get("seconds", 0.0),
            files={name: base64.b64decode(data) for name, data in status.get("kept", {}).items()},
        )


def _last_line(data: bytes | bytearray) -> str:
    lines = bytes(data).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _order(
    command: Sequence[str],
    files: Mapping[str, bytes],
    stdin: bytes,
    limits: Limits,
    keep: Iterable[str],
    readable: Mapping[Path, str],
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """The order for `inside.py`."""
    rlimits = {
        "CORE": 0,
        "CPU": limits.cpu_s or math.ceil(limits.wall_s) * (os.cpu_count() or 1),
        "FSIZE": limits.disk_bytes,
        "NOFILE": limits.open_files,
        "NPROC": limits.processes,
        "MEMLOCK": 0,
        "MSGQUEUE": 0,
        "SIGPENDING": _SIGNALS,
    }
    if limits.address_space_bytes is not None:
        rlimits["AS"] = limits.address_space_bytes
    folders = {path: path for path in _readable()}
    folders |= {str(path): target for path, target in readable.items()}
    return {
        "command": list(command),
        "environment": {**_ENVIRONMENT, **environment},
        "readable": folders,
        "links": _links(),
        "device_links": _DEVICE_LINKS,
        "hidden": _hidden(folders.values()),
        "put": {name: base64.b64encode(data).decode() for name, data in files.items()},
        "keep": list(keep),
        "stdin": base64.b64encode(stdin).decode(),
        "rlimits": rlimits,
        "wall_s": limits.wall_s,
        "memory_bytes": limits.memory_bytes,
        "socket_bytes": _socket_bytes(),
        "disk_bytes": limits.disk_bytes,
        "files": limits.files,
        "filter": base64.b64encode(filter_program(platform.machine())).decode(),
    }


@functools.cache
def _socket_bytes() -> int:
    """The most that a socket holds: its buffer, and one datagram beyond it."""
    try:
        default = int(Path("/proc/sys/net/core/wmem_default").read_text(encoding="ascii"))
    except (OSError, ValueError):
        default = _USUAL_SEND_BUFFER
    return 2 * default


@functools.cache
def _readable() -> tuple[str, ...]:
    """The folders and files that every program may read."""
    system = [
        path for path in _SYSTEM_FOLDERS if Path(path).is_dir() and not Path(path).is_symlink()
    ]
    settings = [f"/etc/{name}" for name in _SYSTEM_SETTINGS if Path("/etc", name).exists()]
    # The interpreter's own folder, which may be anywhere.
    prefix = os.path.realpath(sys.base_prefix)
    own = [] if _is_below(prefix, system) else [prefix]
    return (*system, *settings, *own)


@functools.cache
def _links() -> dict[str, str]:
    """System folders that are links, such as /bin to usr/bin."""
    return {path: str(Path(path).readlink()) for path in _SYSTEM_FOLDERS if Path(path).is_symlink()}


def _hidden(folders: Iterable[str]) -> list[str]:
    """The home, project and current folders, if they are within a readable one."""
    folders = list(folders)
    prefix = os.path.realpath(sys.base_prefix)
    own = {os.path.realpath(path) for path in (Path.home(), _PROJECT, Path.cwd())}
    return sorted(
        path
        for path in own
        if path not in folders and _is_below(path, folders) and not _is_below(prefix, [path])
    )


_PROJECT = PACKAGE.parent


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _bubblewrap_arguments(
    program: str, order: Mapping[str, Any], script: str, within: str
) -> list[str]:
    """bubblewrap's arguments for the same root folder that `inside.py` makes."""
    arguments = [program, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    arguments += ["--as-pid-1", "--clearenv", "--cap-drop", "ALL"]
    arguments += ["--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID)]
    arguments += ["--size", str(order["disk_bytes"]), "--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108
    for path, target in order["readable"].items():
        arguments += ["--ro-bind", path, target]
    for path, target in order["links"].items():
        arguments += ["--symlink", target, path]
    for path in order["hidden"]:
        arguments += ["--tmpfs", path, "--remount-ro", path]
    arguments += ["--proc", "/proc", "--dir", "/dev"]
    for name in inside.DEVICES:
        arguments += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for path, target in order["device_links"].items():
        arguments += ["--symlink", target, path]
    arguments += [
        "--ro-bind",
        script,
        within,
        "--remount-ro",
        "/",
        "--remount-ro",
        "/proc",
        "--chdir",
        "/",
        "--",
    ]
    return arguments


# --- The test of a sandbox ------------------------------------------------------------------------

_LOOK_AROUND = """
import json, os, socket, sys
def read(path):
    try:
        return open(path).read()
    except OSError:
        return None
def fails(action, *arguments):
    try:
        action(*arguments)
    except OSError:
        return True
    return False
status = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines())
seen = {
    "ids": [*os.getresuid(), *os.getresgid()],
    "capabilities": [status[name].strip() for name in ("CapPrm", "CapEff", "CapAmb", "CapInh")],
    "privileges": [status["NoNewPrivs"].strip(), status["Seccomp"].strip()],
    "devices": [line.split(":")[0].strip() for line in read("/proc/net/dev").splitlines()[2:]],
    "variables": sorted(set(os.environ) - {"LC_CTYPE"}),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "descriptors": [number for number in range(3, 64) if not fails(os.fstat, number)],
    "supervisor": [read("/proc/1/environ"), read("/proc/1/maps")],
    "visible": [path for path in json.loads(sys.argv[1]) if os.path.exists(path)],
    "written": [path for path in json.loads(sys.argv[2]) if not fails(open, path + "/x", "w")],
    "socket": fails(socket.socket, socket.AF_INET),
    "first to go": [read(sys.argv[3]), fails(open, sys.argv[3], "w")],
}
children = []
try:
    while len(children) < 64:
        child = os.fork()
        if not child:
            os.read(0, 1)
            import time
            time.sleep(60)
        children.append(child)
except OSError:
    pass
seen["children"] = len(children)
print(json.dumps(seen))
"""
_TRIED_PROCESSES = 12
_TRIAL_S = 15.0
"""How long the look around in a sandbox may take, in s."""


@functools.cache
def _find() -> Sandbox | NoSandbox:
    if sys.platform != "linux" or not known_machine(platform.machine()):
        return NoSandbox(f"none is known for {sys.platform} on {platform.machine()}")
    reasons = []
    for sandbox in _candidates():
        why = fault(sandbox)
        if not why:
            return sandbox
        reasons.append(f"{sandbox.kind}: {why}")
    return NoSandbox("; ".join(reasons))


def _candidates() -> list[Sandbox]:
    own = Sandbox("namespaces")
    bubblewrap = shutil.which("bwrap")
    # When root starts it, bubblewrap leaves the program root's own id, and the kernel does not
    # apply the process limit to root.
    if bubblewrap is None or os.geteuid() == 0:
        return [own]
    return [Sandbox("bubblewrap", bubblewrap), own]


def fault(sandbox: Sandbox) -> str:
    """Start a sandbox, check its isolation from within, and name the failures; empty if there are
    none."""
    hidden = [str(Path.home() / ".ssh"), str(_PROJECT / "pyproject.toml"), "/etc/shadow", "/sys"]
    outside = ["/", "/usr", "/etc", "/dev", "/proc", "/bin"]
    limits = Limits(wall_s=_TRIAL_S, processes=_TRIED_PROCESSES, disk_bytes=MEBIBYTE)
    command = [sandbox.python, "-I", "-S", "-c", _LOOK_AROUND, json.dumps(hidden)]
    try:
        outcome = sandbox.run([*command, json.dumps(outside), inside.OOM_SCORE_FILE], limits=limits)
        view = json.loads(outcome.stdout)
    except SandboxError as error:
        return str(error).removeprefix("no sandbox: ")
    except ValueError:
        return _last_line(outcome.stderr) or "its test did not end"
    isolated: dict[str, object] = {
        "ids": [INSIDE_ID] * 6,
        "capabilities": ["0" * 16] * 4,
        "privileges": ["1", "2"],
        "variables": sorted(_ENVIRONMENT),
        "processes": [1, 2],
        "descriptors": [],
        "supervisor": [None, None],
        "visible": [],
        "written": [],
        "socket": True,
        "first to go": ["1000\n", True],
    }
    for name, value in isolated.items():
        if view[name] != value:
            return f"it does not isolate ({name})"
    if not set(view["devices"]) <= {"lo"}:
        return "it does not isolate (network)"
    # The program itself and its supervisor count too.
    if not 1 <= view["children"] <= _TRIED_PROCESSES:
        return "the number of processes cannot be limited (needs Linux 5.14 or newer)"
    return ""
