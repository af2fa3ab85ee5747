"""The rates that runs are planned for: as told, as an earlier run went, or as a probe goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.benchmarks.definition import Category
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.results.record import Result, RunKey
from mlperf_suite.results.run_folder import read_config, read_summary, run_folders

if TYPE_CHECKING:
    from mlperf_suite.session.executor import Session

_PROBE_SAMPLES = {True: 16, False: 1024}
"""Samples that measure the rate where no accuracy run did, by whether the run is a smoke run."""
_LATENCY_PROBES = 3
_SERVER_SHARE = 0.8
_RATE_HEADROOM = 1.05
"""Offline is planned for a little more than the rate seen, so that it cannot end too early."""


def target_qps(session: Session, key: RunKey, result: Result) -> float | None:
    """Queries/s that Server is sent, or samples/s that Offline is planned for."""
    settings = session.settings
    if result.scenario.loadgen_scenario == "Server":
        return settings.server_target_qps or server_rate(session, key.category)
    if result.scenario.loadgen_scenario != "Offline" or key.mode == "accuracy":
        return None
    if settings.offline_target_qps is not None:
        return settings.offline_target_qps
    return round(_measured_rate(session, key, result) * _RATE_HEADROOM, 3)


def expected_latency_ms(session: Session, key: RunKey, result: Result) -> float | None:
    """One SingleStream query's latency; LoadGen prepares as many queries as it promises."""
    if result.scenario.loadgen_scenario != "SingleStream":
        return None
    return round(1000 / _measured_rate(session, key, result, one_by_one=True), 3)


def _measured_rate(
    session: Session, key: RunKey, result: Result, *, one_by_one: bool = False
) -> float:
    """Samples/s as this result's accuracy run went, or as a probe goes."""
    accuracy = result.stages.get("accuracy")
    if accuracy is not None and accuracy.rate is not None:
        return accuracy.rate
    session.watch.stage("measuring the rate to plan for")
    prompts = session.prompts(key.category)
    if one_by_one:
        chosen = prompts[:_LATENCY_PROBES]
        probes = [generate_all(session.engine, [prompt], session.generation) for prompt in chosen]
        return len(chosen) / sum(probe.elapsed_s for probe in probes)
    chosen = prompts[: _PROBE_SAMPLES[session.settings.smoke]]
    return len(chosen) / generate_all(session.engine, chosen, session.generation).elapsed_s


def server_rate(session: Session, category: Category) -> float:
    """0.8 of the samples/s of the last Offline run of this system, made now if there is none.

    That is 0.8 x tokens/s / mean tokens per answer, and so never tokens/s itself.
    """
    offline = RunKey(category, "Offline", "performance")
    samples_per_s = None
    if not session.was_made(offline):
        config = session.config_json(category)
        samples_per_s = earlier_offline_rate(session.settings.results_dir, category, config)
    if samples_per_s is None:
        samples_per_s = session.run(offline).figures["samples_per_sec"]
    return float(f"{_SERVER_SHARE * samples_per_s:.4g}")


def earlier_offline_rate(
    results_dir: Path, category: str, config: Mapping[str, Any]
) -> float | None:
    """The samples/s of the newest kept Offline run of the system of `config`, or None."""
    system = _comparable(config)
    for folder in run_folders(results_dir):
        summary, earlier = read_summary(folder) or {}, read_config(folder) or {}
        meta, run = summary.get("meta") or {}, summary.get("run") or {}
        performance = run.get("performance") or {}
        same_kind = (meta.get("category"), meta.get("scenario")) == (category, "Offline")
        if same_kind and performance.get("valid") and _comparable(earlier) == system:
            return float(performance["samples_per_sec"])
    return None


def _comparable(config: Mapping[str, Any]) -> object:
    """What of a config.json must be equal for two runs to be of the same system."""
    engine = config.get("engine") or {}
    settings = {k: v for k, v in (engine.get("settings") or {}).items() if k != "load_s"}
    names = ("name", "version", "model", "stand_in", "max_model_len")
    return (
        [engine.get(name) for name in names],
        settings,
        config.get("prompts_sha256"),
        (config.get("settings") or {}).get("max_new_tokens"),
        config.get("system"),
    )
