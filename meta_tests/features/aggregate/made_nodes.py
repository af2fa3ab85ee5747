"""Runs of nodes that were never made: folders as a session leaves them, their logs and timelines of
the same requests."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meta_tests.made_runs import line
from mlperf_suite.benchmarks.request_times import SHARES, distribution
from mlperf_suite.errors import RefusedError
from mlperf_suite.features.aggregate.aggregate import aggregate_runs
from mlperf_suite.loadgen.logs import DETAIL, POWER_FORMAT
from mlperf_suite.loadgen.timeline import Timeline, write_timeline
from mlperf_suite.results.run_folder import RunFolder

STARTED = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
Row = tuple[float, float, float, int]
"""When a request was issued, had its first token and its last, in ms, and its output tokens."""
ROWS: tuple[Row, ...] = tuple(
    (100.0 * n, 100.0 * n + 50 + n, 100.0 * n + 550 + 3 * n, 50 + n % 7) for n in range(100)
)
OFFICIAL: dict[str, Any] = {
    "category": "datacenter",
    "benchmark": "llama3.1-8b",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "dataset": "cnn_dailymail",
    "samples": 13368,
    "max_new_tokens": 128,
    "round": "v6.1",
    "profile": "official",
    "label": "official rules of round v6.1",
    "status": "complete",
}
SETTINGS: dict[str, Any] = {
    "mode": "both",
    "warmup": None,
    "max_model_len": None,
    "engine_args": {},
    "results_dir": "results",
    "server_target_qps": None,
    "generation": {"temperature": 0.0, "top_k": 1},
}
ENGINE: dict[str, Any] = {
    "name": "vLLM",
    "version": "0.32.0",
    "model": "m",
    "stand_in": False,
    "settings": {"dtype": "bfloat16", "kv_cache_dtype": "auto", "max_num_seqs": 1024},
}


@dataclass
class MadeNode:
    """What a node's run is made of. `log_keys`: keys of its detail log in place of those of its
    rows. `began`: when LoadGen began to issue. `zone`: the machine's time zone, from UTC.
    `repeats`: tokens/s of further runs."""

    node: str | None = "node-a"
    scenario: str = "Server"
    rows: Sequence[Row] = ROWS
    tokens_per_sec: float = 1000.0
    samples_per_sec: float = 10.0
    target_qps: float | None = 10.0
    meta: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    engine_settings: Mapping[str, Any] = field(default_factory=dict)
    data: str = "d1"
    prompts: str = "p1"
    system: Mapping[str, Any] = field(default_factory=dict)
    verdicts: Sequence[Mapping[str, str]] = ()
    log_keys: Mapping[str, Any] = field(default_factory=dict)
    began: datetime = STARTED
    zone: timedelta = timedelta(hours=9)
    repeats: Sequence[float] = ()
    from_loadgen: bool = True
    accuracy: bool = True
    performance: bool = True

    @property
    def streams(self) -> bool:
        return self.scenario != "Offline"

    def log(self) -> dict[str, Any]:
        """The detail log's keys and values, in nanoseconds as LoadGen has them."""
        issued_ms, first, ended_ms, tokens = (
            np.asarray(column) for column in zip(*self.rows, strict=True)
        )
        ends = self.began + timedelta(milliseconds=float(ended_ms.max()))
        offline = self.scenario == "Offline"
        completed = "result_completed_{}" if not offline else "result_{}"
        many_tokens = tokens > 1
        tpot = (ended_ms - first)[many_tokens] / (tokens[many_tokens] - 1)
        detail: dict[str, Any] = {
            # The time in the machine's own zone, whatever its Z says.
            "test_datetime": f"{self.began + self.zone:%Y-%m-%dT%H:%M:%SZ}",
            "power_begin": f"{self.began:{POWER_FORMAT}}"[:-3],
            "power_end": f"{ends:{POWER_FORMAT}}"[:-3],
            "effective_target_qps": self.target_qps,
            "effective_min_duration_ms": 600000,
            "effective_qsl_rng_seed": 1,
            "generated_query_count": 1 if offline else len(self.rows),
            "generated_samples_per_query": len(self.rows) if offline else 1,
            "result_query_count": 1 if offline else len(self.rows),
            "result_validity": "VALID",
            completed.format("tokens_per_second"): self.tokens_per_sec,
            "result_samples_per_second" if offline else "result_completed_samples_per_sec": (
                self.samples_per_sec
            ),
        }
        detail |= _percentile_keys("result_{}_percentile_latency_ns", ended_ms - issued_ms)
        if self.streams:
            detail |= _percentile_keys(
                "result_first_token_{}_percentile_latency_ns", first - issued_ms
            )
            detail |= _percentile_keys("result_time_per_output_token_{}_percentile_ns", tpot)
        return {**detail, **self.log_keys}

    def write(self, results: Path) -> Path:
        """Make the run's folder among these results; its path."""
        benchmark = {**OFFICIAL, **self.meta}["benchmark"]
        folder = RunFolder(results, str(benchmark), self.scenario, STARTED)
        folder.performance.mkdir()
        log = "\n".join(line(key, value) for key, value in self.log().items())
        (folder.performance / DETAIL).write_text(log)
        issued_ms, first, ended_ms, tokens = zip(*self.rows, strict=True)
        count = len(issued_ms)
        timeline = Timeline(
            *(issued_ms, first if self.streams else None, ended_ms, tokens),
            samples=range(count),
            prompt_tokens=[10] * count,
            preempted=[0] * count,
            parts_ms={"engine": list(map(operator.sub, ended_ms, issued_ms))},
            from_loadgen=self.from_loadgen,
        )
        write_timeline(folder.performance, timeline)
        engine_settings = {**ENGINE["settings"], **self.engine_settings}
        config = {
            "suite_version": "0.1.0",
            "settings": {**SETTINGS, "node_name": self.node, **self.settings},
            "engine": {**ENGINE, "settings": engine_settings, **self.engine},
            "dataset": {"name": "d", "samples": 13368, "sha256": self.data},
            "prompts_sha256": self.prompts,
        }
        folder.write("config.json", config)
        folder.record_checksums()
        performance = {
            "valid": True,
            "duration_s": max(ended_ms) / 1000,
            "repeats": [{"tokens_per_sec": value} for value in self.repeats],
        }
        scores = {"total_samples": 13368, "passed": True, "scores": []}
        runs = {"performance": performance} if self.performance else {}
        runs |= {"accuracy": scores} if self.accuracy else {}
        own = {"scenario": self.scenario, "started": STARTED.isoformat(), "node_name": self.node}
        summary = {
            "schema_version": 6,
            "meta": {**OFFICIAL, **own, **self.meta},
            "system": {"cpu": "a cpu", "gpus": ["H100", "H100"], "gpu_count": 2, **self.system},
            "run": runs,
            "verdicts": list(self.verdicts),
        }
        folder.write("summary.json", summary)
        folder.give_up_room()
        return folder.path


def _percentile_keys(key: str, values_ms: Any) -> dict[str, int]:
    values = distribution(values_ms)
    return {key.format(f"{share * 100:.2f}"): round(values[n] * 1e6) for n, share in SHARES.items()}


def make_nodes(results: Path, *nodes: MadeNode) -> list[Path]:
    """The folders of these runs, each node's among results of its own."""
    return [node.write(results / f"{number}") for number, node in enumerate(nodes)]


def refusals(*paths: Path, alone: tuple[Path, ...] = ()) -> list[str]:
    """Why runs are no aggregate: each reason, on a line of its own."""
    with pytest.raises(RefusedError) as error:
        aggregate_runs(paths, STARTED, alone)
    for reason in error.value.reasons:
        assert "\n" not in reason
    return list(error.value.reasons)
