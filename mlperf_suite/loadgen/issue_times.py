"""Finds when LoadGen started to count each request's latency.

LoadGen does not log it for single queries. In Server it counts from the query's scheduled time,
which the seed and the rate determine, in Offline from the start of the run, and in SingleStream
from just before it calls the SUT (loadgen/issue_query_controller.cc and loadgen.cc of LoadGen 6.0).
Only the start of the run on this process's clock is missing: one number, which follows from the
latencies that LoadGen reports for the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlperf_suite.benchmarks.percentile import percentile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

_EARLY_S = 1e-3
"""How much earlier than scheduled a query may seem to arrive, because the clocks are read at
different places; in fact none is early."""
_APART_S = 5e-4
"""How far the start times derived from LoadGen's figures may differ if the schedule is right."""
_LEAST, _MEAN, _MOST = (f"result_{name}_latency_ns" for name in ("min", "mean", "max"))
_PERCENTILES = {
    f"result_{100 * share:.2f}_percentile_latency_ns": share
    for share in (0.5, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999)
}
REPORTED = (_LEAST, _MEAN, _MOST, *_PERCENTILES)
"""The keys of a run's latencies in the detail log."""


def as_reported(latencies: Doubles) -> dict[str, float]:
    """What LoadGen's detail log would report for these latencies (at least one), by the keys of
    `REPORTED`: minimum, mean, maximum and percentiles, in the unit of the latencies."""
    import numpy as np

    ordered = np.sort(latencies)
    ends = {_LEAST: float(ordered[0]), _MEAN: float(ordered.mean()), _MOST: float(ordered[-1])}
    return ends | {key: percentile(ordered, share) for key, share in _PERCENTILES.items()}


def issued_by_loadgen(
    received_s: Doubles,
    told_s: Doubles,
    said_s: Mapping[str, float],
    schedule_s: Doubles | None,
) -> Doubles | None:
    """When LoadGen started to count each request's latency, in s of time.monotonic.

    One row per request, in the order of issue. `received_s`: when the SUT received the query;
    `told_s`: when it reported the answer. `said_s`: LoadGen's own latencies of the whole run, by
    the keys of `REPORTED`. `schedule_s`: the scheduled times since the start of the run; None if
    LoadGen counts from its call of the SUT, which is then assumed to take equally long each time.

    Each of LoadGen's figures gives the start of the run, apart from delays between two clock
    readings. The result uses their median, which a few requests do not move.

    None if answers are missing, if a query would have arrived before its scheduled time, or if the
    schedule runs ahead of LoadGen's, so that the SUT's own times fit the figures better.
    """
    import numpy as np

    if not len(told_s) or not said_s or not np.isfinite(told_s).all():
        return None
    since = received_s if schedule_s is None else schedule_s
    starts = _starts(told_s - since, said_s)
    # Clock noise widens both; only the right schedule accounts for queries that were issued late.
    if _spread(starts) > 2 * _spread(_starts(told_s - received_s, said_s)) + _APART_S:
        return None
    issued: Doubles = since + float(np.median(starts))
    return issued if (received_s - issued).min() >= -_EARLY_S else None


def _starts(lasted_s: Doubles, said_s: Mapping[str, float]) -> Doubles:
    """How far each figure of these times exceeds LoadGen's."""
    import numpy as np

    of_these = as_reported(lasted_s)
    return np.asarray([of_these[key] - seconds for key, seconds in said_s.items()])


def _spread(values: Doubles) -> float:
    """The mean absolute deviation from the median."""
    import numpy as np

    return float(np.abs(values - np.median(values)).mean())
