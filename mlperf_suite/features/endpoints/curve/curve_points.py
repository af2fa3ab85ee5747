"""Which concurrencies a curve measures, how long they take, and their figures. Pure.

Sources: endpoints_rules.md of github.com/mlcommons/endpoints_policies, whose sections (§) are
named.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mlperf_suite.benchmarks.request_times import RequestTimes, percentile
from mlperf_suite.features.endpoints.curve.closed_loop import LoopTimes
from mlperf_suite.features.endpoints.curve.curve_figures import CurveBlock, CurvePoint
from mlperf_suite.features.endpoints.official_client_results.series import (
    MANDATORY,
    MIN_POINTS,
    ULTRA_LOW,
    Regions,
    min_duration_s,
)

GAIN = 1.05
"""A doubled concurrency that does not raise the throughput by this factor is past the knee."""
_PAST_THE_KNEE = 2
"""Doublings without a gain after which no higher concurrency can matter."""
MAX_CONCURRENCY = 16_384
BLOCKS = 8
"""The parts of equal length in which a point is judged, and from which its intervals are made."""
_GROWING_BLOCKS = 3
_GROWTH = 2.0
"""A queue grows without end if TTFT rises through this many blocks, to this many times the first of
them."""

Figures = npt.NDArray[np.float64]


# The concurrencies


def next_probe(throughput: Mapping[int, float]) -> int | None:
    """The concurrency to try next in the search for C_max; None once no higher one can matter.

    `throughput`: tokens/s by concurrency so far; 0 for one that was ended as it was past the knee.
    """
    if not throughput:
        return 1
    highest = max(throughput)
    if not throughput[highest] or highest * 2 > MAX_CONCURRENCY:
        return None
    ascending = sorted(throughput)
    gains = [
        throughput[now] > GAIN * max(throughput[c] for c in ascending if c < now)
        for now in ascending[1:]
    ]
    last_gains = gains[-_PAST_THE_KNEE:]
    if len(last_gains) == _PAST_THE_KNEE and not any(last_gains):
        return None
    return highest * 2


def c_max_of(throughput: Mapping[int, float]) -> int | None:
    """The concurrency of the highest throughput (§5.4); None if nothing was measured."""
    positive = {c: rate for c, rate in throughput.items() if rate > 0}
    return max(positive, key=lambda c: positive[c]) if positive else None


def planned_points(c_max: int, made: Collection[int] = ()) -> list[int]:
    """The concurrencies of a curve between 1 and `c_max`, ascending: the points that were made
    already, one of each mandatory region (§5.3), and as many more in the widest gaps as make
    seven."""
    points = {1, c_max, *(c for c in made if c <= c_max)}
    if c_max > ULTRA_LOW:
        regions = Regions.of(c_max, 1)
        bounds = ((2, regions.low), (regions.low + 1, regions.medium), (regions.medium + 1, c_max))
        for low, high in bounds:
            if not any(low <= point <= high for point in points):
                points.add(round(math.sqrt(low * high)))
    while len(points) < MIN_POINTS and (between := _widest_gap(points)) is not None:
        points.add(between)
    return sorted(points)


def _widest_gap(points: Collection[int]) -> int | None:
    """The concurrency in the middle of the widest gap, as a ratio; None if there is no gap."""
    gaps = [(high / low, low, high) for low, high in pairwise(sorted(points)) if high - low > 1]
    if not gaps:
        return None
    _, low, high = max(gaps)
    return min(max(round(math.sqrt(low * high)), low + 1), high - 1)


def regions_of(c_max: int | None, concurrency: int) -> tuple[str, ...]:
    """The mandatory regions that a point counts for; none below the series' least C_max (§5.5)."""
    if c_max is None or c_max <= ULTRA_LOW:
        return ()
    return tuple(Regions.of(c_max, 1).of_point(concurrency))


def scored_points(c_max: int | None, concurrencies: Collection[int]) -> list[int]:
    """The concurrencies at which accuracy is gated, among planned or measured points: C_max,
    the Offline point, which counts for the highest region too, and one for each other region
    (§5.3): the highest one, whose answers come soonest."""
    counted = [c for c in sorted(concurrencies) if c_max is not None and c <= c_max]
    chosen = set(counted[-1:])
    # A point of the ultra-low region may be in another one, and counts for one alone.
    for region in reversed(MANDATORY[:-1]):
        inside = [c for c in counted if c not in chosen and region in regions_of(c_max, c)]
        chosen |= set(inside[-1:])
    return sorted(chosen)


def endless_order(samples: int, seed: int) -> Iterator[int]:
    """The indices of the samples without end, pass by pass, each pass in an order of its own."""
    rng = random.Random(seed)  # noqa: S311 - an order, no secret
    while True:
        yield from rng.sample(range(samples), samples)


# The figures of a point


