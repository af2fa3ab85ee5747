"""Recomputes what LoadGen's seeds determine: samples, their order, and when each is issued.

A log has a sample's place in the order of issue as its seq_id, its number in the data as qsl_idx.

LoadGen draws from std::mt19937 through std::shuffle, std::uniform_int_distribution,
std::uniform_real_distribution and std::exponential_distribution, which each standard library may
implement differently. This module follows libstdc++ since GCC 11, with which every LoadGen on a
package index and in the public v5.1 results is built; `old` shuffles as libstdc++ did before.
Sources: loadgen.cc, issue_query_controller.cc and test_settings_internal.cc of LoadGen, and
bits/random.tcc, bits/uniform_int_dist.h and bits/stl_algo.h of libstdc++.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING

from mlperf_suite.loadgen.arrivals import NS, WORDS, exponential, generator, uniform

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_DEFAULT_SEED = 5489
"""std::mt19937's default."""
MAX_QUERIES = 2**23
"""No longer schedule is computed: this is nine times the longest of the public results."""

Below = Callable[[Iterator[int], Iterable[int]], Iterator[int]]


class TooLongError(Exception):
    """A schedule has more queries than `MAX_QUERIES`."""

    def __init__(self) -> None:
        super().__init__("too many queries to compute")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The queries that LoadGen generates before a run.

    `samples`: per query. `duration_ns`: from the first query to the one after the last, in ns
    (generated_query_duration). `last_ns`: from the first query to the last, in ns.
    """

    queries: int
    samples: int
    duration_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """What determines a schedule, from the detail log's effective settings.

    `qps`: queries/s; for Offline, samples/s. `least`: effective_min_query_count. `samples`:
    effective_samples_per_query. `loaded`: the number of samples that LoadGen draws from. `equal`:
    whether each is issued equally often. `accuracy`: whether each is issued once. `unique`:
    performance_issue_unique.
    """

    scenario: str
    seed: int
    qps: float
    duration_ms: float
    least: int
    samples: int
    loaded: int
    equal: bool
    accuracy: bool
    unique: bool = False

    def at(self, qps: float) -> ScheduleSettings:
        """The same settings at another rate."""
        return replace(self, qps=qps)


def mt19937_words(seed: int) -> Iterator[int]:
    """The output of std::mt19937(seed), word by word of 32 bits."""
    bits = generator(seed)
    while True:
        # Most draws of a larger block would be left over by a shuffle of some thousands.
        yield from bits.random_raw(2**12).tolist()


def uniform_below(draw: Iterator[int], counts: Iterable[int]) -> Iterator[int]:
    """For each count, at most 2**32, a number from 0 to below it (Lemire's method, libstdc++ since
    GCC 11)."""
    for count in counts:
        product = next(draw) * count
        if product % WORDS < count:
            least = (WORDS - count) % count
            while product % WORDS < least:
                product = next(draw) * count
        yield product // WORDS


def uniform_below_gcc10(draw: Iterator[int], counts: Iterable[int]) -> Iterator[int]:
    """For each count, a number from 0 to below it, as libstdc++ drew it until GCC 10."""
    for count in counts:
        scale = (WORDS - 1) // count
        yield next(word for word in draw if word < count * scale) // scale


def shuffle(items: list[int], draw: Iterator[int], below: Below) -> None:
    """std::shuffle, which draws two places at once if both fit one word."""
    drawn, start = below(draw, _shuffle_counts(len(items))), 1
    if _are_drawn_in_pairs(len(items)):
        if len(items) % 2 == 0:
            place, start = next(drawn), 2
            items[1], items[place] = items[place], items[1]
        for at, both in zip(range(start, len(items), 2), drawn, strict=True):
            first, second = divmod(both, at + 2)
            items[at], items[first] = items[first], items[at]
            items[at + 1], items[second] = items[second], items[at + 1]
        return
    for at, place in enumerate(drawn, 1):
        items[at], items[place] = items[place], items[at]


def _are_drawn_in_pairs(count: int) -> bool:
    return bool(count) and (WORDS - 1) // count >= count


def _shuffle_counts(count: int) -> Iterable[int]:
    """Below which counts std::shuffle draws the places of so many items."""
    if not _are_drawn_in_pairs(count):
        return range(2, count + 1)
    pairs = ((n + 1) * (n + 2) for n in range(1 + (count % 2 == 0), count, 2))
    return chain((2,), pairs) if count % 2 == 0 else pairs


@lru_cache(maxsize=64)
def shuffled(seed: int, count: int, *, old: bool = False) -> tuple[int, ...]:
    """The numbers below `count` as std::shuffle orders them with std::mt19937(seed)."""
    items = list(range(count))
    shuffle(items, mt19937_words(seed), uniform_below_gcc10 if old else uniform_below)
    return tuple(items)


@lru_cache(maxsize=8)
def loaded_sets(
    seed: int, total: int, size: int, *, accuracy: bool, old: bool = False
) -> Sequence[list[int]]:
    """The sets of samples that LoadGen loads: one of `size` for performance, all for accuracy.

    `total`: the samples that are shuffled. From LoadGen 6.0.16 on, a performance run shuffles only
    `size` samples; older ones shuffle the whole QSL.
    """
    order = list(shuffled(seed, total, old=old))
    if not accuracy:
        return [order[:size]]
    return [order[start : start + size] for start in range(0, total, size)]


def logging_draws(seed: int, count: int) -> npt.NDArray[np.float64]:
    """The draws by which LoadGen decides whether it logs each of the first answers, (count,).

    An answer is logged if its draw is at most accuracy_log_sampling_target / expected queries.
    `seed`: accuracy_log_rng_seed. It shifts the output of an unseeded std::mt19937 for each sample.
    """
    # A power of two, so that logs of similar lengths share their draws.
    return _logging_draws(seed, 1 << count.bit_length())[:count]


@lru_cache(maxsize=4)
def _logging_draws(seed: int, count: int) -> npt.NDArray[np.float64]:
    import numpy as np

    offset = float(uniform(generator(seed), 1)[0])
    shifted = uniform(generator(_DEFAULT_SEED), count) + offset
    return np.where(shifted < 1, shifted, shifted - 1)


# When each query is issued


@lru_cache(maxsize=64)
def schedule(settings: ScheduleSettings) -> Schedule:
    """The queries of a run.

    Raises ValueError for settings that give no queries, TooLongError for too many queries.
    """
    positive = (settings.qps, settings.loaded, settings.samples)
    if min(positive) <= 0 or min(settings.least, settings.duration_ms) < 0:
        raise ValueError("no rate, no samples or a negative count")
    if settings.scenario == "Server":
        return _at_a_rate(settings)
    return _at_a_period(settings)


def _least(settings: ScheduleSettings) -> int:
    """The minimum number of queries, rounded up to whole data sets if each is issued equally."""
    if settings.accuracy or settings.unique:
        return settings.loaded
    return _whole_sets(settings.least, settings.loaded) if settings.equal else settings.least


def _whole_sets(count: int, size: int) -> int:
    return -(-count // size) * size


def _grown(settings: ScheduleSettings, minimum: int) -> int:
    """The number of queries if the duration needs `minimum` of them."""
    least = _least(settings)
    if minimum <= least or settings.accuracy or settings.unique:
        return least
    return least + _whole_sets(minimum - least, settings.loaded) if settings.equal else minimum


def _at_a_rate(settings: ScheduleSettings) -> Schedule:
    """Server: queries arrive as a Poisson process."""
    import numpy as np

    target_ns = 0.0 if settings.accuracy or settings.unique else settings.duration_ms * 1e6
    mean_queries = target_ns / NS * settings.qps
    # Ten standard deviations more than expected, and room to complete a data set.
    room = mean_queries + 10 * mean_queries**0.5 + 1000 + _least(settings) + settings.loaded
    if room > MAX_QUERIES:
        raise TooLongError
    # A power of two, so that runs of similar lengths share their draws.
    gaps = exponential(settings.seed % WORDS, 1 << int(room).bit_length())
    gaps = gaps[: int(room if settings.equal else room - settings.loaded) + 1]

    def in_ns(some: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        return (some / settings.qps * NS).astype(np.int64)

    minimum, gaps_ns = 1, in_ns(gaps[:0])
    if target_ns > 0:
        # What completes a data set is not searched for the end of the run.
        gaps_ns = in_ns(gaps[: int(mean_queries + 10 * mean_queries**0.5) + 1000])
        # The first query is at 0, and the last is the first one due at or after the end.
        minimum = int(np.searchsorted(np.cumsum(gaps_ns), math.ceil(target_ns))) + 2
    count = _grown(settings, minimum)
    if count > len(gaps):
        raise TooLongError
    gaps_ns = gaps_ns[:count] if count <= len(gaps_ns) else in_ns(gaps[:count])
    return Schedule(count, 1, int(gaps_ns.sum()), int(gaps_ns[:-1].sum()))


def _at_a_period(settings: ScheduleSettings) -> Schedule:
    """SingleStream, and Offline with all samples in one query."""
    if not math.isfinite(1 / settings.qps * NS):
        raise ValueError("no such rate")
    period_ns = int(1 / settings.qps * NS)
    if settings.scenario == "Offline":
        samples = settings.loaded if settings.accuracy else settings.samples
        if settings.equal:
            samples = _whole_sets(samples, settings.loaded)
        return Schedule(1, samples, period_ns, 0)
    # LoadGen generates twice the queries that it expects to need, in case answers come sooner.
    target_ns = 2 * settings.duration_ms * 1e6
    if period_ns == 0:
        raise ValueError("no such rate")
    minimum = -int(-target_ns // period_ns) + 1 if target_ns > 0 else 1
    count = _grown(settings, minimum)
    return Schedule(count, 1, count * period_ns, (count - 1) * period_ns)


# Which sample is issued in which place
#
# Source: GenerateQueries and SampleDistribution in loadgen.cc of LoadGen. Tested on the cut
# accuracy logs of 416 public v5.1 results.


@dataclass(frozen=True, slots=True)
class SampleOrderSettings:
    """What determines the order of samples, from the detail log's effective settings.

    `scenario`: LoadGen's name. `total`: the samples that are shuffled, of which `size` are loaded.
    `least`: effective_min_query_count. `equal`: whether each sample is issued equally often.
    `unique`: whether each is issued once, performance_issue_unique.
    """

    scenario: str
    accuracy: bool
    qsl_seed: int
    index_seed: int
    total: int
    size: int
    least: int
    equal: bool
    unique: bool


@lru_cache(maxsize=64)
def first_samples(
    issue: SampleOrderSettings, count: int, *, old: bool = False
) -> tuple[int, ...] | None:
    """The samples in the first `count` places, or all there are; None for several loaded sets.

    `old`: as drawn by a LoadGen built with libstdc++ before GCC 11.
    """
    sets = loaded_sets(issue.qsl_seed, issue.total, issue.size, accuracy=issue.accuracy, old=old)
    if len(sets) != 1:
        return None
    (loaded,) = sets
    if issue.scenario == "Offline" and not issue.equal:
        return tuple(loaded if issue.accuracy else loaded * -(-count // len(loaded)))[:count]
    size, draw = len(loaded), mt19937_words(issue.index_seed)
    draw_below = uniform_below_gcc10 if old else uniform_below

    def shuffled(items: list[int], *, is_read: bool = True) -> list[int]:
        """The items shuffled; if nothing reads them, only what LoadGen draws for it is drawn."""
        if is_read:
            shuffle(items, draw, draw_below)
        else:
            deque(draw_below(draw, _shuffle_counts(len(items))), maxlen=0)
        return items

    offline = issue.scenario == "Offline"
    in_turn = not (offline or issue.unique or issue.equal)
    if issue.accuracy:
        each_once = shuffled(list(range(size)), is_read=in_turn)
        if in_turn:
            return tuple(loaded[place] for place in each_once[:count])
    unique = shuffled(list(range(size)), is_read=issue.unique and not offline)
    queries = issue.least
    if issue.accuracy:
        queries = 1 if offline else size
    order, equally = list(range(size)), list[int]()
    for _ in range(0, queries, size):
        equally += shuffled(order, is_read=issue.equal and not offline)
    if offline:
        repeated = list[int]()
        while len(repeated) < count and (not issue.accuracy or not repeated):
            repeated += shuffled(list(loaded))
        return tuple(repeated[:count])
    if issue.unique:
        places: Sequence[int] = unique
    elif issue.equal:
        places = equally
    else:
        places = list(draw_below(draw, repeat(size, count)))
    return tuple(loaded[place] for place in places[:count])
