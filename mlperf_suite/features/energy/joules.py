"""The joules that a counter's readings add up to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.energy import Series, UnmeasuredError

RENEWED_S = 0.25
"""A counter is updated at least a few times a second, each time with all energy drawn since."""
STILL_S = 5.0
"""A counter that does not change for this long stands still: every device draws some power."""
GAP_S = 5.0
"""Across a longer gap between readings, the power draw is not known."""


@dataclass(frozen=True, slots=True)
class JouleTrace:
    """The joules of a device since its first reading, over time.

    `times_s` are of time.monotonic and increase; power is assumed constant between them.
    """

    times_s: tuple[float, ...]
    joules: tuple[float, ...]


def trace_of(series: Series, begin_s: float, end_s: float) -> JouleTrace:
    """The trace of a counter over a span of time.monotonic. Raises UnmeasuredError.

    The readings must start before the span and end after it; within the span the counter must
    neither be reset nor stand still.
    """
    times, values = list(series.times_s), list(series.values)
    if not times or times[0] > begin_s or times[-1] < end_s:
        raise UnmeasuredError(_short(series, begin_s, end_s))
    if any(not math.isfinite(value) for value in values):
        raise UnmeasuredError("it gave what is no number")
    if series.counter.gives == "power":
        return _summed(times, values, begin_s, end_s)
    trace = _changes(times, _unwrapped(series), begin_s, end_s)
    if joules_by([trace], [end_s])[0] <= joules_by([trace], [begin_s])[0]:
        raise UnmeasuredError(
            f"the run, of {end_s - begin_s:.2f} s, is shorter than the counter's step"
        )
    return trace


def _short(series: Series, begin_s: float, end_s: float) -> str:
    why = f": {series.failure}" if series.failure else ""
    if not series.times_s:
        return f"it was never read{why}"
    last = series.times_s[-1] - begin_s
    if series.times_s[0] > begin_s or last < 0:
        return f"it was not read while the run went{why}"
    return f"no reading after {last:.1f} s of {end_s - begin_s:.1f} s{why}"


def _summed(
    times: Sequence[float], watts: Sequence[float], begin_s: float, end_s: float
) -> JouleTrace:
    """Integrate a power draw by the trapezoidal rule. Every device draws some power: a meter that
    gives 0 W for a whole run measured nothing."""
    if any(value < 0 for value in watts):
        raise UnmeasuredError("it gave a power below 0")
    joules = [0.0]
    for i in range(1, len(times)):
        step_s = times[i] - times[i - 1]
        if step_s > GAP_S and times[i] > begin_s and times[i - 1] < end_s:
            raise UnmeasuredError(f"its power draw was not read for {step_s:.1f} s")
        joules.append(joules[-1] + (watts[i] + watts[i - 1]) / 2 * step_s)
    trace = JouleTrace(tuple(times), tuple(joules))
    first, last = joules_by([trace], [begin_s, end_s])
    if last <= first:
        raise UnmeasuredError("its power draw was 0 for the whole run")
    return trace


def _unwrapped(series: Series) -> list[float]:
    """The joules since the first reading, across wrap-arounds.

    A counter that goes back has wrapped around if it then counted no more than the device can have
    drawn; otherwise it was reset.
    """
    times, values, counter = series.times_s, series.values, series.counter
    range_j, most_watts = counter.range_j, counter.most_watts
    joules = [0.0]
    for i in range(1, len(values)):
        step, step_s = values[i] - values[i - 1], times[i] - times[i - 1]
        if range_j is not None and step_s * most_watts >= range_j:
            raise UnmeasuredError(
                f"it was not read for {step_s:.1f} s, in which it may have begun again"
            )
        if step < 0:
            if range_j is None or step + range_j > most_watts * (step_s + RENEWED_S):
                raise UnmeasuredError(
                    f"it was reset: {values[i - 1]:,.1f} J, then {values[i]:,.1f}"
                )
            step += range_j
        joules.append(joules[-1] + step)
    return joules


def _changes(
    times: Sequence[float], joules: Sequence[float], begin_s: float, end_s: float
) -> JouleTrace:
    """The trace through the readings at which the counter changed.

    A counter that is read more often than updated would otherwise seem to draw nothing, then a lot.
    """
    changes = [0, *(i for i in range(1, len(times)) if joules[i] != joules[i - 1])]
    if len(changes) == 1:
        raise UnmeasuredError("the counter stood still for the whole run")
    for i, after in zip(changes, [*changes[1:], len(times)], strict=True):
        still_s = min(times[after - 1], end_s) - max(times[i], begin_s)
        if still_s >= STILL_S:
            raise UnmeasuredError(
                f"the counter stood still for {still_s:.1f} s of {end_s - begin_s:.1f} s"
            )
    if changes[-1] != len(times) - 1:
        changes.append(len(times) - 1)
    return JouleTrace(tuple(times[i] for i in changes), tuple(joules[i] for i in changes))


def joules_by(traces: Sequence[JouleTrace], at_s: Sequence[float]) -> list[float]:
    """The sum of all traces' joules at each of these times."""
    import numpy as np

    total = np.zeros(len(at_s))
    for trace in traces:
        total += np.interp(at_s, trace.times_s, trace.joules)
    return [float(value) for value in total]
