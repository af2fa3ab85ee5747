"""What the figures of one series of values say of each other, whatever the values are.

Percentiles, early stopping's estimates and the histogram are knots: so many of the sorted values
lie below one, the others above it. Total and standard deviation must be what values between the
knots can have. Source of the definitions: registry.py of github.com/mlcommons/endpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from mlperf_suite.client_results.result_files import Distribution
from mlperf_suite.rules.loadgen_verdict import discarded_queries

_NEAR = 1e-9
"""Figures that one program computed from the same values, relative."""
_TAIL = (50.0, 99.99)
"""The percentiles that early stopping estimates."""
Knot = tuple[int, float]
"""So many of the sorted values are at most the knot's, all others at least."""


def percent_of(name: str) -> float | None:
    """The percentile that a name stands for; None if it is no number."""
    is_number = name.replace(".", "", 1).isdecimal() and name.isascii() and len(name) < 9
    return float(name) if is_number else None


def percentile_rank(percent: float, n: int) -> int:
    """The place of a percentile among n sorted values: numpy's method "lower"."""
    return int(percent / 100 * (n - 1))


def estimates_of(series: Distribution) -> Iterator[tuple[float, str, float | None]]:
    """The percentile in percent, its name and early stopping's estimate."""
    for name, estimate in series.early_stopping_percentiles.items():
        percent = percent_of(name)
        if percent is not None and _TAIL[0] <= percent <= _TAIL[1]:
            yield percent, name, estimate


def discarded_of(n: int, percent: float) -> int:
    """The place from the end of n sorted values of early stopping's estimate; 0 for too few."""
    return discarded_queries(n, percent / 100)


def bucket_edges(least: float, most: float, count: int) -> list[float]:
    """The bounds of that many buckets of equal ratio: from 1 on, over a factor of at least 10."""
    low = math.log(max(least, 1.0))
    step = (math.log(max(most, 10.0 * max(least, 1.0))) - low) / count
    return [math.exp(low + number * step) for number in range(count + 1)]


def shape_faults(series: Distribution, n: int) -> Iterator[str]:
    """What n values cannot be, if the series has all of its figures."""
    knots = sorted(_knots(series, n))
    if any(low > high * (1 + _NEAR) for (_, low), (_, high) in pairwise(knots)):
        yield "percentiles and histogram are not of the same values"
        return
    total, std_dev = series.total or 0.0, series.std_dev or 0.0
    steps = [(end - start, a, b) for (start, a), (end, b) in pairwise(knots) if end > start]
    low, high = (sum(row[0] * row[side] for row in steps) for side in (1, 2))
    if not low * (1 - _NEAR) <= total <= high * (1 + _NEAR):
        yield f"total {total:,g}, by percentiles and histogram {low:,g} to {high:,g}"
        return
    squares = max(n - 1, 0) * std_dev**2
    if any(_spread_fault(t, total / n, squares, steps) for t in _points(steps, total / n)):
        yield f"total {total:,g} and std_dev {std_dev:,g} of no values with these percentiles"


def _knots(series: Distribution, n: int) -> Iterator[Knot]:
    yield 0, series.min or 0.0
    yield n, series.max or 0.0
    ranks = [
        (percentile_rank(percent, n), value)
        for name, value in series.percentiles.items()
        if (percent := percent_of(name)) is not None and percent <= 100
    ]
    ranks += [
        (n - discarded, estimate)
        for percent, _, estimate in estimates_of(series)
        if estimate is not None and (discarded := discarded_of(n, percent))
    ]
    for rank, value in ranks:
        yield rank, value
        yield rank + 1, value
    counts = accumulate(series.histogram.counts[:-1])
    for (_, edge), count in zip(series.histogram.buckets, counts, strict=False):
        # The first and the last bucket also take what rounding leaves beyond them.
        yield count, min(max(edge, series.min or 0.0), series.max or 0.0)


_AWAY = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Points beyond the values, in ranges of them."""


def _points(steps: Sequence[tuple[int, float, float]], mean: float) -> Iterable[float]:
    """Where spreads are compared: at any point they must fit, at these the bounds bend."""
    yield mean
    least, most = steps[0][1], steps[-1][2]
    for ranges in _AWAY:
        yield from (least - ranges * (most - least), most + ranges * (most - least))
    yield from (low for _, low, _ in steps)
    yield from ((low + high) / 2 for _, low, high in steps)


def _spread_fault(
    point: float, mean: float, squares: float, steps: Sequence[tuple[int, float, float]]
) -> bool:
    """Whether the sum of squared distances from a point is none that values in the steps have."""
    n = sum(count for count, _, _ in steps)
    spread = squares + n * (mean - point) ** 2
    least = sum(c * max(low - point, point - high, 0.0) ** 2 for c, low, high in steps)
    most = sum(c * max(point - low, high - point) ** 2 for c, low, high in steps)
    slack = _NEAR * (spread + n * mean**2)
    return not least - slack <= spread <= most + slack
