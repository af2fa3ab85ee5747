"""The energy figures of a run and the cost of its tokens for summary.json, and its power curve for
energy.json.

They begin with the joules that a counter's readings add up to.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlperf_suite import strict_json
from mlperf_suite.energy import (
    INTERVAL_S,
    SIMULATED_LABEL,
    Counter,
    Meters,
    Recording,
    Series,
    UnmeasuredError,
)
from mlperf_suite.features.energy.options import Price

ENERGY, COST = "run.energy", "run.cost"
"""The names of the figures in summary.json."""
ENERGY_JSON = "energy.json"
SCHEMA_VERSION = 1
PEAK_S = 1.0
"""The peak is the highest mean over this long: between two readings it would be noise."""
SETTLED_S = 1.0
"""An engine that was just loaded draws more power at first; idle power is measured after this."""
_BEYOND = 1e15
"""No time in ms and no power in W of a run is as large."""
_LITTLE_WORK = 0.25
"""Of a GPU's power between idle and its limit: an H200 that decoded a model of 135M parameters in
batches of 900 took 15%, kernels in 17% of the time; with 8B parameters it took 89 to 98%."""
_MAX_POINTS = 400
_MIN_STEP_S = 2 * INTERVAL_S
_J_PER_KWH = 3.6e6
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class KindFigures:
    """The energy of one kind of device over the measured span of a run, or `why` it is not known.

    `label` is shown with the figures. `devices`: the names of the devices in the sum. `peak_watts`:
    the highest mean over a second, of all devices together. `idle_watts`: with the engine loaded
    and idle, None if not known; `above_idle_joules` excludes it. `limit_watts`: the most that the
    drivers let all devices together draw. `notes`: one sentence each.
    """

    kind: str
    label: str = ""
    why: str = ""
    devices: tuple[str, ...] = ()
    joules: float | None = None
    mean_watts: float | None = None
    peak_watts: float | None = None
    idle_watts: float | None = None
    above_idle_joules: float | None = None
    joules_per_token: float | None = None
    tokens_per_joule: float | None = None
    above_idle_joules_per_token: float | None = None
    notes: tuple[str, ...] = ()
    limit_watts: float | None = None

    @property
    def mostly_idle(self) -> bool:
        """Whether the devices drew less than a quarter of what they can beyond their idle power."""
        mean, idle, limit = self.mean_watts, self.idle_watts, self.limit_watts
        if mean is None or idle is None or limit is None or limit <= idle:
            return False
        return (mean - idle) / (limit - idle) < _LITTLE_WORK


@dataclass(frozen=True, slots=True)
class EnergyFigures:
    """The energy of a performance run. `span_s`: the measured span, from the first request's issue
    to the last answer. `tokens`: the output tokens in it. `simulated`: whether the counters are
    simulated. `reader_busy_share`: the reading thread's CPU time, as a share of one core."""

    span_s: float | None = None
    tokens: int | None = None
    simulated: bool = False
    kinds: tuple[KindFigures, ...] = ()
    reader_busy_share: float | None = None

    @property
    def measured(self) -> tuple[KindFigures, ...]:
        """The kinds whose energy is known."""
        return tuple(kind for kind in self.kinds if kind.joules is not None)

    @property
    def costs(self) -> dict[str, float]:
        rows = ((f"{kind.kind} energy, J/token", kind.joules_per_token) for kind in self.measured)
        return {name: joules for name, joules in rows if joules}


@dataclass(frozen=True, slots=True)
class Curve:
    """Power over a run. `ms`: the edges of the steps, one more than there are steps, in ms since
    the first request was issued; `watts`: by label, the mean of each step. `simulated`: also where
    a file does not say it."""

    ms: tuple[float, ...] = ()
    watts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    simulated: bool = True


def not_measured(why: str, kind: str = "energy") -> EnergyFigures:
    """The figures of a run that no meter could measure."""
    return EnergyFigures(kinds=(KindFigures(kind, why=why),))


