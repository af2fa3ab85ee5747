"""What a plan will take, before an engine is loaded: from an earlier run, or from this kind of CPU.

Nothing heavy is imported and no data is read, so that collecting stays instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.engines.probe import Speed
from mlperf_suite.hardware import cpu_computes_bf16
from mlperf_suite.loadgen.load_plan import SMOKE
from mlperf_suite.results.record import RunKey
from mlperf_suite.results.run_folder import CONFIG_JSON, read_object, run_folders
from mlperf_suite.session import estimate
from mlperf_suite.session.estimate import Lengths
from mlperf_suite.session.plan import Plan, SearchKey, Step, plan_session
from mlperf_suite.session.rates import earlier_rates, may_be_of
from mlperf_suite.session.sizes import samples_that_fit
from mlperf_suite.session.warm_up import warm_up_requests
from mlperf_suite.settings import Settings

_TYPICAL = {
    True: ("on 2 cores that compute bf16", Speed(0.00011, 0.011, 0.0012, 256)),
    False: ("on 2 cores without bf16", Speed(0.0013, 0.02, 0.004, 256)),
}
"""The embedded model's speed on vLLM's CPU build, by whether the CPU computes bf16."""
_LOAD_S = 30.0
_MMLU_QUESTIONS, _MMLU_SHOTS = {True: 171, False: 14_042}, {True: 1, False: 5}
"""By whether the questions are the embedded ones."""


def planned(
    settings: Settings, wanted: Iterable[RunKey], searches: Iterable[SearchKey], *, mmlu: bool
) -> Plan:
    """The plan of a session under these settings."""
    wanted, searches = list(wanted), list(searches)
    ids = {key.benchmark for key in wanted} | {key.benchmark for key in searches}
    return plan_session(
        wanted,
        searches,
        mmlu=mmlu,
        repeat=settings.repeat,
        warm_up=settings.warmup != 0,
        rate_known={id_: _rate_is_known(settings, id_) for id_ in ids},
    )


def _rate_is_known(settings: Settings, benchmark: str) -> bool:
    """Whether Server's rate was told, or an Offline run of these settings was kept."""
    if settings.server_target_qps is not None:
        return True
    asked = settings.as_json()
    return any(
        may_be_of(earlier.config, asked)
        for earlier in earlier_rates(settings.results_dir, benchmark)
    )


def forecast(settings: Settings, plan: Plan) -> tuple[dict[Step, float], str]:
    """Seconds of each step and where they are known from; none, and why, where nothing tells."""
    speed, said = _earlier_speed(settings)
    if speed is None and settings.model == EMBEDDED.model:
        words, speed = _TYPICAL[cpu_computes_bf16()[0] and settings.precision != "fp32"]
        said = f"as the embedded model goes {words}; measured again once it is loaded"
    if speed is None:
        return {}, "how long that takes is said once the engine is loaded and probed"
    found = {step: _seconds(step, settings, speed) for step in plan.steps}
    return found, said


def _earlier_speed(settings: Settings) -> tuple[Speed | None, str]:
    """The speed of the newest kept run of these settings."""
    asked = settings.as_json()
    folders = run_folders(settings.results_dir) if settings.results_dir.is_dir() else []
    for folder in folders:
        config: Mapping[str, Any] = read_object(folder / CONFIG_JSON) or {}
        stand_in = (config.get("engine") or {}).get("stand_in", True)
        if stand_in or not may_be_of(config, asked):
            continue
        try:
            return Speed(**config["speed"]), f"as the run {folder.name} went"
        except (KeyError, TypeError):
            continue
    return None, ""


def _seconds(step: Step, settings: Settings, speed: Speed) -> float:
    key = step.key
    if step.kind == "load":
        return _LOAD_S
    if not isinstance(key, RunKey | SearchKey):
        embedded = settings.mmlu_data == "embedded"
        shots = settings.mmlu_shots
        questions = settings.mmlu_limit or _MMLU_QUESTIONS[embedded]
        return estimate.mmlu_s(speed, questions, _MMLU_SHOTS[embedded] if shots is None else shots)
    benchmark, smoke = BENCHMARKS[key.benchmark], settings.smoke
    scenario, workload = benchmark.scenario(key.scenario), settings.workload(benchmark)
    samples = settings.total_sample_count or workload.reference.answers
    answer = min(workload.mean_tokens, settings.max_new_tokens)
    lengths = Lengths([round(workload.prompt_tokens)] * samples, answer)
    qps = settings.server_target_qps

    def run_s(samples: int) -> float:
        return estimate.run_s(
            scenario, "performance", speed, lengths, samples, smoke=smoke, server_qps=qps
        )

    if isinstance(key, SearchKey):
        return estimate.search_s(scenario, speed, lengths, smoke=smoke)
    if step.kind == "warm-up":
        requests = warm_up_requests(scenario, settings.warmup, smoke=smoke)
        return estimate.warm_up_s(scenario, speed, lengths, requests)
    if smoke and settings.total_sample_count is None:
        most = SMOKE[scenario.loadgen_scenario].samples or samples
        samples = samples_that_fit(min(most, samples), run_s).samples
    return estimate.run_s(scenario, key.mode, speed, lengths, samples, smoke=smoke, server_qps=qps)
