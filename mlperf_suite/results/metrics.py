"""A performance run's figures, taken from LoadGen's log if it has them."""

from __future__ import annotations

from dataclasses import fields

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.early_stopping import early_stopping
from mlperf_suite.results.lives import life_figures
from mlperf_suite.results.schema import (
    MetricFigure,
    Percentiles,
    PerformanceFigures,
    RepeatFigures,
)
from mlperf_suite.rules.verdict import in_words

PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_LATENCY = "result_{}_percentile_latency_ns"
_TTFT = "result_first_token_{}_percentile_latency_ns"
_TPOT = "result_time_per_output_token_{}_percentile_ns"
_RATES = {
    "Offline": ("result_tokens_per_second", "result_samples_per_second"),
    "Server": ("result_completed_tokens_per_second", "result_completed_samples_per_sec"),
    "SingleStream": ("result_completed_tokens_per_second", "result_qps_with_loadgen_overhead"),
}
"""By LoadGen's scenario: the keys of tokens/s and of samples/s."""


def percentile_name(percentile: str) -> str:
    """Turn "99.00" into p99, "99.90" into p99.9."""
    return "p" + percentile.rstrip("0").rstrip(".")


def _percentiles(detail: DetailLog, key: str) -> Percentiles | None:
    """The percentiles in ms, or None if LoadGen reports none in this scenario."""
    found = {percentile_name(p): detail.milliseconds(key.format(p)) for p in PERCENTILES}
    values = {name: value for name, value in found.items() if value is not None}
    return values or None


def performance_figures(
    scenario: Scenario,
    detail: DetailLog,
    elapsed_s: float,
    tokens: int,
    timeline: Timeline | None = None,
) -> PerformanceFigures:
    """The content of run.performance in summary.json.

    LoadGen reports no TTFT and TPOT in Offline; they are None there. `elapsed_s` is how long
    LoadGen ran and `tokens` the SUT's count: the log has neither. The reason of an INVALID run is
    empty if only early stopping was not met, which `early_stopping` shows.
    """
    tokens_key, samples_key = _RATES[scenario.loadgen_scenario]
    samples_per_s = detail.number(samples_key)
    reason = detail["result_invalid_reason"]
    return PerformanceFigures(
        scenario=scenario.name,
        valid=detail["result_validity"] == "VALID",
        invalid_reason=None if reason is None else in_words(reason),
        duration_s=round(elapsed_s, 3),
        total_new_tokens=tokens,
        tokens_per_sec=detail.number(tokens_key),
        samples_per_sec=samples_per_s,
        qps=samples_per_s,
        latency_ms=_percentiles(detail, _LATENCY),
        ttft_ms=_percentiles(detail, _TTFT),
        tpot_ms=_percentiles(detail, _TPOT),
        metric=MetricFigure(scenario.metric, detail.number(scenario.metric), scenario.metric_unit),
        early_stopping=early_stopping(scenario, detail, timeline),
        target_qps=detail.number("effective_target_qps"),
        blocks={name: tuple(of) for name, of in timeline.blocks().items()} if timeline else {},
        life=life_figures(timeline, detail) if timeline else None,
        load=timeline.load if timeline else None,
    )


def repeated_figures(figures: PerformanceFigures) -> RepeatFigures:
    """The figures kept of a repeated run."""
    return RepeatFigures(**{one.name: getattr(figures, one.name) for one in fields(RepeatFigures)})
