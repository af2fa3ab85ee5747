"""What CI is told of a run: flat names and values, for JUnit, Allure and pytest-benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlperf_suite.results.reading import number, part

_META = ("benchmark", "category", "scenario", "model", "dataset", "round", "profile", "label")
_VERSIONS = ("vllm_version", "loadgen_version", "torch_version", "python_version", "cpu", "gpus")
_RATES = ("tokens_per_sec", "samples_per_sec", "qps", "duration_s", "total_new_tokens")


def suite_properties(meta: Mapping[str, Any], system: Mapping[str, Any]) -> dict[str, str]:
    """What holds for every test of a session: model, round, profile, versions, hardware."""
    found = {name: meta[name] for name in _META if meta.get(name) is not None}
    found |= {name: system[name] for name in _VERSIONS if system.get(name) not in (None, [])}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in found.items()
    }


def metrics(summary: Mapping[str, Any], mode: str) -> dict[str, float]:
    """The figures of one mode's run: rates per second, times in ms, scores in percent.

    A percentile is `ttft_ms_p99`; what the run has no figure of is left out. Early stopping's
    estimate is `latency_ms_early_stopping`, of the percentile that the scenario is judged at, and
    `ttft_more_queries` the number that a Server run would have needed on top.
    """
    stage = part(summary, "run", mode)
    found = {name: number(stage, name) for name in _RATES}
    for times in ("latency_ms", "ttft_ms", "tpot_ms"):
        found |= {f"{times}_{p}": number(stage, times, p) for p in part(stage, times)}
    for kind, suffix in (("estimates_ms", "_ms_early_stopping"), ("more_queries", "_more_queries")):
        found |= {
            f"{name}{suffix}": number(stage, "early_stopping", kind, name)
            for name in part(stage, "early_stopping", kind)
        }
    found |= {name: number(stage, "rouge", name) for name in part(stage, "rouge")}
    for name in ("run_gen_len", "run_gen_num"):
        found[name] = number(stage, name)
    return {name: value for name, value in found.items() if value is not None}
