"""A run as flat names and values for JUnit, Allure and pytest-benchmark."""

from __future__ import annotations

from collections.abc import Mapping

from mlperf_suite.results.schema import Meta, PerformanceFigures, Summary

_META = ("benchmark", "category", "scenario", "model", "dataset", "round", "profile", "label")
_VERSIONS = ("vllm_version", "loadgen_version", "torch_version", "python_version", "cpu", "gpus")
_RATES = ("tokens_per_sec", "samples_per_sec", "qps", "duration_s", "total_new_tokens")
_TIMES = ("latency_ms", "ttft_ms", "tpot_ms")


def suite_properties(meta: Meta, system: Mapping[str, object]) -> dict[str, str]:
    """The same for every test of a session: model, round, profile, versions, hardware."""
    facts: dict[str, object] = {name: getattr(meta, name) for name in _META}
    facts |= {name: system.get(name) for name in _VERSIONS}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in facts.items()
        if value not in (None, [])
    }


def metrics(summary: Summary, mode: str) -> dict[str, float]:
    """The figures of one mode's run: rates per second, times in ms, scores in their own unit.

    Percentiles are named like `ttft_ms_p99`; figures that the run does not have are left out.
    `latency_ms_early_stopping` is early stopping's estimate of the percentile that the scenario is
    judged at, `ttft_more_queries` the number of additional queries that a Server run would have
    needed.
    """
    run = summary.run
    if mode == "performance" and run.performance is not None:
        figures = _of_performance(run.performance)
    elif mode == "accuracy" and run.accuracy is not None:
        figures = {score.name: score.value for score in run.accuracy.scores}
    else:
        figures = {}
    return {name: value for name, value in figures.items() if value is not None}


def _of_performance(run: PerformanceFigures) -> dict[str, float | None]:
    figures: dict[str, float | None] = {name: getattr(run, name) for name in _RATES}
    for times in _TIMES:
        figures |= {f"{times}_{p}": value for p, value in (getattr(run, times) or {}).items()}
    if early := run.early_stopping:
        figures |= {f"{n}_ms_early_stopping": value for n, value in early.estimates_ms.items()}
        figures |= {f"{n}_more_queries": value for n, value in early.more_queries.items()}
    return figures
