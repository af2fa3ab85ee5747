"""Aggregates the independent runs of several nodes: sums, pooled figures, and its file.

Rates, samples and tokens are summed. Percentiles cannot be combined, so they are computed from all
nodes' requests, the way LoadGen computes its own (`benchmarks.percentile`); each node is weighted
by its number of requests.

The aggregate is not an MLPerf result: that comes from one LoadGen and one SUT (MLPerf Inference
rules, "LoadGen Operation"), and each of these runs has its own of both. Every output carries
`LABEL`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.benchmarks.request_times import RequestTimes, distribution
from mlperf_suite.errors import RefusedError
from mlperf_suite.features.aggregate.node_runs import (
    NodeRun,
    accuracy_note,
    check_ones,
    hardware_of,
    load_node_runs,
    notes_of,
    overlap_note,
    rate_note,
    read_times,
    refusals,
)
from mlperf_suite.results.node_files import labels_of
from mlperf_suite.results.performance_figures import answered_share, issued_samples
from mlperf_suite.results.schema import CONFIDENCE, Percentiles, PerformanceFigures
from mlperf_suite.results.typed_json import read, written_fields
from mlperf_suite.rules.verdict import in_words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LABEL = "aggregate of independent runs: not an MLPerf result"
"""The label on every output."""
WHY = (
    "Each node ran a LoadGen of its own. An MLPerf result is of one LoadGen with one system under "
    "test, so this is none, and no part of a submission."
)
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class AggregateNode:
    """One node's run of a scenario; its times are LoadGen's own. Rates are per second, times in ms.

    `share`: of the total tokens/s. `reasons`: why its run is not a valid result. `requests` and
    `tokens`: counts of its answers. `accuracy_passed`: the verdict of the accuracy rules on its
    accuracy run, None if there is none. `hardware`: in words. `issued`: the number of samples that
    LoadGen issued.
    """

    node: str
    run: str = ""
    started: str | None = None
    valid: bool = False
    reasons: tuple[str, ...] = ()
    tokens_per_sec: float | None = None
    samples_per_sec: float | None = None
    share: float | None = None
    requests: int = 0
    tokens: int = 0
    answered: float | None = None
    duration_s: float | None = None
    target_qps: float | None = None
    latency_ms: Percentiles | None = None
    ttft_ms: Percentiles | None = None
    tpot_ms: Percentiles | None = None
    accuracy_passed: bool | None = None
    hardware: str = ""
    issued: int = 0


@dataclass(frozen=True, slots=True)
class SlowestNode:
    """The slowest node. `by`: the figure that shows it, `value` and `unit` are the node's, `rest`
    is the median of the other nodes."""

    node: str
    by: str = ""
    unit: str = ""
    value: float = 0.0
    rest: float = 0.0


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


@dataclass(frozen=True, slots=True)
class ScenarioFigures:
    """A scenario on all nodes. Sums: `tokens_per_sec`, `samples_per_sec`, `requests`, `tokens`, and
    `target_qps` if queries were sent at a rate; None if a node does not report one. Pooled over the
    requests of all nodes: `latency_ms`, `ttft_ms`, `tpot_ms`; None if LoadGen reports none.
    `issued`: the number of samples that the LoadGens issued. `duration_s`: the longest of the runs.

    `valid`: whether each node's own run is a valid result; `reasons`: why not. `notes`: sentences.
    """

    scenario: str
    rate_unit: str = ""
    valid: bool = False
    reasons: tuple[str, ...] = ()
    tokens_per_sec: float | None = None
    samples_per_sec: float | None = None
    target_qps: float | None = None
    requests: int = 0
    tokens: int = 0
    answered: float | None = None
    latency_ms: Percentiles | None = None
    ttft_ms: Percentiles | None = None
    tpot_ms: Percentiles | None = None
    nodes: tuple[AggregateNode, ...] = ()
    slowest: SlowestNode | None = None
    scaling: Scaling | None = None
    notes: tuple[str, ...] = ()
    issued: int = 0
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The content of aggregate.json. `marks`: marks of the runs themselves, such as a stand-in
    engine. `nodes`: names, in the given order. `span_s`: from the first start of a run to the last
    end, None if a run does not say. `notes`: sentences on differences between nodes and on what
    could not be compared."""

    schema_version: int = SCHEMA_VERSION
    label: str = LABEL
    why: str = WHY
    marks: tuple[str, ...] = ()
    rules: str = ""
    benchmark: str = ""
    category: str | None = None
    model: str = ""
    dataset: str = ""
    data_sha256: str | None = None
    round: str | None = None
    profile: str | None = None
    engine: str = ""
    made: str | None = None
    nodes: tuple[str, ...] = ()
    scenarios: tuple[ScenarioFigures, ...] = ()
    notes: tuple[str, ...] = field(default=())
    span_s: float | None = None

    @classmethod
    def read(cls, content: object) -> Aggregate:
        """Parse the content of an aggregate.json; never raises."""
        return read(cls, content) or cls()

    def as_json(self) -> dict[str, Any]:
        return written_fields(self)


