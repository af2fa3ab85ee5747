"""Computes which sample LoadGen issues in which place; its accuracy log has both numbers.

A sample's place in the order of issue is its seq_id, its number in the data its qsl_idx. Source:
GenerateQueries and SampleDistribution in loadgen.cc of LoadGen. Tested on the cut accuracy logs of
416 public v5.1 results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mlperf_suite.loadgen.schedule import below, below_old, loaded_sets, shuffle, words


@dataclass(frozen=True, slots=True)
class Issue:
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
def first_samples(issue: Issue, count: int, *, old: bool = False) -> tuple[int, ...] | None:
    """The samples in the first `count` places, or all there are; None for several loaded sets.

    `old`: as drawn by a LoadGen built with libstdc++ before GCC 11.
    """
    sets = loaded_sets(issue.qsl_seed, issue.total, issue.size, accuracy=issue.accuracy, old=old)
    if len(sets) != 1:
        return None
    (loaded,) = sets
    size, draw = len(loaded), words(issue.index_seed)
    draw_below = below_old if old else below

    def shuffled(items: list[int]) -> list[int]:
        shuffle(items, draw, draw_below)
        return items

    each_once = shuffled(list(range(size))) if issue.accuracy else []
    unique = shuffled(list(range(size)))
    queries = issue.least
    if issue.accuracy:
        queries = 1 if issue.scenario == "Offline" else size
    order, equally = list(range(size)), list[int]()
    for _ in range(0, queries, size):
        equally += shuffled(order)
    if issue.scenario == "Offline":
        repeated = list[int]()
        while len(repeated) < count and (not issue.accuracy or not repeated):
            repeated += shuffled(list(loaded)) if issue.equal else loaded
        return tuple(repeated[:count])
    if issue.unique:
        chosen: Sequence[int] = unique
    elif issue.equal:
        chosen = equally
    else:
        chosen = each_once or list(_drawn(draw, size, count, old))
    return tuple(loaded[place] for place in chosen[:count])


def _drawn(draw: Iterator[int], size: int, count: int, old: bool) -> Iterator[int]:
    draw_below = below_old if old else below
    return (draw_below(draw, size) for _ in range(count))
