"""What the figures of one series of values say of each other, whatever the values are.

Percentiles, early stopping's estimates and the histogram are knots: so many of the sorted values
lie below one, the others above it. Total and standard deviation must be what values between the
knots can have; values at the ends of their steps have them, so no bound from knots is tighter.
Whole numbers have more: their squares' sum is whole, and odd where their sum is. Source of the
definitions: registry.py and report.py of github.com/mlcommons/endpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

from mlperf_suite.features.endpoints.official_client_results.result_files import Distribution
from mlperf_suite.rules.stopping_criterion import discarded_queries

_SUM_TOLERANCE = 1e-9
"""Figures that one program computed from the same values, relative."""
_TAIL = (50.0, 99.99)
"""The percentiles that early stopping estimates."""
_ROUNDED = 1e-15
"""Of the squares' sum: what rounding makes of a standard deviation, 7e-16 at most."""
_MAX_COUNT_SLACK = 0.25
"""How far from a whole number that may lead, where it still says something."""
_UNSPLIT = 1.02
"""Of a text's tokens: a tokenizer may make a few more of its part behind the first chunk."""
Knot = tuple[int, float]
"""So many of the sorted values are at most the knot's, all others at least."""


def percent_of(name: str) -> float | None:
    """The percentile that a name stands for; None if it is not a number."""
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


def is_above(first: float, second: float) -> bool:
    """Whether the first figure of the same values is greater by more than rounding."""
    return first > second and not math.isclose(first, second, rel_tol=_SUM_TOLERANCE)


def negative_faults(series: Distribution, least_ns: float) -> Iterator[str]:
    """What times or counts of at least `least_ns` cannot be."""
    figures = (series.min, series.median, *series.percentiles.values())
    values = [*figures, *series.early_stopping_percentiles.values()]
    if any(value is not None and value < least_ns for value in values):
        yield f"a value below {least_ns:,g}"


def shape_faults(series: Distribution, n: int) -> Iterator[str]:
    """What n values cannot be, if the series has all of its figures."""
    knots = sorted(_knots(series, n))
    if any(is_above(low, high) for (_, low), (_, high) in pairwise(knots)):
        yield "percentiles and histogram are not of the same values"
        return
    total, std_dev = series.total or 0.0, series.std_dev or 0.0
    steps = [(end - start, a, b) for (start, a), (end, b) in pairwise(knots) if end > start]
    low, high = (sum(row[0] * row[side] for row in steps) for side in (1, 2))
    if is_above(low, total) or is_above(total, high):
        yield f"total {total:,g}, by percentiles and histogram {low:,g} to {high:,g}"
        return
    squares = max(n - 1, 0) * std_dev**2
    if any(_spread_fault(t, total / n, squares, steps) for t in _points(steps, total / n)):
        yield f"total {total:,g} and std_dev {std_dev:,g} of no values with these percentiles"


def whole_faults(series: Distribution, n: int) -> Iterator[str]:
    """What n whole numbers, tokens or ns, cannot have."""
    figures = (series.total, series.min, series.max, series.median, *series.percentiles.values())
    estimates = series.early_stopping_percentiles.values()
    if any(value is not None and not value.is_integer() for value in (*figures, *estimates)):
        yield "parts of a whole number"
        return
    total, std_dev = int(series.total or 0), series.std_dev or 0.0
    squares = (Fraction(std_dev) ** 2 * n * (n - 1) + total * total) / n if n else Fraction(0)
    slack = _ROUNDED * float(squares)
    if slack > _MAX_COUNT_SLACK or total > 2**53:
        return
    whole = round(squares)
    if abs(squares - whole) > slack or (whole - total) % 2:
        yield f"total {total:,} and std_dev {std_dev:,g} of no whole numbers"


def longest_ns(tpot: Distribution, lengths: Distribution, n: int) -> float:
    """The most that n requests' times after their first tokens can be in sum, in ns: the longest
    answers with the longest times a token."""
    steps = [_steps(series, n) for series in (tpot, lengths)]
    ends = sorted({end for rows in steps for end, _ in rows})
    total, start, at = 0.0, 0, [0, 0]
    for end in ends:
        at = [
            next(i for i in range(a, len(rows)) if rows[i][0] >= end)
            for a, rows in zip(at, steps, strict=True)
        ]
        total += (end - start) * math.prod(rows[i][1] for i, rows in zip(at, steps, strict=True))
        start = end
    return total * _UNSPLIT


def _steps(series: Distribution, n: int) -> list[tuple[int, float]]:
    """Up to which place of n sorted values none is greater than a bound."""
    knots = sorted(_knots(series, n))
    return [(end, high) for (start, _), (end, high) in pairwise(knots) if end > start]


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
    n, least, most = 0, 0.0, 0.0
    for count, low, high in steps:
        below, above = point - low, high - point
        n += count
        least += count * (min(below, above, 0.0) ** 2)
        most += count * max(below, above) ** 2
    spread = squares + n * (mean - point) ** 2
    slack = _SUM_TOLERANCE * (spread + n * mean**2)
    return not least - slack <= spread <= most + slack
