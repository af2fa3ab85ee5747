"""Makes a sandbox around itself, runs one program in it and supervises it.

`box.py` starts this file as a separate program: `python -I -S inside.py MODE STATUS GROUP`. It
reads one JSON object, the order, from standard input and writes JSON lines to the file descriptor
STATUS: first {"started": true}, then how the program ended, or {"error": ...} if there is no
sandbox. Standard output and standard error are those of the sandboxed program. GROUP is the
descriptor through which the program enters its control group, -1 if it has none.

MODE is `namespaces`, which makes the namespaces and the root folder itself, or `within`, if
bubblewrap has made them; `bubblewrap COMMAND...` becomes bubblewrap. Either way this process is the
first one of a new PID namespace: when it ends, by itself or by SIGKILL, the kernel kills every
process that the program left.

The supervisor has the program's own user id, since an ordinary user can have no other. The program
still cannot reach it: it is not dumpable, so its memory and its files cannot be opened through
/proc, the filter refuses ptrace, and the first process of a PID namespace gets no signal from
within it unless it has a handler.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import time
from typing import Any, NoReturn

INSIDE_ID = 1000
"""The program's user and group within the sandbox: not root, not even there."""
UNPRIVILEGED_ID = 65534
"""The outside owner of root's sandboxes ("nobody"): process limits do not apply to root."""
WORK_FOLDER = "/tmp/work"
OOM_SCORE_FILE = "/proc/self/oom_score_adj"
"""What the kernel, if it is short of memory, adds to a process's share in thousandths."""
TICK_S = 0.02
"""The interval between memory checks."""

_NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
_NEW_USER = 0x10000000
_NO_SETUID, _NO_DEVICES, _NO_EXECUTION = 2, 4, 8
_BIND, _RECURSIVE, _PRIVATE, _DETACH = 4096, 16384, 1 << 18, 2
_ATTRIBUTE_READ_ONLY, _ATTRIBUTE_NO_SETUID, _ATTRIBUTE_NO_DEVICES = 1, 2, 4
_AT_RECURSIVE = 0x8000
_MOUNT_SETATTR = 442  # the same on every architecture
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 4, 22, 38
_DROP_FROM_BOUNDING_SET = 24
_CAPABILITY_VERSION = 0x20080522
DEVICES = ("null", "full", "random", "urandom")
"""Not zero: its shared mappings are memory that no process shows."""
_FILE_BYTES, _DESCRIPTOR_BYTES = 5 << 10, 32 << 10
"""At most what the kernel keeps for a file in a tmpfs besides its content (the inode and a link's
target), and for a descriptor (half a pipe's buffer)."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, action: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def _control(option: int, value: int) -> None:
    arguments = (ctypes.c_ulong(number) for number in (value, 0, 0, 0))
    _check(_libc.prctl(option, *arguments), f"prctl {option}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    _check(
        _libc.mount(
            source.encode(),
            target.encode(),
            kind.encode() if kind else None,
            ctypes.c_ulong(flags),
            data.encode() if data else None,
        ),
        f"mounting {target}",
    )


def _restrict_mount(target: str, attributes: int, flags: int = 0) -> None:
    """Set attributes of a mount; with _AT_RECURSIVE also of those below it."""
    setting = struct.pack("<QQQQ", attributes, 0, 0, 0)
    _check(
        _libc.syscall(_MOUNT_SETATTR, -100, target.encode(), flags, setting, len(setting)),
        f"restricting {target}",
    )


# --- The namespaces and the root folder -----------------------------------------------------------


def _enter_namespaces() -> bool:
    """Enter new namespaces of every kind; returns whether the user namespace maps root as well.

    A helper outside writes the user map, since a process within may not map another's id.
    """
    root = os.geteuid() == 0 and _is_mapped(UNPRIVILEGED_ID)
    if root:
        # Not permitted if the enclosing user namespace has given it up.
        with contextlib.suppress(PermissionError):
            os.setgroups([])
    pairs = {"uid": os.geteuid(), "gid": os.getegid()}
    entered, enter = os.pipe()
    mapped, helper = os.getpid(), os.fork()
    if helper == 0:
        try:
            os.close(enter)
            if os.read(entered, 1):
                _write(f"/proc/{mapped}/setgroups", "deny")
                for kind, own in pairs.items():
                    lines = f"0 0 1\n{INSIDE_ID} {UNPRIVILEGED_ID} 1" if root else ""
                    _write(f"/proc/{mapped}/{kind}_map", lines or f"{INSIDE_ID} {own} 1")
                os._exit(0)
        finally:
            os._exit(1)
    _check(_libc.unshare(_NEW_NAMESPACES | _NEW_USER), "making namespaces")
    os.write(enter, b"x")
    os.close(entered)
    os.close(enter)
    if os.waitpid(helper, 0)[1]:
        raise OSError("mapping users: not permitted")
    return root


def _is_mapped(number: int) -> bool:
    """Whether a user and a group of this number exist in the current user namespace."""
    for kind in ("uid", "gid"):
        ranges = [line.split() for line in _read(f"/proc/self/{kind}_map").splitlines()]
        if not any(int(first) <= number < int(first) + int(count) for first, _, count in ranges):
            return False
    return True


def raise_oom_score() -> None:
    """Have the kernel, if it is short of memory, end this process and its children before any
    other."""
    with contextlib.suppress(OSError):
        _write(OOM_SCORE_FILE, "1000")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _make_root(order: dict[str, Any]) -> None:
    """Make a root folder with the readable folders, a few devices, /proc and an empty /tmp."""
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    sources = {path: os.open(path, os.O_PATH) for path in order["readable"]}
    devices = {name: os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES}
    # From here on everything below /tmp is hidden, except what was opened above.
    root = "/tmp"
    _mount("tmpfs", root, "tmpfs", _NO_SETUID | _NO_DEVICES, "size=1m,nr_inodes=4096,mode=755")
    # First, since a readable folder may be below it.
    os.makedirs(f"{root}/tmp")
    _mount(
        "tmpfs",
        f"{root}/tmp",
        "tmpfs",
        _NO_SETUID | _NO_DEVICES,
        f"size={order['disk_bytes']},nr_inodes={order['files']},mode=1777",
    )
    for path, descriptor in sources.items():
        _bind(descriptor, root + order["readable"][path])
        _restrict_mount(
            root + order["readable"][path],
            _ATTRIBUTE_READ_ONLY | _ATTRIBUTE_NO_SETUID | _ATTRIBUTE_NO_DEVICES,
            _AT_RECURSIVE,
        )
    for path, target in order["links"].items():
        os.symlink(target, root + path)
    for path in order["hidden"]:
        _mount("tmpfs", root + path, "tmpfs", _NO_SETUID | _NO_DEVICES, "size=4k,mode=755")
        _restrict_mount(root + path, _ATTRIBUTE_READ_ONLY)
    os.makedirs(f"{root}/dev")
    for name, descriptor in devices.items():
        _bind(descriptor, f"{root}/dev/{name}")
        _restrict_mount(f"{root}/dev/{name}", _ATTRIBUTE_READ_ONLY | _ATTRIBUTE_NO_SETUID)
    for path, target in order["device_links"].items():
        os.symlink(target, root + path)
    for number in (*sources.values(), *devices.values()):
        os.close(number)
    os.makedirs(f"{root}/proc")
    _mount("proc", f"{root}/proc", "proc", _NO_SETUID | _NO_DEVICES | _NO_EXECUTION)
    _write(f"{root}/proc/sys/user/max_user_namespaces", "0")
    _restrict_mount(f"{root}/proc", _ATTRIBUTE_READ_ONLY)
    _restrict_mount(root, _ATTRIBUTE_READ_ONLY)
    os.chdir(root)
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."), "changing the root")
    _check(_libc.umount2(b".", _DETACH), "leaving the old root")
    os.chdir("/")


def _bind(descriptor: int, target: str) -> None:
    """Mount an opened file or folder, with everything mounted below it."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(target.rpartition("/")[0], exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(f"/proc/self/fd/{descriptor}", target, None, _BIND | _RECURSIVE)


