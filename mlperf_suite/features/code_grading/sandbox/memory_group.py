"""A control group that limits the memory of one program, where this process may make one.

In a group the kernel itself limits what a program holds, of whatever kind, and ends only processes
of the group. Root may make groups, and so may users in what systemd delegates to them (a desktop's
terminal, `systemd-run --user --scope`); most containers allow none. Source: the kernel's
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "mlperf-sandbox-"
_NUMBERS = itertools.count()
_SETTINGS = (
    {"memory.max": "{}", "memory.oom.group": "1"},
    {"memory.limit_in_bytes": "{}"},
)
"""Files and their content in a group of cgroup v2 and of v1; {} is the limit in bytes."""
_SWAP_SETTINGS = {"memory.swap.max": "0", "memory.memsw.limit_in_bytes": "{}"}
"""Where the kernel counts swap."""
_COUNTS = ("memory.events", "memory.oom_control")
_REMOVAL_S = 2.0
"""A killed process leaves its group a moment later."""


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A control group that was made for one program."""

    folder: Path

    @classmethod
    def make(cls, memory_bytes: int) -> MemoryGroup | None:
        """A new, empty group with this limit; None where this process may make none."""
        parent = _parent()
        return _made(parent, memory_bytes) if parent else None

    def cgroup_procs_fd(self) -> int:
        """A new descriptor; a process that writes "0" to it moves into the group."""
        return os.open(self.folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def exceeded(self) -> bool:
        """Whether the kernel ended one of its processes at the limit."""
        counts: list[str] = []
        for name in _COUNTS:
            with contextlib.suppress(OSError):
                counts += (self.folder / name).read_text(encoding="ascii").splitlines()
        return any(line.startswith("oom_kill ") and not line.endswith(" 0") for line in counts)

    def remove(self) -> None:
        """Remove the group, whose processes have been killed."""
        deadline = time.monotonic() + _REMOVAL_S
        while not _removed(self.folder) and time.monotonic() < deadline:
            time.sleep(0.01)


@functools.cache
def _parent() -> Path | None:
    """Where this process may make groups with a limit; removes the groups of processes that
    ended."""
    for parent in _candidates():
        if group := _made(parent, 2**30):
            group.remove()
            for left in parent.glob(f"{_PREFIX}*"):
                if not Path("/proc", left.name.split("-")[2]).exists():
                    _removed(left)
            return parent
    return None


def _candidates() -> Iterator[Path]:
    """The folders of this process's group and of the group around it, of cgroup v1 or v2.

    In v2 a group that has processes has no groups with limits, so its neighbour takes their place.
    """
    with contextlib.suppress(OSError, ValueError):
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        for _, controllers, path in (line.split(":", 2) for line in groups):
            for place, _, source in (line.partition(" - ") for line in mounts):
                root, folder = place.split()[3:5]
                kind, _, options = source.split()[:3]
                v1 = kind == "cgroup" and "memory" in controllers.split(",")
                v1 = v1 and "memory" in options.split(",")
                v2 = kind == "cgroup2" and not controllers
                if v1 or v2:
                    own = Path(folder, path.removeprefix(root).lstrip("/"))
                    yield own
                    if v2 and own != Path(folder):
                        yield own.parent


def _made(parent: Path, memory_bytes: int) -> MemoryGroup | None:
    folder = parent / f"{_PREFIX}{os.getpid()}-{next(_NUMBERS)}"
    try:
        folder.mkdir()
    except OSError:
        return None
    for settings in _SETTINGS:
        if _written(folder, settings, memory_bytes):
            for name, content in _SWAP_SETTINGS.items():
                _written(folder, {name: content}, memory_bytes)
            return MemoryGroup(folder)
    _removed(folder)
    return None


def _written(folder: Path, settings: dict[str, str], memory_bytes: int) -> bool:
    try:
        for name, content in settings.items():
            # Never made: a file that is not there stands for a setting that the kernel lacks.
            with (folder / name).open("r+", encoding="ascii") as file:
                file.write(content.format(memory_bytes))
    except OSError:
        return False
    return True


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
