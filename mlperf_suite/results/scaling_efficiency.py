"""Scaling efficiency: what nodes or replicas reach together, compared with one alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlperf_suite.results.node_runs import NodeRun, differences_of
from mlperf_suite.results.schema import PerformanceFigures, ScalingFigures

CONFIDENCE = 0.95
"""The confidence of an efficiency's interval."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The efficiency of a scenario: total tokens/s / (number of nodes x that of one alone).

    `one_tokens_per_sec`: the geometric mean of `one_runs` and their repeats. `low`, `high`: the
    ends of the interval at `CONFIDENCE`, None if nothing was repeated. `noise_from`: the source of
    the spread.
    """

    one_tokens_per_sec: float
    efficiency: float
    low: float | None = None
    high: float | None = None
    one_runs: tuple[str, ...] = ()
    noise_from: str = ""


def total(values: Iterable[float | None]) -> float | None:
    """The sum; None if one of the values is unknown."""
    items = list(values)
    numbers = [value for value in items if value is not None]
    return math.fsum(numbers) if numbers and len(numbers) == len(items) else None


def check_ones(runs: Sequence[NodeRun], alone: Sequence[NodeRun]) -> list[str]:
    """Why runs of one node alone cannot be compared with these, a line for each."""
    lines: list[str] = []
    for number, run_alone in enumerate(alone):
        same = [r for r in (*runs, *alone[:number]) if r.log_sha256 == run_alone.log_sha256]
        of = next((run for run in runs if run.scenario.name == run_alone.scenario.name), None)
        if same:
            lines.append(
                f"--one {run_alone.label}: the same run as {same[0].label}: run a node alone"
            )
        elif of is None:
            lines.append(f"--one {run_alone.label}: no node ran {run_alone.scenario.name}")
        else:
            lines += [f"--one {line}" for line in differences_of(of, run_alone)]
    return lines


def scaling_of(runs: Sequence[NodeRun], alone: Sequence[NodeRun]) -> Scaling | None:
    """The scaling of one scenario, from the nodes' runs and the runs of one node alone. None if
    there are none of the latter, or a run reports no tokens/s."""
    repeats, nodes = [_repeats(run) for run in alone], [_repeats(run) for run in runs]
    rates_alone = [value for of in repeats for value in of]
    if not rates_alone or not all(repeats) or not all(nodes):
        return None
    together = [math.fsum(of[number] for of in nodes) for number in range(min(map(len, nodes)))]
    mean = statistics.geometric_mean(rates_alone)
    low, high, noise = interval(together, rates_alone, len(runs))
    return Scaling(
        mean,
        statistics.geometric_mean(together) / (len(runs) * mean),
        low,
        high,
        tuple(run.folder.name for run in alone),
        noise,
    )


def _repeats(run: NodeRun) -> list[float]:
    """The tokens/s of a run and of its --repeat runs; empty if one of them has none."""
    own = run.summary.run.performance or PerformanceFigures()
    values = [run.figures.tokens_per_sec, *(repeat.tokens_per_sec for repeat in own.repeats)]
    rates = [value for value in values if value is not None and value > 0]
    return rates if len(rates) == len(values) else []


def interval(
    together: Sequence[float], alone: Sequence[float], nodes: int
) -> tuple[float | None, float | None, str]:
    """The ends of the efficiency's interval, and the source of the spread.

    Computed on logarithms, from the total tokens/s of repeated runs and from those of one node:
    Welch's interval if both sides were repeated. If only one was, the other is assumed to vary
    equally, and the interval is Student's with that side's degrees of freedom; None if neither was.
    """
    logs = [[math.log(value) for value in side] for side in (together, alone)]
    spreads_known = [(statistics.variance(side), len(side) - 1) for side in logs if len(side) > 1]
    if not spreads_known:
        return None, None, "not measured: one run each"
    # A side that was not repeated takes the other's.
    spreads = [spreads_known[0], spreads_known[-1]]
    errors = [spread / len(side) for (spread, _), side in zip(spreads, logs, strict=True)]
    source = f"{len(together)} runs of all and {len(alone)} of one node"
    middle = statistics.fmean(logs[0]) - statistics.fmean(logs[1]) - math.log(nodes)
    if not any(errors):
        return math.exp(middle), math.exp(middle), source
    from scipy.special import stdtrit

    degrees = float(spreads_known[0][1])
    if len(spreads_known) == 2:
        weights = [error**2 / of for error, (_, of) in zip(errors, spreads_known, strict=True)]
        degrees = math.fsum(errors) ** 2 / math.fsum(weights)
    reach = float(stdtrit(degrees, 0.5 + CONFIDENCE / 2)) * math.sqrt(math.fsum(errors))
    return math.exp(middle - reach), math.exp(min(middle + reach, 50.0)), source


# Replicas in one session


def scaling_figures(replicas: int, pairs: Sequence[tuple[float, float]]) -> ScalingFigures:
    """The scaling figures of pairs of tokens/s: one engine alone (the mean over the engines if they
    differ) and all together.

    The interval is Student's t over the pairs' efficiencies; a single pair has none, and both ends
    are the efficiency itself.
    """
    from scipy.stats import t

    shares = [together / (replicas * alone) for alone, together in pairs]
    alone, together = (statistics.fmean(side) for side in zip(*pairs, strict=True))
    efficiency, count = together / (replicas * alone), len(shares)
    half = 0.0
    if count > 1:
        half = float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) * statistics.stdev(shares) / count**0.5
    return ScalingFigures(
        replicas,
        count,
        round(alone, 3),
        round(together, 3),
        round(efficiency, 5),
        round(efficiency - half, 5),
        round(efficiency + half, 5),
    )
