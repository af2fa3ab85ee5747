"""What each request waited for, from LoadGen's issue to its answer.

A row joins what the SUT recorded of a request (`sut.Requests`) and what the engine reports of it
(`RequestTimestamps`). The parts of a row follow one another without a gap, so their sum is
LoadGen's latency.

When LoadGen started to count a latency is not in its log for single queries. In Server it counts
from the query's scheduled time, which the seed and the rate determine, in Offline from the start of
the run, and in SingleStream from just before it calls the SUT (issue_query_controller.cc and
loadgen.cc of LoadGen 6.0). Only the start of the run on this process's clock is missing: one
number, which follows from the latencies that LoadGen reports for the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from mlperf_suite.benchmarks.request_times import percentile
from mlperf_suite.engines.protocol import FIRST_TOKEN, LATER_TOKENS, RequestTimestamps
from mlperf_suite.loadgen.arrivals import server_schedule
from mlperf_suite.loadgen.load_plan import LoadPlan
from mlperf_suite.loadgen.logs import DetailLog

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from mlperf_suite.loadgen.sut import Requests

    Doubles = npt.NDArray[np.float64]

ISSUE, ENGINE, RETURN = "issue", "engine", "return"
"""The parts that the suite measures itself. `ISSUE`: from LoadGen's issue until the SUT hands the
request to the engine. `ENGINE`: the time in an engine that reports nothing. `RETURN`: from the
engine's last token until the SUT reports the answer to LoadGen."""


@dataclass(frozen=True, slots=True)
class RequestParts:
    """One row per answered request, in the order of issue; times in s of time.monotonic.

    `from_loadgen`: whether `issued_s` is the instant from which LoadGen counts, rather than its
    call of the SUT. `first_s`: when LoadGen got the first token; None if the run does not
    stream. `parts_s`: how long each part took, by name and in order.
    """

    from_loadgen: bool
    samples: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.int32]
    preempted: npt.NDArray[np.int32]
    issued_s: Doubles
    first_s: Doubles | None
    answer_s: Doubles
    parts_s: dict[str, Doubles]


def issued_s(requests: Requests, plan: LoadPlan, detail: DetailLog) -> Doubles | None:
    """When LoadGen started to count each request's latency; None if its log does not say."""
    import numpy as np

    logged_s = reported_s(detail)
    if not logged_s:
        return None
    scenario, count = plan.scenario.loadgen_scenario, len(requests)
    schedule: Doubles | None = None
    if scenario == "Offline":
        schedule = np.zeros(count)
    elif scenario == "Server":
        seed = detail.number("effective_schedule_rng_seed")
        rate = plan.user_conf.get("target_qps")
        if seed is None or not rate:
            return None
        schedule = server_schedule(int(seed), float(rate), count)
    return issued_by_loadgen(
        np.asarray(requests.receipt_s), np.asarray(requests.answer_s), logged_s, schedule
    )


def reported_s(detail: DetailLog) -> dict[str, float]:
    """The latencies of a whole run, in s, by key; the log of an accuracy run has none."""
    latencies_ns = {key: detail.number(key) for key in REPORTED}
    return {key: ns / 1e9 for key, ns in latencies_ns.items() if ns is not None}


def parts_of_requests(
    requests: Requests, timestamps: RequestTimestamps | None, issue_s: Doubles | None
) -> RequestParts | None:
    """The parts of all answered requests; None if there are none.

    `issue_s`: when LoadGen issued each request, None if not known.
    """
    import numpy as np

    answered_s = np.asarray(requests.answer_s)
    places = np.flatnonzero(np.isfinite(answered_s))
    if not len(places):
        return None
    begun = np.asarray(requests.receipt_s if issue_s is None else issue_s)[places]
    first = np.asarray(requests.first_token_s)[places]
    streamed = bool(np.isfinite(first).all())
    answered_s = answered_s[places]
    preempted = np.zeros(len(places), np.int32)
    names, ends = [ISSUE], [np.asarray(requests.handover_s)[places]]
    if timestamps is not None and len(timestamps.tags):
        has_timestamps, rows = _rows_of(timestamps, np.asarray(requests.tags)[places])
        names += [*timestamps.parts, RETURN]
        for column in timestamps.times_s:
            ends.append(np.where(has_timestamps, np.asarray(column)[rows], np.nan))
        preempted = np.where(has_timestamps, np.asarray(timestamps.preempted)[rows], 0).astype(
            np.int32
        )
    elif streamed:
        names += [FIRST_TOKEN, LATER_TOKENS]
        ends.append(first)
    else:
        names.append(ENGINE)
    return RequestParts(
        issue_s is not None,
        np.asarray(requests.samples)[places],
        np.asarray(requests.tokens)[places],
        preempted,
        begun,
        first if streamed else None,
        answered_s,
        dict(zip(names, _lengths([begun, *ends, answered_s]), strict=True)),
    )


