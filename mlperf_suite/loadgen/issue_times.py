"""When LoadGen began to count each request's latency.

LoadGen does not say it of a single query. In Server it counts from the query's place in a schedule
that the seed and the rate determine, in Offline from the start of the run, in SingleStream from the
moment before it calls the SUT (loadgen/issue_query_controller.cc and loadgen.cc of LoadGen 6.0). So
all that is missing is the start of the run on this process's clock, one number, which the latencies
that LoadGen reports of the whole run determine.
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
"""How much sooner than scheduled a query may seem to come: the clocks are read at different places,
and no query comes sooner."""
_LEAST, _MEAN, _MOST = (f"result_{name}_latency_ns" for name in ("min", "mean", "max"))
_PERCENTILES = {
    f"result_{100 * share:.2f}_percentile_latency_ns": share
    for share in (0.5, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999)
}
REPORTED = (_LEAST, _MEAN, _MOST, *_PERCENTILES)
"""The detail log's keys of a run's latencies."""


def as_reported(latencies: Doubles) -> dict[str, float]:
    """What LoadGen's detail log would say of these latencies, at least one, under each key of
    `REPORTED`: the least, the mean, the most and the percentiles, in the latencies' own unit."""
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
    """When LoadGen began to count each request's latency, in s of time.monotonic.

    A row for each request, in the order of issue: when the SUT was `received_s` the query and
    LoadGen was `told_s` of the answer. `said_s`: LoadGen's own latencies of the whole run, by the
    keys of `REPORTED`. `schedule_s`: when each was scheduled, since the start of the run; None
    where LoadGen counts from its call of the SUT, which then took every request as long.

    Each figure of LoadGen's gives the start of the run, but for what came between two reads of a
    clock: the median of them is taken, which a few requests do not move.

    None where this cannot be: a query would have come before its time, or answers are missing.
    """
    import numpy as np

    if not len(told_s) or not said_s or not np.isfinite(told_s).all():
        return None
    since = received_s if schedule_s is None else schedule_s
    of_these = as_reported(told_s - since)
    starts = [of_these[key] - seconds for key, seconds in said_s.items()]
    issued: Doubles = since + float(np.median(starts))
    return issued if (received_s - issued).min() >= -_EARLY_S else None
