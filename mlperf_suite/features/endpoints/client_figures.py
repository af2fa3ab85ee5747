"""A performance run's figures from the official HTTP client's files, as LoadGen's runs have them.

Rates, percentiles and early stopping's estimates are the client's own; what needs every request
(the noise within the run, goodput) is from its events.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.features.endpoints.client_results.result_files import Distribution, ResultSummary
from mlperf_suite.features.endpoints.official_client.client_answers import ClientAnswer
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.performance_figures import PERCENTILES, goodput, percentile_name
from mlperf_suite.results.schema import EarlyStopping, Percentiles, PerformanceFigures

_NS_PER_MS = 1e6
_ESTIMATED = "99.0"
"""The percentile of the latency limits."""


def client_performance(
    scenario: Scenario, summary: ResultSummary, timeline: Timeline | None
) -> PerformanceFigures:
    """The content of run.performance. `valid` is None: the client has no verdict of its own."""
    load = summary.run_config.load_pattern if summary.run_config else None
    series = {"latency": summary.latency, "ttft": summary.ttft, "tpot": summary.tpot}
    estimates = {name: of.early_stopping_percentiles.get(_ESTIMATED) for name, of in series.items()}
    return PerformanceFigures(
        scenario=scenario.name,
        duration_s=None if summary.duration_ns is None else round(summary.duration_ns / 1e9, 3),
        total_new_tokens=round(summary.output_sequence_lengths.total or 0),
        tokens_per_sec=summary.tps,
        samples_per_sec=summary.qps,
        qps=summary.qps,
        latency_ms=_percentiles(summary.latency),
        ttft_ms=_percentiles(summary.ttft),
        tpot_ms=_percentiles(summary.tpot),
        early_stopping=EarlyStopping(
            percentile=float(_ESTIMATED),
            estimates_ms={
                n: None if ns is None else ns / _NS_PER_MS for n, ns in estimates.items()
            },
        )
        if scenario.limits
        else None,
        target_qps=load.target_qps if load else None,
        blocks={name: tuple(of) for name, of in timeline.blocks().items()} if timeline else {},
        goodput=goodput(timeline, scenario.limits, summary.qps),
    )


def _percentiles(series: Distribution) -> Percentiles | None:
    """In ms by name; None if nothing was measured."""
    by_number = {float(name): ns for name, ns in series.percentiles.items()}
    values = {percentile_name(p): by_number.get(float(p)) for p in PERCENTILES}
    return {name: ns / _NS_PER_MS for name, ns in values.items() if ns is not None} or None


def client_timeline(
    answers: Sequence[ClientAnswer], tokens: Sequence[int], prompt_lengths: Sequence[int]
) -> Timeline | None:
    """The timeline of the requests that ended; None if there are none.

    `tokens`: of each answer. `prompt_lengths`: in tokens, by the sample's number.
    """
    if not answers:
        return None
    begin = min(answer.issued_ns for answer in answers)
    streamed = all(answer.first_ns is not None for answer in answers)
    return Timeline(
        issued_ms=[_ms(answer.issued_ns, begin) for answer in answers],
        first_token_ms=[_ms(answer.first_ns, begin) for answer in answers] if streamed else None,
        finished_ms=[_ms(answer.ended_ns, begin) for answer in answers],
        tokens=tokens,
        samples=[answer.sample for answer in answers],
        prompt_tokens=[prompt_lengths[answer.sample] for answer in answers],
        preempted=[0] * len(answers),
    )


def _ms(moment_ns: int | None, begin_ns: int) -> float:
    return round(((moment_ns or begin_ns) - begin_ns) / _NS_PER_MS, 3)
