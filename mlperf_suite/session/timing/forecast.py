"""Plans a session and forecasts its duration before an engine is loaded, from the runs that were
kept or the kind of CPU.

Imports nothing heavy and reads no data, so that collection stays instant; the reader of kept runs
is imported where there can be some.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.engines.vllm_environment import is_cpu_build
from mlperf_suite.hardware import cpu_computes_bf16
from mlperf_suite.session.companion import companion_kinds, profile_of
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.session.plan import Plan, duration_words, plan_session
from mlperf_suite.session.run_kind import Selection, Step, StepKey, kind_of
from mlperf_suite.session.timing.estimate import EngineSpeed, Estimator, TokenLengths

if TYPE_CHECKING:
    from mlperf_suite.benchmarks.audits import Mode
    from mlperf_suite.session.timing.earlier_runs import EarlierRun
    from mlperf_suite.settings import Settings

_TYPICAL = {
    True: ("on 2 cores that compute bf16", EngineSpeed(0.00034, 0.031, 0.0006, 128)),
    False: ("on 2 cores without bf16", EngineSpeed(0.0016, 0.05, 0.0034, 128)),
}
"""The embedded model's speed on vLLM's CPU build, by whether the CPU computes bf16."""


def planned(
    settings: Settings,
    keys: Sequence[StepKey],
    scored: Collection[StepKey] = (),
    *,
    engine: bool = False,
) -> Plan:
    """The plan of a session under these settings; see `Selection`."""
    at_a_rate = {key.benchmark for key in keys if kind_of(key).is_at_a_rate(key)}
    return plan_session(
        Selection(
            keys,
            scored,
            repeat=settings.repeat,
            warm_up=settings.warmup != 0,
            warm_up_once=settings.smoke and settings.warmup is None,
            rates_known=[id_ for id_ in sorted(at_a_rate) if _rate_is_known(settings, id_)],
            offline_rate_given=settings.offline_target_qps is not None,
            profiled=profile_of(settings) is not None,
            remote=source_of(settings).is_remote,
            of_features=[
                Step(word, None, what)
                for companion in companion_kinds()
                for word, what in companion.steps(settings).items()
            ],
            of_engine=source_of(settings).steps(settings),
            engine=engine,
        )
    )


def _rate_is_known(settings: Settings, benchmark: str) -> bool:
    """Whether Server's rate was given, or an Offline run of these settings was kept."""
    if settings.server_target_qps is not None:
        return True
    if not has_results(settings):
        return False
    from mlperf_suite.session.timing.earlier_runs import rate_is_kept

    return rate_is_kept(settings, benchmark)


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
    known = _seconds(settings, plan, None)
    if plan.keys and not plan.at_engine and plan.is_known(known):
        return Forecast(known, "estimated from the last kept run of each", kept=True)
    kept = _earlier_run(settings)
    speed, source = (kept.speed, f"estimated from the run {kept.name}") if kept else (None, "")
    remote = source_of(settings).is_remote
    is_typical = settings.model == EMBEDDED.model and not remote and is_cpu_build()
    if speed is None and is_typical:
        words, speed = _TYPICAL[cpu_computes_bf16()[0] and settings.precision != "fp32"]
        source = f"estimated from the embedded model {words}; measured once it is loaded"
    if speed is None and plan.keys and not plan.at_engine:
        return Forecast({}, "the time is not known: no run that shows it was kept")
    if speed is None:
        ready = "endpoint answered and was" if remote else "engine is loaded and"
        least_s = 0.0 if settings.smoke else _least_s(plan)
        least = (
            f"at least {duration_words(least_s)} by MLPerf's minimum durations; " if least_s else ""
        )
        return Forecast({}, f"{least}the time is estimated once the {ready} probed")
    seconds = _seconds(settings, plan, speed)
    if kept:
        long = {s: t for s, t in known.items() if s.kind not in ("load", "probe")}
        seconds = {s: kept.seconds(s, estimate) for s, estimate in seconds.items()} | long
    return Forecast(seconds, source, kept is not None)


def _seconds(settings: Settings, plan: Plan, speed: EngineSpeed | None) -> dict[Step, float]:
    """The steps whose time is known, on an engine of this speed or of any."""
    estimator = _estimator(settings, speed)
    return {s: t for s in plan.steps if (t := estimator.seconds(s)) is not None}


def _least_s(plan: Plan) -> float:
    """How long the performance runs of an official session last at least."""
    made = [(kind_of(step.key), step) for step in plan.steps if step.key is not None]
    return sum(kind.least_s(step.key) for kind, step in made if step.kind in kind.long_steps)


def _estimator(settings: Settings, speed: EngineSpeed | None) -> Estimator:
    """An estimator based on what benchmarks declare about their data, without reading it."""

    def available(benchmark: Benchmark, mode: Mode) -> int:
        own = settings.workload(benchmark).own_samples
        return settings.total_sample_count or own or benchmark.samples_of(mode)

    def lengths(benchmark: Benchmark, mode: Mode) -> TokenLengths:
        workload = settings.workload(benchmark)
        most = settings.generation(benchmark, mode).max_new_tokens
        answer = min(workload.part(mode).mean_tokens, most)
        return TokenLengths([round(workload.prompt_tokens)] * available(benchmark, mode), answer)

    return Estimator(settings, speed, lengths, available, {}, lambda kind: None)


def _earlier_run(settings: Settings) -> EarlierRun | None:
    """The newest kept run of this system."""
    if not has_results(settings):
        return None
    from mlperf_suite.session.timing.earlier_runs import earlier_run

    return earlier_run(settings)


def has_results(settings: Settings) -> bool:
    """Whether there can be kept runs; if not, their reader is not imported."""
    return any(settings.results_dir.glob("*/"))
