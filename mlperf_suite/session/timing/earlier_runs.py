"""What the runs that were kept on this machine teach: Server's rate, and how long steps take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.hardware import cpu_computes_bf16, describe_system
from mlperf_suite.results import typed_json
from mlperf_suite.results.comparability import Aspect, differences, identity_of
from mlperf_suite.results.run_folder import FINAL_STATUSES, read_config, read_summary, run_folders
from mlperf_suite.results.schema import Config, Summary
from mlperf_suite.session.run_kind import BenchmarkAndScenario, Step
from mlperf_suite.session.timing.estimate import EngineSpeed
from mlperf_suite.settings import Settings

_OF_SPEED: tuple[Aspect, ...] = ("engine", "capacity", "release", "surroundings")
"""What two runs of one speed have in common: everything but the measurement."""

_COMPARED: tuple[Aspect, ...] = ("measurement", "engine", "capacity")
"""What two runs that are compared have in common."""


def rate_is_kept(settings: Settings, benchmark: str) -> bool:
    """Whether an Offline run of these settings was kept."""
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
        by_client = summary.meta.load_generator is not None
        if not (is_offline and (summary.run.performance.valid or by_client) and rate):
            continue
        kept = Config.read(read_config(folder))
        to_both = config.engine is None
        if kept.settings and not differences(identity_of(kept), identity, known_to_both=to_both):
            return rate
    return None


def kept_samples(results_dir: Path, place: BenchmarkAndScenario, config: Config) -> int | None:
    """The samples of the newest kept run of a benchmark's scenario that the regression gate would
    compare with this session's; None if there is none. `config`: of this session."""
    identity = identity_of(config)
    for folder in run_folders(results_dir):
        meta = (read_summary(folder) or Summary()).meta
        if meta.kind == place and meta.status in FINAL_STATUSES and meta.samples:
            kept = identity_of(Config.read(read_config(folder)))
            if not differences(kept, identity, _COMPARED, known_to_both=True):
                return meta.samples
    return None


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run of this system. `took_s`: its steps, by what they are. `share`: how long those took
    that were estimated, relative to their estimates."""

    name: str
    speed: EngineSpeed
    took_s: dict[str, float]
    share: float

    def seconds(self, step: Step, estimate_s: float) -> float:
        """How long a step takes that was estimated from the run's speed."""
        if step.kind in ("load", "probe"):
            return self.took_s.get(step.what, estimate_s)
        return estimate_s * self.share


def earlier_run(settings: Settings) -> EarlierRun | None:
    """The newest kept run of this system that measured its speed."""
    for folder, content in runs_of_this_system(settings):
        if (speed := typed_json.read(EngineSpeed, content.get("speed"))) is None:
            continue
        summary = read_summary(folder) or Summary()
        # A step that died took as long as it lived.
        rows = summary.plan if summary.meta.status in FINAL_STATUSES else ()
        took_s = {row.what: row.took_s for row in rows if row.took_s is not None}
        estimates = {r.what: r.estimated_s for r in rows if r.estimated_s and r.what in took_s}
        together_s = sum(estimates.values())
        share = sum(took_s[what] for what in estimates) / together_s if together_s else 1.0
        return EarlierRun(folder.name, speed, took_s, share)
    return None


def runs_of_this_system(settings: Settings) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folders of the kept runs that were as fast as one will be, newest first, each with its
    config.json."""
    identity = identity_of(Config(settings=settings.as_json(), system=describe_system()))
    for folder in run_folders(settings.results_dir):
        content = read_config(folder) or {}
        config = Config.read(content)
        made_up = config.engine is None or config.engine.stand_in
        if made_up or differences(identity_of(config), identity, _OF_SPEED, known_to_both=True):
            continue
        if _computes_as_here(config):
            yield folder, content


def _computes_as_here(config: Config) -> bool:
    """Whether this CPU computes bf16 as it did then: a variable may keep it from that. True for a
    run whose precision did not depend on it."""
    chosen_because = str(config.engine.settings.get("dtype_why")) if config.engine else ""
    depends = chosen_because.startswith("auto: ")
    return not depends or chosen_because == f"auto: {cpu_computes_bf16()[1]}"
