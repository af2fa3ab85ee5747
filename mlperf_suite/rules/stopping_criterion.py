"""MLPerf's early stopping criterion: how many queries decide a percentile.

Sources: Inference rules, Early Stopping Criterion; early_stopping.cc of LoadGen.
"""

from __future__ import annotations

import math
from functools import lru_cache

_CONFIDENCE = 0.99


@lru_cache(maxsize=256)
def queries_needed(over: int, percentile: float) -> int:
    """The fewest queries with which early stopping is met, if so many of them are over the limit.

    With `over` of them over the limit, a share of over 1 - `percentile` is unlikely at 99%.
    """
    low = over + max(int(over * percentile / (1 - percentile)), 1)
    step = 1
    while not _is_unlikely(over, low + step, percentile):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_unlikely(over, middle, percentile) else (middle, high)
    return high


@lru_cache(maxsize=1024)
def discarded_queries(count: int, percentile: float) -> int:
    """The most queries over a limit with which early stopping of `count` queries is met.

    0 if too few were made to meet it.
    """
    # As many as are expected over the limit, and one, are never unlikely.
    low, high = 0, min(count, int(count * (1 - percentile)) + 2)
    while high - low > 1:
        middle = (low + high) // 2
        met = _is_unlikely(middle, count, percentile)
        low, high = (middle, high) if met else (low, middle)
    return low


def _is_unlikely(over: int, queries: int, percentile: float) -> bool:
    """Whether at most `over` of so many queries are over the limit in less than 1 of 100 runs in
    which a share of 1 - `percentile` is.

    The sum of the binomial distribution's terms from `over` down, until they do not count.
    """
    log_term = (
        math.lgamma(queries + 1)
        - math.lgamma(over + 1)
        - math.lgamma(queries - over + 1)
        + over * math.log1p(-percentile)
        + (queries - over) * math.log(percentile)
    )
    term = total = math.exp(log_term)
    odds = percentile / (1 - percentile)
    for place in range(over, 0, -1):
        ratio = place / (queries - place + 1) * odds
        term *= ratio
        total += term
        if ratio < 1 and term <= total * 1e-15:
            break
    return total < 1 - _CONFIDENCE
