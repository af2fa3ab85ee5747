"""When LoadGen began to count each request's latency.

LoadGen does not say it of a single query. In Server it counts from the query's place in a schedule
that the seed and the rate determine, in Offline from the start of the run, in SingleStream from the
moment before it calls the SUT (loadgen/issue_query_controller.cc and loadgen.cc of LoadGen 6.0). So
all that is missing is the start of the run on this process's clock, one number, and LoadGen's own
mean of all latencies determines it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

_EARLY_S = 1e-3
"""How much sooner than scheduled a query may seem to come: the clocks are read at different places,
and no query comes sooner."""


def issued_by_loadgen(
    received_s: Doubles, told_s: Doubles, mean_latency_s: float, schedule_s: Doubles | None
) -> Doubles | None:
    """When LoadGen began to count each request's latency, in s of time.monotonic.

    A row for each request, in the order of issue: when the SUT was `received_s` the query and
    LoadGen was `told_s` of the answer. `mean_latency_s`: LoadGen's own. `schedule_s`: when each was
    scheduled, since the start of the run; None where LoadGen counts from its call of the SUT, which
    then took every request as long. None where this cannot be: a query would have come before its
    time, or answers are missing.
    """
    import numpy as np

    if not len(told_s) or not np.isfinite(told_s).all():
        return None
    since = received_s if schedule_s is None else schedule_s
    issued: Doubles = since + (np.mean(told_s - since) - mean_latency_s)
    return issued if (received_s - issued).min() >= -_EARLY_S else None
