"""Plans a session and forecasts its duration before an engine is loaded, from the runs that were
kept or the kind of CPU.

Imports nothing heavy and reads no data, so that collection stays instant.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, Benchmark
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.hardware import cpu_computes_bf16, describe_system
from mlperf_suite.results.comparability import Aspect, differences, identity_of
from mlperf_suite.results.record import RunKey
from mlperf_suite.results.run_folder import read_config, read_summary, run_folders
from mlperf_suite.results.schema import Config, Summary
from mlperf_suite.session.plan import (
    Plan,
    SearchKey,
    Selection,
    Step,
    clock,
    is_at_a_rate,
    plan_session,
)
from mlperf_suite.session.timing.estimate import Estimator, Lengths
from mlperf_suite.session.timing.probe import Speed
from mlperf_suite.settings import Settings

_TYPICAL = {
    True: ("on 2 cores that compute bf16", Speed(0.00034, 0.031, 0.0006, 128)),
    False: ("on 2 cores without bf16", Speed(0.0016, 0.05, 0.0034, 128)),
}
"""The embedded model's speed on vLLM's CPU build, by whether the CPU computes bf16."""
_OF_SPEED: tuple[Aspect, ...] = ("engine", "capacity", "release", "surroundings")
"""What two runs of one speed have in common: everything but what was asked of the system."""
_MMLU_QUESTIONS, _MMLU_SHOTS = {True: 171, False: 14_042}, {True: 1, False: 5}
"""The number of questions and of shots, by whether the questions are the embedded ones."""


def planned(
    settings: Settings,
    runs: Collection[RunKey],
    searches: Collection[SearchKey],
    *,
    mmlu: bool,
    engine: bool = False,
) -> Plan:
    """The plan of a session under these settings; see `Selection`."""
    keys: list[RunKey | SearchKey] = [*runs, *searches]
    at_a_rate = {key.benchmark for key in keys if is_at_a_rate(key)}
    return plan_session(
        Selection(
            runs,
            searches,
            mmlu=mmlu,
            repeat=settings.repeat,
            warm_up=settings.warmup != 0,
            rates_known=[id_ for id_ in sorted(at_a_rate) if _rate_is_known(settings, id_)],
            offline_rate_given=settings.offline_target_qps is not None,
            profiled=settings.profile_run is not None,
            remote=settings.engine_kind == "endpoint",
            idle_power=settings.energy != "off",
            scaling=bool(settings.scaling),
            engine=engine,
        )
    )


def _rate_is_known(settings: Settings, benchmark: str) -> bool:
    """Whether Server's rate was given, or an Offline run of these settings was kept."""
    if settings.server_target_qps is not None:
        return True
    config = Config(settings=settings.as_json(BENCHMARKS[benchmark]), system=describe_system())
    return kept_rate(settings.results_dir, benchmark, config) is not None


def kept_rate(results_dir: Path, benchmark: str, config: Config) -> float | None:
    """The samples/s of the newest valid Offline run of a benchmark that was kept and is of the same
    system and measurement; None if there is none.

    `config`: of this session, as far as it is known: without an engine until that is loaded.
    """
    # Settings count as given, whatever an engine makes of auto: the plan, which is made before the
    # engine is loaded, and the session take the same rate.
    identity = replace(identity_of(config), reports={})
    for folder in run_folders(results_dir):
        summary = read_summary(folder)
        if summary is None or summary.run.performance is None or summary.no_result:
            continue
        is_offline = (summary.meta.benchmark, summary.meta.scenario) == (benchmark, "Offline")
        rate = summary.run.performance.samples_per_sec
        if not (is_offline and summary.run.performance.valid and rate):
            continue
        kept = Config.read(read_config(folder))
        to_both = config.engine is None
        if kept.settings and not differences(identity_of(kept), identity, known_to_both=to_both):
            return rate
    return None


@dataclass(frozen=True, slots=True)
class Forecast:
    """`seconds` of each step, and their `source` in words: without any, when they will be known.

    `kept`: whether they are from an earlier run on this machine, and so hold for the session.
    """

    seconds: dict[Step, float]
    source: str
    kept: bool = False