def aggregate_runs(
    paths: Sequence[Path], moment: datetime, alone_paths: Sequence[Path] = ()
) -> Aggregate:
    """Aggregate the runs in these folders. `made`: the time. `ones`: runs of one node alone.

    Raises RefusedError, with a line for each reason, for runs that cannot be aggregated.
    """
    runs = load_node_runs(paths)
    if not runs:
        raise RefusedError(["no run was named"])
    alone = load_node_runs(alone_paths)
    reasons = [*refusals(runs), *check_ones(runs, alone)]
    if reasons:
        raise RefusedError(reasons)
    by_scenario: dict[str, list[NodeRun]] = {}
    for run in runs:
        by_scenario.setdefault(run.scenario.name, []).append(run)
    nodes = tuple(dict.fromkeys(run.node for run in runs))
    first = runs[0]
    meta, engine = first.summary.meta, first.config.engine
    return Aggregate(
        marks=tuple(
            dict.fromkeys(mark for run in runs for mark in labels_of(run.summary, run.config))
        ),
        rules=meta.rules,
        benchmark=in_words(meta.benchmark or ""),
        category=_words(meta.category),
        model=in_words(meta.model or ""),
        dataset=in_words(meta.dataset or ""),
        data_sha256=_words(first.config.dataset.sha256),
        round=_words(meta.round),
        profile=_words(meta.profile),
        engine=in_words(f"{engine.name} {engine.version}") if engine else "",
        made=moment.isoformat(timespec="seconds"),
        nodes=nodes,
        scenarios=tuple(
            _scenario(sorted(of, key=lambda run: nodes.index(run.node)), alone)
            for of in by_scenario.values()
        ),
        notes=tuple(notes_of(runs)),
        span_s=_span_s(runs),
    )


def _span_s(runs: Sequence[NodeRun]) -> float | None:
    """From the first start to the last end of these runs, in s; None if one does not say."""
    metas = [run.summary.meta for run in runs]
    try:
        ends = [datetime.fromisoformat(meta.ended or "") for meta in metas]
        starts = [datetime.fromisoformat(meta.started or "") for meta in metas]
        return (max(ends) - min(starts)).total_seconds()
    except (ValueError, TypeError):  # No date, or one without its time zone.
        return None


def _words(value: str | None) -> str | None:
    return None if value is None else in_words(value)