def _drop_privileges(root: bool) -> None:
    for capability in range(64):
        with contextlib.suppress(OSError):  # the kernel knows fewer
            _control(_DROP_FROM_BOUNDING_SET, capability)
    if root:
        os.setresgid(INSIDE_ID, INSIDE_ID, INSIDE_ID)
        os.setresuid(INSIDE_ID, INSIDE_ID, INSIDE_ID)
    header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, bytes(24)), "dropping capabilities")


# --- The program ----------------------------------------------------------------------------------


def _execute(order: dict[str, Any], stdin: int, group: int) -> NoReturn:
    """Become the program, in the child that was forked for it."""
    try:
        with contextlib.suppress(OSError):
            os.write(group, b"0")
        os.setsid()
        os.dup2(stdin, 0)
        for name, limit in order["rlimits"].items():
            kind = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(kind)[1]
            highest = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (highest, highest))
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(0o022)
        os.closerange(3, 1 << 20)
        code = base64.b64decode(order["filter"])
        buffer = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
        _check(_libc.prctl(_SET_SECCOMP, 2, program, 0, 0), "installing the filter")
        os.execve(order["command"][0], order["command"], order["environment"])
    except BaseException as error:
        os.write(2, f"{order['command'][0]}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(127)


def _used_bytes(socket_bytes: int, shared_once: bool) -> int:
    """Memory of all processes within but this one, of /tmp, and of what the kernel keeps for them:
    an upper estimate, unless memory shared between processes counts once, which takes longer."""
    disk = os.statvfs("/tmp")
    total = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    total += (disk.f_files - disk.f_ffree) * _FILE_BYTES
    with contextlib.suppress(OSError, ValueError, IndexError):
        # Those that no process has open any more, but that wait in another's buffer, too.
        total += int(_read("/proc/net/sockstat").split()[2]) * socket_bytes
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with contextlib.suppress(OSError):
                total += _process_bytes(f"/proc/{name}", shared_once)
    return total


def _process_bytes(folder: str, shared_once: bool) -> int:
    status = _numbers(f"{folder}/status")
    for thread in os.listdir(f"{folder}/task"):
        if "VmRSS:" in status:
            break
        # The first thread has ended, others have not.
        status = _numbers(f"{folder}/task/{thread}/status")
    memory = status.get("VmRSS:", 0) + status.get("VmSwap:", 0)
    descriptors = status.get("FDSize:", 0)
    if shared_once:
        # If it has ended, or made itself unreadable, all of its memory counts.
        with contextlib.suppress(OSError, KeyError):
            shares = _numbers(f"{folder}/smaps_rollup")
            memory = shares["Pss:"] + shares["SwapPss:"]
            descriptors = len(os.listdir(f"{folder}/fd"))
    return ((memory + status.get("VmPTE:", 0)) << 10) + descriptors * _DESCRIPTOR_BYTES


def _numbers(path: str) -> dict[str, int]:
    """The lines of a file in /proc that have a number, by their name; memory is in KiB."""
    lines = (line.split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def _kill_all() -> None:
    """Kill every other process in the PID namespace, and wait until they are gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _supervise(order: dict[str, Any], status: int, group: int) -> dict[str, Any]:
    """Run the program, end it if it exceeds a limit, and report how it ended."""
    os.makedirs(WORK_FOLDER, mode=0o755, exist_ok=True)
    os.chdir(WORK_FOLDER)
    for name, content in order["put"].items():
        with open(os.open(name, os.O_CREAT | os.O_WRONLY, 0o755), "wb") as file:
            file.write(base64.b64decode(content))
    stdin = os.open("/tmp/stdin", os.O_CREAT | os.O_RDWR, 0o600)
    os.unlink("/tmp/stdin")
    _write_all(stdin, base64.b64decode(order["stdin"]))
    os.lseek(stdin, 0, os.SEEK_SET)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    caller = select.poll()
    caller.register(status, 0)
    os.write(status, b'{"started": true}\n')
    begin = time.monotonic()
    program = os.fork()
    if program == 0:
        _execute(order, stdin, group)
    for number in (0, 1, 2, stdin):
        os.close(number)
    outcome: dict[str, Any] = {"timed_out": False, "out_of_memory": False}
    wait_status = None
    while wait_status is None:
        signal.sigtimedwait({signal.SIGCHLD}, TICK_S)
        wait_status = _reap(program)
        if wait_status is not None:
            break
        if caller.poll(0):
            os._exit(1)  # the caller is gone, and the program goes with this process
        outcome["timed_out"] = time.monotonic() - begin > order["wall_s"]
        outcome["out_of_memory"] = all(
            _used_bytes(order["socket_bytes"], once) > order["memory_bytes"]
            for once in (False, True)
        )
        if outcome["timed_out"] or outcome["out_of_memory"]:
            break
    outcome["seconds"] = time.monotonic() - begin
    _kill_all()
    if wait_status is not None:
        outcome["signal"] = os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else None
        outcome["exit_code"] = os.WEXITSTATUS(wait_status) if os.WIFEXITED(wait_status) else None
    outcome["kept"] = {name: data for name in order["keep"] if (data := _file_content(name, order))}
    return outcome


def _write_all(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def _reap(program: int) -> int | None:
    """Reap the processes that have ended; returns the program's wait status once it has ended."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == program:
                status = wait_status
    return status


def _file_content(name: str, order: dict[str, Any]) -> str | None:
    """A regular file of the working folder in base64; the program may have put anything there."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > order["disk_bytes"]:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return base64.b64encode(file.read()).decode()
    finally:
        os.close(descriptor)


def _run_first_process(order: dict[str, Any], status: int, group: int, root: bool | None) -> None:
    """Run as the first process of the PID namespace; `root` is None if bubblewrap made it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if root is not None:
        _control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        _make_root(order)
        _drop_privileges(root)
        # Both were reset by the change of user.
        _control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    _control(_SET_DUMPABLE, 0)
    _control(_SET_NO_NEW_PRIVILEGES, 1)
    outcome = _supervise(order, status, group)
    _write_all(status, json.dumps(outcome).encode() + b"\n")


def main() -> None:
    mode, (status, group) = sys.argv[1], map(int, sys.argv[-2:])
    try:
        if mode == "bubblewrap":
            raise_oom_score()
            os.execv(sys.argv[2], sys.argv[2:])
        order = json.load(sys.stdin.buffer)
        if mode == "within":
            _run_first_process(order, status, group, None)
            return
        _control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        raise_oom_score()
        root = _enter_namespaces()
        first = os.fork()
        if first == 0:
            _run_first_process(order, status, group, root)
            os._exit(0)
        os.waitpid(first, 0)
    except BaseException as error:
        with contextlib.suppress(OSError):
            _write_all(status, json.dumps({"error": f"{error}"}).encode() + b"\n")
        os._exit(1)


if __name__ == "__main__":
    main()
