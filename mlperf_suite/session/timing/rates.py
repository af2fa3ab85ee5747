"""Derives the rates that runs are planned for from earlier measurements. Pure, but reads runs.

A given rate is used as it is. Offline is planned for the rate of its accuracy run or of a probe,
Server for a share of what Offline reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.results.run_folder import CONFIG_JSON, read_object, read_summary, run_folders

SERVER_SHARE = 0.8
RATE_HEADROOM = 1.05
"""Offline is planned for slightly more than the measured rate, so that it cannot end too early."""


def server_qps(offline_samples_per_s: float) -> float:
    """Server's target QPS, to four digits, after Offline reached this many samples/s.

    This is 0.8 x tokens/s / mean tokens per answer, not a number of tokens/s.
    """
    return float(f"{SERVER_SHARE * offline_samples_per_s:.4g}")


TAIL_HEADROOM = 1.5
"""The same if a few answers are much longer than the mean: they alone run at the end of a run of
few samples, whose rate is then too low. Too long a run only costs time, too short a one is INVALID.
"""


def offline_qps(samples_per_s: float, *, tail: bool = False) -> float:
    """Samples/s that Offline is planned for, from the measured rate.

    `tail`: whether answers can be much longer than their mean.
    """
    return round(samples_per_s * (TAIL_HEADROOM if tail else RATE_HEADROOM), 3)


@dataclass(frozen=True, slots=True)
class EarlierRate:
    """The samples/s and config.json of an Offline run that was kept."""

    samples_per_s: float
    config: Mapping[str, Any]

    def is_of(self, config: Mapping[str, Any]) -> bool:
        """Whether it was made with the engine, settings and machine of this config.json."""
        return _comparable(self.config) == _comparable(config)


def earlier_rates(results_dir: Path, benchmark: str) -> list[EarlierRate]:
    """The valid Offline runs of a benchmark that were kept, newest first."""
    if not results_dir.is_dir():
        return []
    found = []
    for folder in run_folders(results_dir):
        summary = read_summary(folder)
        if summary is None or summary.run.performance is None or summary.no_result:
            continue
        same_kind = (summary.meta.benchmark, summary.meta.scenario) == (benchmark, "Offline")
        rate = summary.run.performance.samples_per_sec
        if same_kind and summary.run.performance.valid and rate:
            found.append(EarlierRate(rate, read_object(folder / CONFIG_JSON) or {}))
    return found


def may_be_of(config: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a config.json may be of these settings, as far as is known before loading."""
    then = config.get("settings") or {}
    return all(then.get(name) == settings.get(name) for name in _OF_THE_SYSTEM)


OF_ENDPOINTS = ("endpoints", "endpoint_server", "endpoint_routing", "served_model_name")
"""Settings that distinguish endpoints from each other and from a local engine."""
_OF_THE_SYSTEM = (
    "profile",
    "model",
    "dataset",
    "total_sample_count",
    "precision",
    "tensor_parallel_size",
    "max_new_tokens",
    "max_model_len",
    "gpu_memory_utilization",
    "engine_args",
    "replicas",
    "ray",
    "replica_nodes",
    "replica_cpus",
    *OF_ENDPOINTS,
)
"""Settings that distinguish one system under test from another."""
_NOT_OF_SPEED = ("load_s", "clients", "tokens_why", "replica_gpus", "replica_cores")
"""Settings in an engine's description that do not belong to the system: client processes of an
endpoint run on this side, and Ray chooses among GPUs that are alike, with the cores near them."""


def _comparable(config: Mapping[str, Any]) -> object:
    """The parts of a config.json that are equal if two runs are of the same system."""
    engine = config.get("engine") or {}
    settings = {k: v for k, v in (engine.get("settings") or {}).items() if k not in _NOT_OF_SPEED}
    names = ("name", "version", "model", "stand_in", "max_model_len")
    asked = config.get("settings") or {}
    return (
        [engine.get(name) for name in names],
        settings,
        config.get("prompts_sha256"),
        [asked.get(name) for name in ("max_new_tokens", *OF_ENDPOINTS)],
        config.get("system"),
    )
