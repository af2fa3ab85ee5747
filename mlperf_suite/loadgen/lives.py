"""The life of each request: what it waited for, from LoadGen's issue to its answer.

A row joins what the SUT recorded of a request (`sut.Requests`) and what the engine reports of it
(`Marks`). The parts of a row follow one another without a gap, so their sum is LoadGen's latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from mlperf_suite.engines.protocol import FIRST_TOKEN, LATER_TOKENS, Marks
from mlperf_suite.loadgen.issue_times import REPORTED, issued_by_loadgen
from mlperf_suite.loadgen.load_plan import LoadPlan
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.schedule import server_schedule

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
class Lives:
    """One row per answered request, in the order of issue; times in s of time.monotonic.

    `from_loadgen`: whether `issued_s` is the instant from which LoadGen counts, rather than its
    call of the SUT. `first_s`: when LoadGen was told the first token; None if the run does not
    stream. `parts_s`: how long each part took, by name and in order.
    """

    from_loadgen: bool
    samples: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.int32]
    preempted: npt.NDArray[np.int32]
    issued_s: Doubles
    first_s: Doubles | None
    told_s: Doubles
    parts_s: dict[str, Doubles]


def issued_s(requests: Requests, plan: LoadPlan, detail: DetailLog) -> Doubles | None:
    """When LoadGen started to count each request's latency; None if its log does not say."""
    import numpy as np

    said_s = reported_s(detail)
    if not said_s:
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
        np.asarray(requests.received), np.asarray(requests.told), said_s, schedule
    )


def reported_s(detail: DetailLog) -> dict[str, float]:
    """The latencies of a whole run, in s, by key; the log of an accuracy run has none."""
    found = {key: detail.number(key) for key in REPORTED}
    return {key: ns / 1e9 for key, ns in found.items() if ns is not None}


def lives_of(requests: Requests, marks: Marks | None, issued: Doubles | None) -> Lives | None:
    """The lives of all answered requests; None if there are none.

    `issued`: when LoadGen issued each request, None if not known.
    """
    import numpy as np

    told = np.asarray(requests.told)
    answered = np.flatnonzero(np.isfinite(told))
    if not len(answered):
        return None
    begun = np.asarray(requests.received if issued is None else issued)[answered]
    first = np.asarray(requests.first)[answered]
    streamed = bool(np.isfinite(first).all())
    told = told[answered]
    preempted = np.zeros(len(answered), np.int32)
    names, ends = [ISSUE], [np.asarray(requests.handed)[answered]]
    if marks is not None and len(marks.tags):
        found, rows = _rows_of(marks, np.asarray(requests.tags)[answered])
        names += [*marks.parts, RETURN]
        for column in marks.times_s:
            ends.append(np.where(found, np.asarray(column)[rows], np.nan))
        preempted = np.where(found, np.asarray(marks.preempted)[rows], 0).astype(np.int32)
    elif streamed:
        names += [FIRST_TOKEN, LATER_TOKENS]
        ends.append(first)
    else:
        names.append(ENGINE)
    return Lives(
        issued is not None,
        np.asarray(requests.samples)[answered],
        np.asarray(requests.tokens)[answered],
        preempted,
        begun,
        first if streamed else None,
        told,
        dict(zip(names, _lengths([begun, *ends, told]), strict=True)),
    )


def _rows_of(
    marks: Marks, tags: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """Whether each request has marks, and the rows of its marks."""
    import numpy as np

    known = np.asarray(marks.tags)
    order = np.argsort(known, kind="stable")
    places = np.minimum(np.searchsorted(known, tags, sorter=order), len(known) - 1)
    rows = order[places]
    return known[rows] == tags, rows


def _lengths(edges: Sequence[Doubles]) -> list[Doubles]:
    """The lengths between the first edge and the last, cut at the edges in between.

    An unknown edge leaves its part empty, and an edge outside its neighbours moves to the nearer
    one. The lengths are never negative, and their sum is the whole length.
    """
    import numpy as np

    found, last = [edges[0]], edges[-1]
    for edge in edges[1:-1]:
        known = np.where(np.isfinite(edge), edge, found[-1])
        found.append(np.clip(known, found[-1], np.maximum(last, found[-1])))
    found.append(np.maximum(last, found[-1]))
    return [after - before for before, after in pairwise(found)]
