"""Finds the operations that take the most time in a trace of torch's profiler.

The trace is JSON in Chrome's trace event format: an object whose `traceEvents` is a list of events.
Events of phase X have a start `ts` and a duration `dur` in microseconds. The reader takes one event
at a time, since ten seconds of a small model produce hundreds of thousands.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

PROFILE = "run.profile"
"""The name of the figures in summary.json."""


@dataclass(frozen=True, slots=True)
class ProfileFigures:
    """The profile of a performance run. `seconds`: how long the profiler ran. `files`: the traces,
    as paths in the run's folder. `opens`: how to view them, a sentence. `operations`: the longest
    operations, only for torch's traces."""

    profiler: str = ""
    seconds: float = 0.0
    files: tuple[str, ...] = ()
    opens: str = ""
    operations: TopOperations | None = None


_BEGINS = re.compile(r'"traceEvents"\s*:\s*\[')
_GAP = re.compile(r"[ \t\r\n,]*")
_CHUNK = 1 << 20
_MAX_EVENT_LENGTH = 1 << 24
"""Characters; anything longer is not an event, and the trace is damaged."""
_MAX_NAME_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Operation:
    """The total of an operation. `self_ms`: its time in ms without the operations that it called;
    `share`: of the self times of all operations of its kind, from 0 to 1."""

    name: str
    calls: int = 0
    self_ms: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class TopOperations:
    """The operations that took longest. `where`: GPU (kernels) or CPU; `total_ms`: of all of these
    operations, over all threads; `damaged`: whether a trace ended early or could not be read."""

    where: Literal["CPU", "GPU"] = "CPU"
    total_ms: float = 0.0
    operations: tuple[Operation, ...] = ()
    damaged: bool = False


@dataclass(slots=True)
class _Lane:
    """The events of one thread, or of one stream of a GPU, a column each."""

    start: array[float] = field(default_factory=lambda: array("d"))
    length: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("L"))

    def add(self, start: float, length: float, name: int) -> None:
        self.start.append(start)
        self.length.append(length)
        self.name.append(name)


def top_operations(traces: Iterable[Path], most: int = 10) -> TopOperations:
    """The `most` operations with the highest self time over all traces: a GPU's kernels if there
    are any, else the CPU's operations."""
    names: dict[str, int] = {}
    lanes: dict[tuple[str, object, object], _Lane] = {}
    damaged = False
    for number, path in enumerate(traces):
        try:
            for event in _events(path):
                kind = _KINDS.get(event.get("cat", ""))
                if kind is None or event.get("ph") != "X":
                    continue
                start, length = float(event["ts"]), float(event["dur"])
                name = names.setdefault(str(event["name"])[:_MAX_NAME_LENGTH], len(names))
                place = (kind, (number, event.get("pid")), event.get("tid"))
                lanes.setdefault(place, _Lane()).add(start, length, name)
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError):
            damaged = True
    where: Literal["CPU", "GPU"] = "GPU" if any(k == "GPU" for k, *_ in lanes) else "CPU"
    self_us = [0.0] * len(names)
    calls = [0] * len(names)
    for (kind, *_), lane in lanes.items():
        if kind == where:
            _add_self_times(lane, self_us, calls)
    total = sum(self_us)
    labels = list(names)
    order = sorted((i for i in range(len(labels)) if calls[i]), key=lambda i: -self_us[i])
    operations = tuple(
        Operation(labels[i], calls[i], self_us[i] / 1000, self_us[i] / total if total else 0.0)
        for i in order[:most]
    )
    return TopOperations(where, total / 1000, operations, damaged)


_KINDS: dict[Any, str] = {
    "cpu_op": "CPU",
    "kernel": "GPU",
    "gpu_memcpy": "GPU",
    "gpu_memset": "GPU",
}
"""Where the time of an event of this category is spent; other categories are ranges."""


def _add_self_times(lane: _Lane, self_us: list[float], calls: list[int]) -> None:
    """Add each event's self time in µs: its duration less that of nested events of the thread."""
    # Of two events that begin at the same time, the longer one called the other.
    order = sorted(range(len(lane.start)), key=lambda i: (lane.start[i], -lane.length[i]))
    open_until: list[tuple[float, int]] = []
    for i in order:
        while open_until and open_until[-1][0] <= lane.start[i]:
            open_until.pop()
        name = lane.name[i]
        self_us[name] += lane.length[i]
        calls[name] += 1
        if open_until:
            self_us[open_until[-1][1]] -= lane.length[i]
        open_until.append((lane.start[i] + lane.length[i], name))


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each event of a trace. Raises OSError, EOFError or ValueError if it is damaged."""
    open_text: Any = gzip.open if path.suffix == ".gz" else Path.open
    with open_text(path, "rt", encoding="utf-8", errors="replace") as file:
        yield from _events_in(file)


def _events_in(file: TextIO) -> Iterator[dict[str, Any]]:
    decode = json.JSONDecoder().raw_decode
    text, begins = "", None
    while begins is None:
        more = file.read(_CHUNK)
        if not more or len(text) > _MAX_EVENT_LENGTH:
            raise ValueError("no traceEvents")
        text += more
        begins = _BEGINS.search(text)
    at = begins.end()
    while True:
        gap = _GAP.match(text, at)
        at = gap.end() if gap else at
        if at < len(text) and text[at] == "]":
            return
        try:
            event, at = decode(text, at)
        except ValueError:
            more = file.read(_CHUNK)
            if not more or len(text) - at > _MAX_EVENT_LENGTH:
                raise
            text, at = text[at:] + more, 0
            continue
        if isinstance(event, dict):
            yield event