def idle_watts(recording: Recording) -> dict[str, float]:
    """The watts of all counters of each label together, after they have settled.

    A label is missing if one of its counters gives nothing.
    """
    idle: dict[str, float] = {}
    for label in dict.fromkeys(series.counter.label for series in recording.series):
        rows = [row for row in recording.series if row.counter.label == label]
        try:
            traces = [_settled_trace(row) for row in rows]
        except UnmeasuredError:
            continue
        end = min(trace.times_s[-1] for trace in traces)
        begin = max(trace.times_s[0] for trace in traces) + SETTLED_S
        first, last = joules_by(traces, [begin, end])
        idle[label] = (last - first) / (end - begin)
    return {label: watts for label, watts in idle.items() if watts > 0}


def _settled_trace(series: Series) -> JouleTrace:
    times = series.times_s
    if len(times) < 2 or times[-1] - times[0] <= SETTLED_S:
        raise UnmeasuredError("it was read for too short a time")
    return trace_of(series, times[0] + SETTLED_S, times[-1])


def energy_figures(
    meters: Meters,
    recording: Recording,
    span_s: tuple[float, float],
    tokens: int,
    idle: dict[str, float],
) -> tuple[EnergyFigures, Curve]:
    """The energy from the first request to the last answer, `span_s` of time.monotonic, and its
    curve. `idle`: watts by label."""
    begin, end = span_s
    kinds = [KindFigures(absent.kind, absent.label, absent.why) for absent in meters.absent]
    steps = max(1, min(_MAX_POINTS, math.floor((end - begin) / _MIN_STEP_S)))
    edges = [begin + (end - begin) * i / steps for i in range(steps + 1)]
    curve: dict[str, tuple[float, ...]] = {}
    for label in dict.fromkeys(counter.label for counter in meters.counters):
        rows = [series for series in recording.series if series.counter.label == label]
        counters = [series.counter for series in rows]
        kind = KindFigures(
            counters[0].kind,
            label,
            devices=tuple(counter.name for counter in counters),
            notes=tuple(filter(None, (meters.note, *(counter.note for counter in counters)))),
            limit_watts=_limit(counters),
        )
        traces, failures = _traces(rows, begin, end, recording.hangs)
        if failures:
            more = f" and {len(failures) - 2:,} more" if len(failures) > 2 else ""
            kinds.append(replace(kind, why="; ".join(failures[:2]) + more))
            continue
        kinds.append(_figures(kind, traces, begin, end, tokens, idle.get(label)))
        of_curve = f"{label.partition(' ')[0]}, {SIMULATED_LABEL}" if meters.simulated else label
        joules, step = joules_by(traces, edges), edges[1] - edges[0]
        curve[of_curve] = tuple(round((b - a) / step, 2) for a, b in itertools.pairwise(joules))
    if meters.simulated:
        kinds = [replace(kind, label=SIMULATED_LABEL) for kind in kinds]
    figures = EnergyFigures(
        round(end - begin, 3),
        tokens,
        meters.simulated,
        tuple(kinds),
        round(recording.busy_s / (end - begin), 6),
    )
    ms = tuple(round((at - begin) * 1000, 1) for at in edges)
    return figures, Curve(ms, curve, meters.simulated)


def _limit(counters: Sequence[Counter]) -> float | None:
    limits = [counter.limit_watts for counter in counters if counter.limit_watts is not None]
    return sum(limits) if limits and len(limits) == len(counters) else None


def _traces(
    rows: Sequence[Series], begin: float, end: float, hangs: bool
) -> tuple[list[JouleTrace], list[str]]:
    """Each counter's trace, and why there is none of some."""
    traces, failures = [], []
    for series in rows:
        try:
            traces.append(trace_of(series, begin, end))
        except UnmeasuredError as why:
            silent = "; a meter does not answer" if hangs else ""
            failures.append(f"{series.counter.name}: {why}{silent}")
    return traces, failures