def _rows_of(
    timestamps: RequestTimestamps, tags: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """Whether each request has timestamps, and the rows of its timestamps."""
    import numpy as np

    tags_known = np.asarray(timestamps.tags)
    order = np.argsort(tags_known, kind="stable")
    places = np.minimum(np.searchsorted(tags_known, tags, sorter=order), len(tags_known) - 1)
    rows = order[places]
    return tags_known[rows] == tags, rows


def _lengths(edges: Sequence[Doubles]) -> list[Doubles]:
    """The lengths between the first edge and the last, cut at the edges in between.

    An unknown edge leaves its part empty, and an edge outside its neighbours moves to the nearer
    one. The lengths are never negative, and their sum is the whole length.
    """
    import numpy as np

    bounds, last = [edges[0]], edges[-1]
    for edge in edges[1:-1]:
        bound = np.where(np.isfinite(edge), edge, bounds[-1])
        bounds.append(np.clip(bound, bounds[-1], np.maximum(last, bounds[-1])))
    bounds.append(np.maximum(last, bounds[-1]))
    return [after - before for before, after in pairwise(bounds)]


# When LoadGen started to count

_EARLY_S = 1e-3
"""How much earlier than scheduled a query may seem to arrive, because the clocks are read at
different places; in fact none is early."""
_APART_S = 5e-4
"""How far the start times derived from LoadGen's figures may differ if the schedule is right."""
_MIN_LATENCY, _MEAN_LATENCY, _MAX_LATENCY = (
    f"result_{name}_latency_ns" for name in ("min", "mean", "max")
)
_PERCENTILES = {
    f"result_{100 * share:.2f}_percentile_latency_ns": share
    for share in (0.5, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999)
}
REPORTED = (_MIN_LATENCY, _MEAN_LATENCY, _MAX_LATENCY, *_PERCENTILES)
"""The keys of a run's latencies in the detail log."""


def as_reported(latencies: Doubles) -> dict[str, float]:
    """What LoadGen's detail log would report for these latencies (at least one), by the keys of
    `REPORTED`: minimum, mean, maximum and percentiles, in the unit of the latencies."""
    import numpy as np

    in_order = np.sort(latencies)
    ends = {
        _MIN_LATENCY: float(in_order[0]),
        _MEAN_LATENCY: float(in_order.mean()),
        _MAX_LATENCY: float(in_order[-1]),
    }
    return ends | {key: percentile(in_order, share) for key, share in _PERCENTILES.items()}


def issued_by_loadgen(
    received_s: Doubles,
    answer_s: Doubles,
    logged_s: Mapping[str, float],
    schedule_s: Doubles | None,
) -> Doubles | None:
    """When LoadGen started to count each request's latency, in s of time.monotonic.

    One row per request, in the order of issue. `received_s`: when the SUT received the query;
    `answer_s`: when it reported the answer. `logged_s`: LoadGen's own latencies of the whole run,
    by the keys of `REPORTED`. `schedule_s`: the scheduled times since the start of the run; None if
    LoadGen counts from its call of the SUT, which is then assumed to take equally long each time.

    Each of LoadGen's figures gives the start of the run, apart from delays between two clock
    readings. The result uses their median, which a few requests do not move.

    None if answers are missing, if a query would have arrived before its scheduled time, or if the
    schedule runs ahead of LoadGen's, so that the SUT's own times fit the figures better.
    """
    import numpy as np

    if not len(answer_s) or not logged_s or not np.isfinite(answer_s).all():
        return None
    since = received_s if schedule_s is None else schedule_s
    starts = _starts(answer_s - since, logged_s)
    # Clock noise widens both; only the right schedule accounts for queries that were issued late.
    if _spread(starts) > 2 * _spread(_starts(answer_s - received_s, logged_s)) + _APART_S:
        return None
    issue_s: Doubles = since + float(np.median(starts))
    return issue_s if (received_s - issue_s).min() >= -_EARLY_S else None


def _starts(lasted_s: Doubles, logged_s: Mapping[str, float]) -> Doubles:
    """How far each figure of these times exceeds LoadGen's."""
    import numpy as np

    of_these = as_reported(lasted_s)
    return np.asarray([of_these[key] - seconds for key, seconds in logged_s.items()])


def _spread(values: Doubles) -> float:
    """The mean absolute deviation from the median."""
    import numpy as np

    return float(np.abs(values - np.median(values)).mean())
