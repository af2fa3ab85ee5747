"""How these programs compare: in turn, in repeated pairs; prints rows and medians."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Generic, TypeVar

import psutil
from scipy.stats import t

_CONFIDENCE = 0.95
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Pair(Generic[Result]):
    """What each side gave, by its name, within the same minutes.

    `stolen_s`: seconds that other guests took from the machine meanwhile.
    """

    number: int
    results: Mapping[str, Result]
    stolen_s: float


def in_turn(
    sides: Mapping[str, Callable[[], Result]], pairs: int, first: int = 1
) -> Iterator[Pair[Result]]:
    """Measure all sides so many times, numbered from `first`.

    Every other pair is in reverse order, so that a drift of the machine favours no side.
    """
    for number in range(first, first + pairs):
        stolen = stolen_s()
        names = list(sides)
        order = names if number % 2 else names[::-1]
        results = {name: sides[name]() for name in order}
        yield Pair(number, results, stolen_s() - stolen)


def stolen_s() -> float:
    """Seconds that other guests took from this machine since it started."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


def cpu_s() -> tuple[float, float]:
    """The processor time of this process, and of this process and all its descendants, in s."""
    # A process knows its own time to the microsecond, that of others to 10 ms.
    total = own = time.process_time()
    for child in psutil.Process().children(recursive=True):
        times = child.cpu_times()
        total += times.user + times.system
    return own, total


def pairs_parser(doc: str | None, pairs: int) -> argparse.ArgumentParser:
    """A program's options: its first line as help, and the number of pairs."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=pairs)
    return parser


def print_header(*columns: str) -> None:
    """The head of a Markdown table, whose first column is text."""
    print_row(*columns)
    print("|---|" + "---:|" * (len(columns) - 1), flush=True)


def print_row(*cells: object) -> None:
    """A row of a Markdown table, shown at once."""
    print(f"| {' | '.join(str(cell) for cell in cells)} |", flush=True)


def middle(values: Sequence[float], aim: str = "") -> str:
    """A cell with the median, the lowest and the highest, and what is aimed at."""
    goal = f"; aim: {aim}" if aim else ""
    return f"**{median(values):.3f}** ({min(values):.3f} to {max(values):.3f}{goal})"


def ratio_interval(ratios: Sequence[float]) -> str:
    """The geometric mean of ratios with Student's 95% interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, half = fmean(logs), 0.0
    if len(logs) > 1:
        quantile = float(t.ppf((1 + _CONFIDENCE) / 2, len(logs) - 1))
        half = quantile * stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(mean - half), math.exp(mean + half)
    return f"**{math.exp(mean):.3f}** ({low:.3f} to {high:.3f})"