def _scenario(runs: Sequence[NodeRun], alone: Sequence[NodeRun]) -> ScenarioFigures:
    """Runs of one scenario, each on another node."""
    times = [read_times(run) for run in runs]
    scenario = runs[0].scenario
    figures = [run.figures for run in runs]
    tokens_per_sec = total([of.tokens_per_sec for of in figures])
    sample_counts = [issued_samples(run.detail, scenario.name) or 0 for run in runs]
    rows = tuple(
        _node(run, of, number, tokens_per_sec)
        for run, of, number in zip(runs, times, sample_counts, strict=True)
    )
    requests = sum(map(len, times))
    at_a_rate = scenario.loadgen_scenario == "Server"
    return ScenarioFigures(
        scenario.name,
        "samples/s" if scenario.name == "Offline" else "queries/s",
        valid=all(row.valid for row in rows),
        reasons=tuple(f"{row.node}: {reason}" for row in rows for reason in row.reasons),
        tokens_per_sec=tokens_per_sec,
        samples_per_sec=total([of.samples_per_sec for of in figures]),
        target_qps=total([of.target_qps for of in figures]) if at_a_rate else None,
        requests=requests,
        tokens=sum(int(of.tokens.sum()) for of in times),
        answered=answered_share(requests, sum(sample_counts)),
        issued=sum(sample_counts),
        duration_s=max(filter(None, (of.duration_s for of in figures)), default=None),
        latency_ms=pooled([of.latency_ms for of in times]),
        ttft_ms=pooled([of.ttft_ms for of in times]),
        tpot_ms=pooled([of.tpot_ms for of in times]),
        nodes=rows,
        slowest=slowest(rows, at_a_rate),
        # At a fixed rate, tokens/s show the load that was sent, not what the hardware can do.
        scaling=None
        if at_a_rate
        else scaling_of(runs, [run for run in alone if run.scenario.name == scenario.name]),
        notes=tuple(filter(None, (rate_note(runs), overlap_note(runs), accuracy_note(runs)))),
    )


def pooled(of_nodes: Sequence[npt.NDArray[np.float64]]) -> Percentiles | None:
    """Mean and percentiles of all nodes' requests together; None if a node has no such times."""
    import numpy as np

    if any(len(times) and np.isnan(times).all() for times in of_nodes):
        return None
    values = distribution(np.concatenate(of_nodes))
    # To the nanosecond, as in LoadGen: a difference of two times has digits beyond that.
    return {name: round(value, 6) for name, value in values.items()} or None


def _node(
    run: NodeRun, times: RequestTimes, sample_count: int, all_tokens_per_sec: float | None
) -> AggregateNode:
    figures = run.figures
    own = figures.tokens_per_sec
    return AggregateNode(
        run.node,
        in_words(run.folder.name),
        _words(run.summary.meta.started),
        not run.reasons,
        run.reasons,
        own,
        figures.samples_per_sec,
        own / all_tokens_per_sec if own and all_tokens_per_sec else None,
        len(times),
        int(times.tokens.sum()),
        answered_share(len(times), sample_count),
        figures.duration_s,
        figures.target_qps if run.scenario.loadgen_scenario == "Server" else None,
        figures.latency_ms,
        figures.ttft_ms,
        figures.tpot_ms,
        run.summary.run.accuracy_passed,
        hardware_of(run),
        sample_count,
    )


def slowest(rows: Sequence[AggregateNode], at_a_rate: bool) -> SlowestNode | None:
    """The node with the highest TTFT p99 if queries are sent at a rate, which bounds tokens/s,
    otherwise the one with the fewest tokens/s; None if a node does not report the figure."""
    sign = -1 if at_a_rate else 1
    values: list[tuple[float, str]] = []
    for row in rows:
        value = (row.ttft_ms or {}).get("p99") if at_a_rate else row.tokens_per_sec
        if value is None:
            return None
        values.append((value, row.node))
    if len(values) < 2:
        return None
    (value, node), *rest = sorted(values, key=lambda pair: sign * pair[0])
    by, unit = ("TTFT p99", "ms") if at_a_rate else ("tokens/s", "tokens/s")
    return SlowestNode(node, by, unit, value, statistics.median(of for of, _ in rest))


def total(values: Iterable[float | None]) -> float | None:
    """The sum; None if one of the values is unknown."""
    items = list(values)
    numbers = [value for value in items if value is not None]
    return math.fsum(numbers) if numbers and len(numbers) == len(items) else None


# Scaling efficiency: what the nodes reach together, compared with one alone


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
