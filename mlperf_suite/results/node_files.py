"""The files that users of the node script parse, for one session.

Names and fields are those of mlperf_datacenter_benchmark.py and its coordinator
(github.com/jshim0978/MLPerf_local_test): latency_p99 in ms, achieved_qps in queries/s or samples/s,
accuracy from 0 to 1. There it was always 1; here it is the share of queries that were answered. An
entry that is not a valid result has `valid` false and the cause in `reason`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from mlperf_suite.results.performance_figures import answered_share, issued_samples, read_detail
from mlperf_suite.results.run_folder import read_config, write_json
from mlperf_suite.results.schema import (
    STAND_IN_LABEL,
    Config,
    Percentiles,
    PerformanceFigures,
    Summary,
)
from mlperf_suite.rules.verdict import in_words
from mlperf_suite.untrusted_files import printable

TIME = "%Y%m%d_%H%M%S"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_OFFICIAL = "official"
"""The profile that applies MLPerf's own rules; every other one shortens them."""
CATEGORY = "datacenter"
"""The category of benchmarks that these files cover."""


class EntryFigures(Protocol):
    """The figures of an entry of `scenarios`: of one node's run, or of several nodes'."""

    @property
    def samples_per_sec(self) -> float | None: ...
    @property
    def target_qps(self) -> float | None: ...
    @property
    def tokens_per_sec(self) -> float | None: ...
    @property
    def latency_ms(self) -> Percentiles | None: ...
    @property
    def ttft_ms(self) -> Percentiles | None: ...
    @property
    def tpot_ms(self) -> Percentiles | None: ...
    @property
    def duration_s(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class NodeResult:
    """A result of the session: its final summary, its folder, and its start time."""

    summary: Summary
    folder: Path
    started: datetime


def file_part(node: str) -> str:
    """A node's name, made valid as a part of a file name."""
    return _NOT_IN_A_NAME.sub("_", node).lstrip(".") or "_"


def scenario_json(
    scenario: str,
    figures: EntryFigures | None,
    reasons: Sequence[str],
    issued: int | None,
    answers: int | None,
) -> dict[str, Any]:
    """One entry of `scenarios`; times in ms, None where none were measured.

    `reasons`: why it is not a valid result. `issued`, `answers`: the number of samples that LoadGen
    issued, and of those that were answered.
    """
    of: EntryFigures = figures or PerformanceFigures()
    return {
        "scenario": scenario,
        "valid": not reasons,
        **({"reason": "; ".join(reasons)} if reasons else {}),
        "achieved_qps": of.samples_per_sec,
        "target_qps": of.target_qps,
        **{
            f"{name}_{percentile}": (times or {}).get(percentile)
            for name, times, percentiles in (
                ("latency", of.latency_ms, ("p50", "p90", "p99")),
                ("ttft", of.ttft_ms, ("p50", "p99")),
                ("tpot", of.tpot_ms, ("p50", "p99")),
            )
            for percentile in percentiles
        },
        "throughput_tokens_per_sec": of.tokens_per_sec,
        "accuracy": answered_share(answers, issued),
        "total_queries": issued,
        "successful_queries": answers,
        "duration_ms": None if of.duration_s is None else of.duration_s * 1e3,
    }


def write_node_files(results_dir: Path, node: str, results: Iterable[NodeResult]) -> list[Path]:
    """Write the files of a session's datacenter results, a pair per benchmark; returns their paths.

    The time in a name is the start of the benchmark's first result. Raises OSError.
    """
    by_benchmark: dict[str, list[NodeResult]] = {}
    for result in results:
        if result.summary.meta.category == CATEGORY:
            by_benchmark.setdefault(result.summary.meta.benchmark or "", []).append(result)
    paths: list[Path] = []
    names: Counter[str] = Counter()
    for of_benchmark in by_benchmark.values():
        content = _session_json(node, of_benchmark)
        name = f"{file_part(node)}_{content['benchmark_info']['timestamp']}"
        names[name] += 1
        # A second benchmark started in the same second gets a number.
        end = name if names[name] == 1 else f"{name}-{names[name]}"
        paths += [results_dir / f"mlperf_datacenter_{end}.json", results_dir / f"summary_{end}.txt"]
        write_json(paths[-2], content)
        paths[-1].write_text(_text(content), encoding="utf-8")
    return paths


def _session_json(node: str, results: Sequence[NodeResult]) -> dict[str, Any]:
    meta, first = results[0].summary.meta, min(result.started for result in results)
    return {
        "benchmark_info": {
            "benchmark": meta.benchmark,
            "model": meta.model,
            "timestamp": f"{first:{TIME}}",
            "node": node,
            "round": meta.round,
            "profile": meta.profile,
            "label": meta.rules,
        },
        "scenarios": {str(result.summary.meta.scenario): _scenario(result) for result in results},
    }


def _scenario(result: NodeResult) -> dict[str, Any]:
    figures = result.summary.run.performance
    reasons = why_no_result(result.summary, Config.read(read_config(result.folder)), figures)
    sample_count = answers = None
    if figures is not None and figures.life is not None:
        sample_count = issued_samples(read_detail(result.folder), result.summary.meta.scenario)
        answers = figures.life.requests
    scenario = str(result.summary.meta.scenario)
    return {
        **scenario_json(scenario, figures, reasons, sample_count, answers),
        "accuracy_passed": result.summary.run.accuracy_passed,
        "run": result.folder.name,
    }


def _text(content: Mapping[str, Any]) -> str:
    """The content of summary_<node>_<time>.txt."""
    info = content["benchmark_info"]
    head = f"{info['benchmark']} on {info['node']}"
    lines = [
        head,
        "=" * len(head),
        str(info["label"]),
        "",
        f"Model: {info['model']}",
        f"Round: {info['round']}, profile {info['profile']}",
        f"Timestamp: {info['timestamp']}",
    ]
    for name, entry in content["scenarios"].items():
        lines += ["", f"{name}: {'VALID' if entry['valid'] else 'NOT VALID'}"]
        lines += [f"  Reason: {entry['reason']}"] if not entry["valid"] else []
        rate = "samples/s" if name == "Offline" else "queries/s"
        lines += [
            f"  Achieved: {_number(entry['achieved_qps'])} {rate}, "
            f"target {_number(entry['target_qps'])}",
            f"  Latency p99: {_number(entry['latency_p99'])} ms",
            *(f"  {of.upper()} p99: {_number(entry[f'{of}_p99'])} ms" for of in ("ttft", "tpot")),
            f"  Throughput: {_number(entry['throughput_tokens_per_sec'])} tokens/s",
            f"  Accuracy (share of queries answered): {_number(entry['accuracy'], 4)}",
        ]
    return "\n".join(map(printable, lines)) + "\n"


def _number(value: float | None, digits: int = 2) -> str:
    return "not reported" if value is None else f"{value:,.{digits}f}"


# Whether a run is a result


def labels_of(summary: Summary, config: Config) -> tuple[str, ...]:
    """The marks that must be shown with a run's figures, valid or not: a stand-in engine, shortened
    rules, a limiting client or a profiler."""
    meta, marks = summary.meta, [summary.no_result]
    if config.engine is not None and config.engine.stand_in:
        marks.append(STAND_IN_LABEL)
    if meta.profile != _OFFICIAL:
        marks.append(f"{in_words(meta.profile or 'unknown profile')}: not an MLPerf result")
    return tuple(filter(None, marks))


def why_no_result(
    summary: Summary, config: Config, performance: PerformanceFigures | None
) -> tuple[str, ...]:
    """Why a performance run is not a valid result, a few words for each reason; empty if it is one.

    `performance`: its figures, None if it has none.
    """
    meta, reasons = summary.meta, list(labels_of(summary, config))
    if meta.status not in ("complete", "invalid"):
        reasons.append(f"{in_words(meta.status)}: {in_words(meta.reason or 'it did not end')}")
    if performance is None:
        reasons.append("no performance run")
    elif not performance.valid:
        why = performance.invalid_reason
        reasons.append(f"LoadGen: INVALID{f': {in_words(why)}' if why else ''}")
    for status in ("failed", "shortened"):
        rules = dict.fromkeys(v.rule for v in summary.verdicts if v.status == status)
        if rules:
            reasons.append(f"rules {status}: {', '.join(map(in_words, rules))}")
    return tuple(reasons)
