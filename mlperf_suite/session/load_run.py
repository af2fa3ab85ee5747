"""Makes LoadGen runs on a session's engine: the one place where they are assembled.

An accuracy or performance run, an audit, a trial of a peak search and a block of the caching audit
differ in their LoadGen settings and prompts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark, Generation, ReferenceAccuracy, Scenario
from mlperf_suite.engines.protocol import (
    CountsCachedTokens,
    Engine,
    RemoteEngine,
    RemoteRun,
    RunObserver,
)
from mlperf_suite.loadgen.load_plan import SMOKE, LoadPlan, Shortened
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from mlperf_suite.results.baseline import write_answer_scores
from mlperf_suite.results.record import Result, RunRecord, accuracy_figures, scorer_json
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.scorers.scorer import Scores
from mlperf_suite.session.companion import Companion
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.timing.run_sizing import RunSizing
from mlperf_suite.settings import Settings


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts in place of the data's own, and how their answers are generated."""

    token_ids: Sequence[Sequence[int]]
    generation: Generation


@dataclass
class StepMaker:
    """Makes steps on the engine of the runs, and holds the parts for it."""

    inputs: Inputs
    engines: Engines
    sizing: RunSizing
    companions: Sequence[Companion]
    display: ProgressDisplay

    @property
    def settings(self) -> Settings:
        return self.inputs.settings

    @property
    def engine(self) -> Engine:
        return self.engines.loaded("runs")

    def deviations(
        self, benchmark: Benchmark, scenario: Scenario, mode: Mode = "performance"
    ) -> tuple[str, ...]:
        """How the loaded engine generates answers otherwise than the benchmark says."""
        engine = self.engine.description
        return self.inputs.deviations(
            benchmark, scenario, engine.settings, mode=mode, max_model_len=engine.max_model_len
        )

    def load_run(
        self, benchmark: Benchmark, plan: LoadPlan, folder: Path, prompts: Prompts | None = None
    ) -> LoadRun:
        """Run LoadGen once over a benchmark's samples, or over other prompts, into `folder`.

        Raises what `run_loadgen` does.
        """
        silence_s = self.settings.engine_silence
        if prompts is not None:
            return run_loadgen(
                plan,
                self.engine,
                prompts.token_ids,
                prompts.generation,
                folder,
                silence_s=silence_s,
            )
        return run_loadgen(
            plan,
            self.engine,
            self.inputs.prompts(benchmark, plan.mode)[: plan.samples],
            self.inputs.generation(benchmark, plan.mode),
            folder,
            self.display.progress,
            stops=self.inputs.stops(benchmark, plan.mode),
            end_ids=self.inputs.dropped(benchmark, plan.mode),
            silence_s=silence_s,
        )

    def keep_scores(
        self,
        result: Result,
        record: RunRecord,
        scores: Scores,
        reference: ReferenceAccuracy | None,
        samples: int | None,
        passed: bool | None,
        *,
        strict: bool = False,
        **more: object,
    ) -> None:
        """Take up the scores of an accuracy run, and write them and those of each answer.

        `passed`: the verdict of the accuracy rules. `strict`: with --high-accuracy's gate. `more`:
        what the scorer's file says besides.
        """
        folder = result.folder.accuracy
        record.figures = accuracy_figures(scores, reference, strict, samples, passed)
        name = self.inputs.scorer(result.benchmark).name
        write_json(folder / f"{name}.json", scorer_json(scores, reference, strict) | more)
        data = self.inputs.samples(result.benchmark, "accuracy").sha256
        write_answer_scores(folder, name, scores.per_answer, data)


class Observation:
    """What an engine reports of a run besides LoadGen's log; begins with the run.

    Earlier counts, such as a warm-up's, are discarded.
    """

    def __init__(self, engine: Engine, name: str, mode: str) -> None:
        self._engine = engine
        if isinstance(engine, RunObserver):
            engine.run_begins(name, mode)
        self.remote()
        self._cached_before = self._cached_tokens

    def remote(self) -> RemoteRun | None:
        """What an engine behind a network reports since the last call; None for a local engine."""
        engine = self._engine
        return engine.take_remote_run() if isinstance(engine, RemoteEngine) else None

    @property
    def _cached_tokens(self) -> int | None:
        engine = self._engine
        return engine.cached_prompt_tokens if isinstance(engine, CountsCachedTokens) else None

    def cached_tokens(self, remote: RemoteRun | None) -> int | None:
        """The prompt tokens that came from a cache in the run; None if nothing counts them.

        `remote`: what a remote server reported of the run. It is asked for first: servers may
        report cached tokens separately from their answers.
        """
        total = self._cached_tokens
        if total is None or self._cached_before is None:
            return None
        tokens = total - self._cached_before
        untold = remote is not None and remote.cached_untold
        return None if untold and not tokens else tokens


# A run of a given time


def shortened_to(seconds: float, loadgen_scenario: str) -> Shortened:
    """LoadGen's settings for a run of this many seconds."""
    duration_ms = max(1, round(seconds * 1000))
    return replace(SMOKE[loadgen_scenario], min_duration_ms=duration_ms, min_query_count=1)


def samples_for(seconds: float, per_second: float | None, available: int) -> int:
    """The number of samples for a run of this many seconds; LoadGen issues whole multiples of it.

    `per_second`: samples/s that the engine is expected to answer or is sent; None if not known.
    """
    if per_second is None:
        return available
    return max(1, min(available, math.ceil(seconds * per_second)))