def _figures(
    kind: KindFigures,
    traces: Sequence[JouleTrace],
    begin: float,
    end: float,
    tokens: int,
    idle: float | None,
) -> KindFigures:
    first, last = joules_by(traces, [begin, end])
    joules, length = last - first, end - begin
    # Rounded, since the remainder of a device that drew no more than idle is noise.
    above = None if idle is None else round(max(joules - idle * length, 0.0), 3)
    per_token, above_per_token = (
        None if value is None or not tokens else six_digits(value / tokens)
        for value in (joules, above)
    )
    return replace(
        kind,
        joules=round(joules, 3),
        mean_watts=round(joules / length, 3),
        peak_watts=round(_peak(traces, begin, end), 3),
        idle_watts=None if idle is None else round(idle, 3),
        above_idle_joules=above,
        joules_per_token=per_token,
        tokens_per_joule=six_digits(tokens / joules),
        above_idle_joules_per_token=above_per_token,
    )


def six_digits(value: float) -> float:
    """A figure in six significant digits: a token may take 0.0001 J or 100."""
    return float(f"{value:.6g}")


def _peak(traces: Sequence[JouleTrace], begin: float, end: float) -> float:
    width = min(PEAK_S, end - begin)
    count = max(math.ceil((end - begin - width) / INTERVAL_S), 0)
    starts = [begin + i * (end - begin - width) / max(count, 1) for i in range(count + 1)]
    before, after = joules_by(traces, starts), joules_by(traces, [at + width for at in starts])
    return max(b - a for a, b in zip(before, after, strict=True)) / width


def write_curve(folder: Path, curve: Curve) -> None:
    """Write energy.json into a run's folder of logs; its times start with timeline.json's."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "simulated": curve.simulated,
        "ms": curve.ms,
        "watts": curve.watts,
    }
    (folder / ENERGY_JSON).write_text(json.dumps(content, separators=(",", ":")) + "\n")


def read_curve(folder: Path) -> Curve | None:
    """The curve of a folder of logs; None if there is none, or it cannot be read."""
    try:
        curve = strict_json.typed(strict_json.load(folder / ENERGY_JSON), Curve)
    except (OSError, ValueError):
        return None
    ms, watts = curve.ms, curve.watts
    whole = len(ms) > 1 and all(len(column) + 1 == len(ms) for column in watts.values())
    real = all(abs(v) < _BEYOND for column in (ms, *watts.values()) for v in column)
    rising = all(a < b for a, b in itertools.pairwise(ms))
    return curve if watts and whole and real and rising else None


# Cost


@dataclass(frozen=True, slots=True)
class CostFigures:
    """The cost of a million output tokens, in `currency`. `energy`: for the energy of the devices
    `energy_of` only, None if no energy was measured or no price given; `machine`: for the time that
    the tokens take, None if no price was given. `per_kwh` and `per_hour`: the prices."""

    currency: str = ""
    energy: float | None = None
    energy_of: tuple[str, ...] = ()
    machine: float | None = None
    per_kwh: float | None = None
    per_hour: float | None = None


def cost_figures(
    per_kwh: Price | None,
    per_hour: Price | None,
    energy: EnergyFigures | None,
    tokens_per_s: float | None,
) -> CostFigures | None:
    """The cost of a million tokens; None if no price was given.

    Both prices must have the same currency.
    """
    price = per_kwh or per_hour
    if price is None:
        return None
    kinds = energy.measured if energy else ()
    joules = [kind.joules_per_token for kind in kinds if kind.joules_per_token is not None]
    of_energy = of_machine = None
    if per_kwh is not None and joules:
        of_energy = six_digits(per_kwh.amount * sum(joules) * _MILLION / _J_PER_KWH)
    if per_hour is not None and tokens_per_s:
        of_machine = six_digits(per_hour.amount / (tokens_per_s * 3600) * _MILLION)
    return CostFigures(
        price.currency,
        of_energy,
        tuple(kind.kind for kind in kinds) if of_energy is not None else (),
        of_machine,
        per_kwh.amount if per_kwh else None,
        per_hour.amount if per_hour else None,
    )


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
        raise UnmeasuredError("it gave something other than a number")
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
