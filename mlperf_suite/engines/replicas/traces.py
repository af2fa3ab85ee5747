"""Merges the traces of the replicas, in this process's times."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from mlperf_suite.engines.protocol import (
    DECODE,
    FIRST_TOKEN,
    FRONT_END,
    LATER_TOKENS,
    NETWORK,
    PREFILL,
    QUEUE,
    EngineTrace,
    Marks,
    Steps,
)
from mlperf_suite.engines.replicas.messages import Trace

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

HELD = "held for a replica"
"""The part of a request's time until a replica has room for it."""
_ENGINE = (FRONT_END, QUEUE, PREFILL, DECODE)
"""The parts that vLLM reports, in order."""
_TOLD = (HELD, NETWORK, QUEUE, PREFILL, DECODE)
_UNTOLD = (HELD, FIRST_TOKEN, LATER_TOKENS)


class Answered:
    """The answers that came, 40 bytes each; times in s of time.monotonic.

    `handed`: when the request was sent to its replica. `first`: when its first token came, nan if
    it was not streamed.
    """

    def __init__(self) -> None:
        self.numbers: array[int] = array("Q")
        self.tags: array[int] = array("Q")
        self.handed: array[float] = array("d")
        self.first: array[float] = array("d")
        self.done: array[float] = array("d")

    def add(self, number: int, tag: int, handed: float, first: float | None, done: float) -> None:
        """Add an answer."""
        self.numbers.append(number)
        self.tags.append(tag)
        self.handed.append(handed)
        self.first.append(math.nan if first is None else first)
        self.done.append(done)


def merged(traces: Mapping[int, tuple[Trace, float]], answered: Answered) -> EngineTrace:
    """Merge the traces of all replicas.

    `traces`: by replica number, its trace and the seconds to add to its times to get this
    process's. A replica reports how long the parts of a request took, not when: another machine's
    clock differs. The rest of the request's time counts as the network's.
    """
    steps = _steps({number: told for number, told in traces.items() if told[0].steps})
    return EngineTrace(steps, _marks([trace for trace, _ in traces.values()], answered))


def _steps(traces: Mapping[int, tuple[Trace, float]]) -> Steps:
    import numpy as np

    steps = Steps()
    if not traces:
        return steps
    columns: dict[str, list[npt.NDArray[np.generic]]] = {}
    for number, (trace, offset) in traces.items():
        count = 0
        for one in fields(Steps):
            kind = getattr(steps, one.name).typecode
            column: npt.NDArray[np.generic] = np.frombuffer(trace.steps.get(one.name, b""), kind)
            if one.name == "ended_s":
                count = len(column)
                column = np.asarray(column, np.float64) + offset
            elif one.name == "replica":
                column = np.full(count, number, np.int32)
            columns.setdefault(one.name, []).append(column)
    whole = {name: np.concatenate(of) for name, of in columns.items()}
    order = np.argsort(whole["ended_s"], kind="stable")
    for name, column in whole.items():
        # A column that no replica has stays empty.
        if len(column) == len(order):
            getattr(steps, name).frombytes(np.ascontiguousarray(column[order]).tobytes())
    return steps


def _marks(traces: list[Trace], answered: Answered) -> Marks:
    import numpy as np

    numbers = np.asarray(answered.numbers)
    handed, first, done = (np.asarray(c) for c in (answered.handed, answered.first, answered.done))
    took = _durations(traces, numbers)
    if took is None:
        return _made(_UNTOLD, answered, [handed, first, done], None)
    parts, preempted = took
    front, queue, prefill, decode = parts
    known = np.isfinite(first)
    before_first = front + queue + prefill
    began = np.where(known, first - before_first, done - before_first - decode)
    began = np.fmax(handed, np.where(np.isfinite(began), began, handed))
    computed = np.minimum(began + front + queue, np.where(known, first, done))
    prefilled = np.where(known, first, np.minimum(computed + prefill, done))
    times = [handed, began + front, computed, prefilled, done]
    return _made(_TOLD, answered, times, preempted)


def _durations(
    traces: list[Trace], numbers: npt.NDArray[np.uint64]
) -> tuple[list[Doubles], npt.NDArray[np.int32]] | None:
    """How long each part in `_ENGINE` took for each number, nan if not reported, and how often it
    was preempted; None if no replica reports on requests."""
    import numpy as np

    traces = [trace for trace in traces if tuple(trace.parts) == _ENGINE and trace.tags]
    if not traces or not len(numbers):
        return None
    parts = [np.full(len(numbers), np.nan) for _ in _ENGINE]
    preempted = np.zeros(len(numbers), np.int32)
    for trace in traces:
        tags = np.frombuffer(trace.tags, np.uint64)
        order = np.argsort(tags, kind="stable")
        places = np.minimum(np.searchsorted(tags, numbers, sorter=order), len(tags) - 1)
        rows = order[places]
        ours = tags[rows] == numbers
        came = _received(trace, tags)
        ends = [came, *(np.frombuffer(column, np.float64) for column in trace.times)]
        for part, before, after in zip(parts, ends, ends[1:], strict=False):
            part[ours] = np.maximum(after - before, 0.0)[rows][ours]
        preempted[ours] = np.frombuffer(trace.preempted, np.int32)[rows][ours]
    return parts, preempted


def _received(trace: Trace, tags: npt.NDArray[np.uint64]) -> Doubles:
    """When the replica received each of its requests, nan if it does not report it."""
    import numpy as np

    numbers = np.frombuffer(trace.numbers, np.uint64)
    times = np.frombuffer(trace.received, np.float64)
    if not len(numbers):
        return np.full(len(tags), np.nan)
    # Numbers increase, so they are in order except for what two threads sent at once.
    order = np.argsort(numbers, kind="stable")
    places = np.minimum(np.searchsorted(numbers, tags, sorter=order), len(numbers) - 1)
    rows = order[places]
    found: Doubles = np.where(numbers[rows] == tags, times[rows], np.nan)
    return found


def _made(
    parts: tuple[str, ...],
    answered: Answered,
    times: list[Doubles],
    preempted: npt.NDArray[np.int32] | None,
) -> Marks:
    import numpy as np

    marks = Marks(*parts)
    marks.tags = answered.tags
    for column, found in zip(marks.times_s, times, strict=True):
        column.frombytes(np.ascontiguousarray(found, np.float64).tobytes())
    count = np.zeros(len(answered.tags), np.int32) if preempted is None else preempted
    marks.preempted.frombytes(count.tobytes())
    return marks