def forecast(settings: Settings, plan: Plan) -> Forecast:
    """How long each step of a plan takes, as far as it is known before an engine is loaded."""
    kept = _earlier_run(settings)
    speed, source = (kept.speed, f"estimated from the run {kept.name}") if kept else (None, "")
    remote = settings.engine_kind == "endpoint"
    if speed is None and settings.model == EMBEDDED.model and not remote:
        words, speed = _TYPICAL[cpu_computes_bf16()[0] and settings.precision != "fp32"]
        source = f"estimated from the embedded model {words}; measured once it is loaded"
    if speed is None:
        ready = "endpoint answered and was" if remote else "engine is loaded and"
        least_s = 0.0 if settings.smoke else _least_s(plan)
        least = f"at least {clock(least_s)} by MLPerf's minimum durations; " if least_s else ""
        return Forecast({}, f"{least}the time is estimated once the {ready} probed")
    estimator = _estimator(settings, speed)
    seconds = {s: t for s in plan.steps if (t := estimator.seconds(s)) is not None}
    if kept:
        seconds = {step: kept.seconds(step, estimate) for step, estimate in seconds.items()}
    return Forecast(seconds, source, kept is not None)


def _least_s(plan: Plan) -> float:
    """How long the performance runs of an official session last at least."""
    keys = [step.key for step in plan.steps if step.kind == "run"]
    performance = [k for k in keys if isinstance(k, RunKey) and k.mode == "performance"]
    return len(performance) * MIN_DURATION_MS / 1e3


def _estimator(settings: Settings, speed: Speed) -> Estimator:
    """An estimator based on what benchmarks declare about their data, without reading it."""
    embedded, shots = settings.mmlu_data == "embedded", settings.mmlu_shots

    def available(benchmark: Benchmark, mode: Mode) -> int:
        own = settings.workload(benchmark).own_samples
        return settings.total_sample_count or own or benchmark.samples_of(mode)

    def lengths(benchmark: Benchmark, mode: Mode) -> Lengths:
        workload = settings.workload(benchmark)
        most = settings.generation(benchmark, mode).max_new_tokens
        answer = min(workload.part(mode).mean_tokens, most)
        return Lengths([round(workload.prompt_tokens)] * available(benchmark, mode), answer)

    return Estimator(
        settings,
        speed,
        lengths,
        available,
        {},
        settings.mmlu_limit or _MMLU_QUESTIONS[embedded],
        _MMLU_SHOTS[embedded] if shots is None else shots,
    )


@dataclass(frozen=True, slots=True)
class _KeptRun:
    """A run of this system. `took_s`: its steps, by what they are. `share`: how long those took
    that were estimated, relative to their estimates."""

    name: str
    speed: Speed
    took_s: dict[str, float]
    share: float

    def seconds(self, step: Step, estimate_s: float) -> float:
        """How long a step takes that was estimated from the run's speed."""
        if step.kind in ("load", "probe"):
            return self.took_s.get(step.what, estimate_s)
        return estimate_s * self.share


def _earlier_run(settings: Settings) -> _KeptRun | None:
    """The newest kept run of this system."""
    identity = identity_of(Config(settings=settings.as_json(), system=describe_system()))
    for folder in run_folders(settings.results_dir):
        content = read_config(folder) or {}
        config = Config.read(content)
        made_up = config.engine is None or config.engine.stand_in
        if made_up or differences(identity_of(config), identity, _OF_SPEED, known_to_both=True):
            continue
        try:
            speed = Speed(**content["speed"])
        except (KeyError, TypeError):
            continue
        rows = (read_summary(folder) or Summary()).plan
        took_s = {row.what: row.took_s for row in rows if row.took_s is not None}
        estimates = {r.what: r.estimated_s for r in rows if r.estimated_s and r.what in took_s}
        together_s = sum(estimates.values())
        share = sum(took_s[what] for what in estimates) / together_s if together_s else 1.0
        return _KeptRun(folder.name, speed, took_s, share)
    return None