def point_of(answers: RequestTimes, window_s: float, concurrency: int) -> CurvePoint:
    """The figures of a point, at least one of whose requests was answered; it is "measured".

    `window_s`: the time in which the loop issued requests. The tokens of an answer count evenly
    from its first to its last: so those after the window, while the last answers ended at less than
    the concurrency, do not count. If not even the first request of each user was answered in that
    time, the window is the whole run. TTFT and TPOT are those of every answer.
    """
    first, end = answers.first_ms, answers.ended_ms
    ttft, tpot = answers.ttft_ms, answers.tpot_ms
    window_ms = window_s * 1000
    if np.sum(end <= window_ms) < concurrency:
        window_ms = float(end.max())
    edges = np.linspace(0.0, window_ms, BLOCKS + 1)
    by_block = _tokens_until(edges, first, end, answers.tokens)
    blocks = tuple(
        CurveBlock(
            float(tokens) * BLOCKS / window_ms * 1000,
            _percentile(tpot[(end > low) & (end <= high)], 0.9),
            _percentile(ttft[(first > low) & (first <= high)], 0.9),
        )
        for tokens, low, high in zip(np.diff(by_block), edges, edges[1:], strict=False)
    )
    return CurvePoint(
        concurrency,
        "measured",
        duration_s=round(window_ms / 1000, 6),
        completed=len(answers),
        output_tokens=round(float(by_block[-1])),
        tpot_p50_ms=_percentile(tpot, 0.5),
        tpot_p90_ms=_percentile(tpot, 0.9),
        ttft_p50_ms=_percentile(ttft, 0.5),
        ttft_p90_ms=_percentile(ttft, 0.9),
        blocks=blocks,
    )


def _tokens_until(
    moments: Figures, first: Figures, end: Figures, tokens: npt.NDArray[np.int64]
) -> Figures:
    """The tokens that answers had at each of these moments, on the clock of their times."""
    span, at_first = np.maximum(end - first, 1e-6), np.minimum(tokens, 1)
    made = np.zeros(len(moments))
    for number, moment in enumerate(moments):
        later = (tokens - at_first) * np.clip((moment - first) / span, 0.0, 1.0)
        made[number] = np.sum(np.where(first <= moment, at_first + later, 0.0))
    return made


def _percentile(times_ms: Figures, share: float) -> float | None:
    """A percentile; None if no request has the time."""
    ascending = np.sort(times_ms[~np.isnan(times_ms)])
    return round(percentile(ascending, share), 6) if len(ascending) else None


def growing_queue(times: LoopTimes, concurrency: int, now_s: float, block_s: float) -> str:
    """How the wait for the first token grows without end, in words; empty if it does not.

    Of the last whole blocks of `block_s`, each by the median TTFT of the requests whose first token
    came in it. The first requests, which the loop issued all at once, do not count.
    """
    first = np.array(times.first_s[concurrency:], float)
    issued = np.array(times.issued_s[concurrency:], float)
    last = int(now_s / block_s)
    if last < _GROWING_BLOCKS:
        return ""
    medians: list[float] = []
    for number in range(last - _GROWING_BLOCKS, last):
        inside = (first > number * block_s) & (first <= (number + 1) * block_s)
        if not inside.any():
            return ""
        medians.append(float(np.median((first - issued)[inside])))
    rises = all(now > then for then, now in pairwise(medians))
    if not rises or medians[-1] < _GROWTH * medians[0]:
        return ""
    return (
        f"TTFT p50 rose from {medians[0] * 1000:,.0f} to {medians[-1] * 1000:,.0f} ms within "
        f"{_GROWING_BLOCKS * block_s:,.0f} s"
    )


def tokens_per_s(times: LoopTimes, now_s: float) -> float:
    """The system's tokens/s so far, from the answers that have ended and a share of the others.

    An unfinished answer counts as half of a mean one, so that the figure is not too low by the
    requests at work.
    """
    first, end = np.array(times.first_s, float), np.array(times.ended_s, float)
    ended = np.array(times.tokens, float)[~np.isnan(end)]
    if not len(ended) or now_s <= 0:
        return 0.0
    at_work = np.sum(~np.isnan(first) & np.isnan(end))
    return float(ended.sum() + at_work * 0.5 * ended.mean()) / now_s


SMOKE_POINT_S = 15.0
"""How long a smoke curve issues requests at each concurrency, in s."""
PROBE_POINT_S = 60.0
"""The same in the search for C_max of an official curve, in s."""
SMOKE_MAX_S = 65.0
"""The longest that a smoke curve may take for a concurrency, with the last answers, in s."""
OFFICIAL_CLIENT_START_S = 8.0
"""What the official client takes to start, in s."""
_SCORES_S, _CURVE_PROBES = 50.0, 10
"""Of a smoke curve, its accuracy run, in s; of an official one, the doublings to a usual C_max."""


def curve_s(*, smoke: bool, agentic: bool, by_client: bool) -> float:
    """Seconds of a curve of seven points, with what a search for C_max usually takes.

    `by_client`: whether the official client measures them.
    """
    if smoke:
        # The official client answers a request for each user before its accuracy run.
        start_s, scores = (OFFICIAL_CLIENT_START_S, 2) if by_client else (0.0, 1)
        # The answers of agents are scored inline.
        scores = 0 if agentic else scores
        points_s = MIN_POINTS * (SMOKE_POINT_S + start_s)
        # Each point waits twice as long for its last answers as the one before.
        return points_s + SMOKE_MAX_S + scores * _SCORES_S
    longer_s = min_duration_s(ULTRA_LOW + 1, agentic=agentic)
    points_s = min_duration_s(1) + (MIN_POINTS - 1) * longer_s
    return points_s + _CURVE_PROBES * PROBE_POINT_S
