"""Chooses how many samples a smoke run takes: as many as fit the time that a run may last.

Pure: from the engine's measured speed to a number. The rungs are tried in order: the first with
time for its least number of samples decides, so that a slow machine takes longer instead of using
too few samples to be meaningful. Sizes come from a fixed list, so that two sessions on one machine
mostly take the same number and can be compared; near an edge, the probe may decide either way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlperf_suite.benchmarks.audits import TEST06

SIZES = (84, 64, 48, 32, 24, 16, 12, 8)
"""Numbers of samples, or of an audit's queries if its own 100 do not fit."""
RUNGS: tuple[tuple[float, int], ...] = ((17.0, 48), (45.0, 24), (75.0, 8))
"""Seconds that a run may last, and the fewest samples for which it gets no more time."""
AUDIT_RUNGS: tuple[tuple[float, int], ...] = ((26.0, 100), (45.0, 24), (75.0, 8))
_NO_GAIN = 1.1
"""Fewer samples are not worth it if they save less than this factor: SingleStream's least number
of queries takes its time however few samples they are drawn from."""


@dataclass(frozen=True, slots=True)
class Size:
    """A number of samples and, if it is not all of them, why."""

    samples: int
    why: str = ""


def samples_that_fit(available: int, seconds_of: Callable[[int], float]) -> Size:
    """The samples of an accuracy or performance run.

    `seconds_of`: how long a run of this many samples is expected to last.
    """
    sizes = [available, *(size for size in SIZES if size < available)]
    return _fitting(sizes, RUNGS, seconds_of, "samples")


def audit_queries_that_fit(seconds_of: Callable[[int], float]) -> Size:
    """The queries of TEST06: its own 100 if they fit."""
    own = TEST06.queries
    return _fitting([own, *(s for s in SIZES if s < own)], AUDIT_RUNGS, seconds_of, "queries")


def _fitting(
    sizes: list[int],
    rungs: tuple[tuple[float, int], ...],
    seconds_of: Callable[[int], float],
    noun: str,
) -> Size:
    seconds_by_size = {size: seconds_of(size) for size in sizes}
    least = min(seconds_by_size.values())
    for seconds, floor in rungs:
        limit = max(seconds, _NO_GAIN * least)
        largest = next(size for size in sizes if seconds_by_size[size] <= limit)
        if largest >= min(floor, sizes[0]):
            break
    return _size_of(largest, sizes[0], seconds_by_size[largest], noun)


def _size_of(samples: int, available: int, seconds: float, noun: str) -> Size:
    if samples == available:
        return Size(samples)
    return Size(
        samples, f"{samples} of {available} {noun}: about {seconds:.0f} s a run on this machine"
    )
