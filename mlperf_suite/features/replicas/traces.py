"""Merges the traces of the replicas, in this process's times."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from mlperf_suite.engines.messages import TraceReply
from mlperf_suite.engines.protocol import (
    DECODE,
    FIRST_TOKEN,
    FRONT_END,
    LATER_TOKENS,
    NETWORK,
    PREFILL,
    QUEUE,
    EngineTrace,
    RequestTimestamps,
    Steps,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

HELD = "held for a replica"
"""The part of a request's time until a replica has room for it."""
_ENGINE = (FRONT_END, QUEUE, PREFILL, DECODE)
"""The parts that vLLM reports, in order."""
_ENGINE_PARTS = (HELD, NETWORK, QUEUE, PREFILL, DECODE)
_PARTS = (HELD, FIRST_TOKEN, LATER_TOKENS)


class AnswerTimes(RequestTimestamps):
    """The answers that came. `numbers`: of each request, as its replica knows it."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        super().__init__(*_PARTS)
        self.numbers: array[int] = array("Q")

    def add(self, number: int, tag: int, handed: float, first: float | None, last: float) -> None:
        """`handed`: when the request was sent to its replica; `first`: when its first token came,
        None if it was not streamed."""
        self.numbers.append(number)
        self.keep(tag, 0, handed, math.nan if first is None else first, last)


def merged(traces: Mapping[int, tuple[TraceReply, float]], answers: AnswerTimes) -> EngineTrace:
    """Merge the traces of all replicas.

    `traces`: by replica number, its trace and the seconds to add to its times to get this
    process's. A replica reports how long the parts of a request took, not when: another machine's
    clock differs. The rest of the request's time counts as the network's.
    """
    steps = _steps({n: reply for n, reply in traces.items() if reply[0].steps})
    return EngineTrace(steps, _marks([trace for trace, _ in traces.values()], answers))


def _steps(traces: Mapping[int, tuple[TraceReply, float]]) -> Steps:
    import numpy as np

    steps = Steps()
    if not traces:
        return steps
    columns: dict[str, list[npt.NDArray[np.generic]]] = {}
    for number, (trace, offset) in traces.items():
        count = 0
        for name in (field.name for field in fields(Steps)):
            kind = getattr(steps, name).typecode
            column: npt.NDArray[np.generic] = np.frombuffer(trace.steps.get(name, b""), kind)
            if name == "ended_s":
                count = len(column)
                column = np.asarray(column, np.float64) + offset
            elif name == "replica":
                column = np.full(count, number, np.int32)
            columns.setdefault(name, []).append(column)
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(whole["ended_s"], kind="stable")
    for name, column in whole.items():
        # A column that no replica has stays empty.
        if len(column) == len(order):
            getattr(steps, name).frombytes(np.ascontiguousarray(column[order]).tobytes())
    return steps


def _marks(traces: list[TraceReply], answers: AnswerTimes) -> RequestTimestamps:
    import numpy as np

    numbers = np.asarray(answers.numbers)
    preempted = np.zeros(len(numbers), np.int32)
    durations = _durations(traces, numbers, preempted)
    if durations is None:
        return answers
    handed, first, last = (np.asarray(column) for column in answers.times_s)
    front, queue, prefill, decode = durations
    streamed = np.isfinite(first)
    before_first = front + queue + prefill
    began = np.where(streamed, first - before_first, last - before_first - decode)
    began = np.fmax(handed, np.where(np.isfinite(began), began, handed))
    computed = np.minimum(began + front + queue, np.where(streamed, first, last))
    prefilled = np.where(streamed, first, np.minimum(computed + prefill, last))
    timestamps = RequestTimestamps(*_ENGINE_PARTS)
    timestamps.tags = answers.tags
    times = (handed, began + front, computed, prefilled, last)
    for column, ends in zip(timestamps.times_s, times, strict=True):
        column.frombytes(np.ascontiguousarray(ends, np.float64).tobytes())
    timestamps.preempted.frombytes(preempted.tobytes())
    return timestamps


def _durations(
    traces: list[TraceReply], numbers: npt.NDArray[np.uint64], preempted: npt.NDArray[np.int32]
) -> list[Doubles] | None:
    """How long each part in `_ENGINE` took for each number, nan if not reported; None if no replica
    reports on requests. Sets how often each was `preempted`."""
    import numpy as np

    traces = [trace for trace in traces if tuple(trace.parts) == _ENGINE and trace.tags]
    if not traces or not len(numbers):
        return None
    parts = [np.full(len(numbers), np.nan) for _ in _ENGINE]
    for trace in traces:
        tags = np.frombuffer(trace.tags, np.uint64)
        _, places, rows = np.intersect1d(numbers, tags, return_indices=True)
        ends = [_arrivals(trace, tags), *(np.frombuffer(column) for column in trace.times)]
        for part, before, after in zip(parts, ends, ends[1:], strict=False):
            part[places] = np.maximum(after - before, 0.0)[rows]
        preempted[places] = np.frombuffer(trace.preempted, np.int32)[rows]
    return parts


def _arrivals(trace: TraceReply, tags: npt.NDArray[np.uint64]) -> Doubles:
    """When the replica received each of its requests, nan if it does not report it."""
    import numpy as np

    arrivals = np.full(len(tags), np.nan)
    numbers, times = np.frombuffer(trace.numbers, np.uint64), np.frombuffer(trace.received)
    _, places, rows = np.intersect1d(tags, numbers, return_indices=True)
    arrivals[places] = times[rows]
    return arrivals


_DRIFT = 1e-4
"""More than two machines' clocks drift apart, in s a second: crystals differ by some 50 ppm."""


class ClockOffsets:
    """The offset of each replica's clock from this process's, in s."""

    def __init__(self, same_clock: Sequence[bool]) -> None:
        self._same_clock = same_clock
        self._best: list[tuple[float, float, float]] = [(math.inf, 0.0, 0.0)] * len(same_clock)
        """How long the answer took, when it came, and the offset by it."""

    def questions(self, replica: int) -> int:
        """How often to ask a replica for its clock: the quickest answer is the most exact."""
        return 0 if self._same_clock[replica] else 8

    def learn(self, replica: int, asked_s: float, remote: float, answered_s: float) -> None:
        """Take the time of a replica's clock that was asked for at `asked_s`."""
        duration = answered_s - asked_s
        best_s, at_s, _ = self._best[replica]
        # An offset is exact to half as long as the answer took, and to the drift since.
        exact_s = best_s + 2 * _DRIFT * (answered_s - at_s)
        if not self._same_clock[replica] and duration < exact_s:
            self._best[replica] = duration, answered_s, (asked_s + answered_s) / 2 - remote

    def of(self, replica: int) -> float:
        """The seconds to add to a replica's times."""
        return self._best[replica][2]
