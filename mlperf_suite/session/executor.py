"""One session of the suite, as the plugin sees it: walks the steps of its plan.

Engine and data are loaded once. A key's steps are made when it is first asked for, after the keys
that it needs; later questions are answered from the same run. Each step returns what it measured,
which the sizing and the recorder take up. `_attempt` handles every early end, so that all kinds of
steps fail alike.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mlperf_suite import ranges
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.engines.hang_detector import TerminatedError
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import RunError, SuiteError, os_error_line
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.loadgen.runner import abandoned
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.schema import Config
from mlperf_suite.session.companion import Companion, companion_kinds
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.session.engines import Engines, LoadEngine
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import Plan
from mlperf_suite.session.preparation import Preparation
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.run_kind import (
    Maker,
    RunKind,
    Step,
    StepKey,
    kind_named,
    kind_of,
    run_kinds,
)
from mlperf_suite.session.timing.earlier_runs import kept_rate, kept_samples
from mlperf_suite.session.timing.estimate import EngineSpeed
from mlperf_suite.session.timing.run_sizing import RunSizing
from mlperf_suite.settings import Settings


@dataclass(frozen=True, slots=True)
class SessionParts:
    inputs: Inputs
    engines: Engines
    sizing: RunSizing
    companions: Sequence[Companion]
    display: ProgressDisplay
    recorder: Recorder
    preparation: Preparation

    @property
    def run_parts(self) -> tuple[Inputs, Engines, RunSizing, Sequence[Companion], ProgressDisplay]:
        """What a `StepMaker` takes."""
        return self.inputs, self.engines, self.sizing, self.companions, self.display


INTERRUPTED = "interrupted"
OneKind = TypeVar("OneKind", bound=Companion)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of a key.

    `failure`: what failed and why, in a line; None if the key was made. `now`: whether it was made
    in this call.
    """

    failure: str | None = None
    now: bool = False

    @property
    def ok(self) -> bool:
        return self.failure is None


class Session:
    """Makes each key that is asked for, once; `recorder` has their results.

    `baselines`: by benchmark id and scenario, the earlier runs that the gate compares with.
    `benchmarks`: those whose data tests ask for, besides those of the plan.
    """

    def __init__(
        self,
        settings: Settings,
        plan: Plan,
        load_engine: LoadEngine,
        display: ProgressDisplay,
        baselines: Mapping[tuple[str, str], BaselineRun] | None = None,
        *,
        benchmarks: Iterable[Benchmark] = (),
    ) -> None:
        self.settings = settings
        self.baselines = baselines or {}
        ids = [key.benchmark for key in plan.at_engine]
        ids += [benchmark.id for benchmark in benchmarks]
        self.inputs = Inputs(settings, [BENCHMARKS[id_] for id_ in dict.fromkeys(ids)])
        self._sizing = RunSizing(self.inputs, plan, self.baselines)
        self._engines = Engines(self.inputs, load_engine, display)
        self._companions = [kind(settings, display) for kind in companion_kinds()]
        self.recorder = Recorder(self.inputs, self._sizing, self.baselines, self._engines)
        needs = (self.inputs, self._engines, self._sizing, self._companions, display)
        self._preparation = Preparation(*needs)
        self._parts = SessionParts(*needs, self.recorder, self._preparation)
        self._makers: dict[str, Maker] = {}
        self._display = display
        display.follow(self._sizing.left_s)
        self._outcomes: dict[StepKey, StepOutcome] = {}
        self.steps_made: list[Step] = []
        """The steps made so far, in order."""

    @property
    def plan(self) -> Plan:
        """The steps of the session, as known so far."""
        return self._sizing.plan

    def obstacles(self) -> list[str]:
        """The obstacles that show before anything slow is loaded, a line each."""
        lines: dict[str, None] = {}
        for check in self._checks(lines):
            try:
                check()
            except SuiteError as error:
                lines[str(error)] = None
        if lines:
            self.close()
        return list(lines)

    def _checks(self, found: Collection[str]) -> Iterator[Callable[[], object]]:
        """An engine elsewhere is asked first. If it refuses a model of the hub, that is all: the
        hub takes a minute to say that it has no such model. `found`: the obstacles so far."""
        source, contexts = source_of(self.settings), list[int | None]()
        yield lambda: contexts.append(source.check(self.inputs))
        if found and source.is_remote and not Path(self.inputs.model_path).is_dir():
            return
        yield from self.inputs.checks(self.plan.at_engine)
        for kind, keys in self._keys_of_kinds():
            yield partial(kind.check, keys, self._parts)
        for context in filter(None, contexts):
            yield partial(self._check_context, context)
        for companion in self._companions:
            yield companion.check

    def _keys_of_kinds(self) -> Iterator[tuple[RunKind[Any], list[StepKey]]]:
        for kind in run_kinds(key.kind for key in self.plan.keys):
            yield kind, [key for key in self.plan.keys if key.kind == kind.name]

    def _check_context(self, context: int) -> None:
        for key in self.plan.at_engine:
            self.inputs.check_prompts(BENCHMARKS[key.benchmark], context, key.mode)
        for kind, keys in self._keys_of_kinds():
            kind.check_context(keys, self.inputs, context)

    def companion(self, kind: type[OneKind]) -> OneKind:
        """A feature's part of this session."""
        return next(part for part in self._companions if isinstance(part, kind))

    def samples(self, benchmark: str, scenario: str) -> int:
        """The samples that the runs of a scenario take, as known so far."""
        definition = BENCHMARKS[benchmark]
        return self._sizing.estimator.size(definition, definition.scenario(scenario)).samples

    def maker(self, kind: str) -> Any:
        """The maker of the steps of a kind of run."""
        if kind not in self._makers:
            self._makers[kind] = kind_named(kind).maker(self._parts)
        return self._makers[kind]

    @property
    def engine(self) -> Engine:
        """The engine of the runs, loaded now if it is not loaded yet. Raises SuiteError."""
        if not self._engines.is_loaded("runs"):
            load = next(step for step in self.plan.steps if step.key is None)
            folder = self.settings.results_dir
            self._make(load, lambda: self._preparation.load(folder))
        return self._engines.loaded("runs")

    @property
    def can_go_on(self) -> bool:
        """Whether another step could be made in this process."""
        return self.recorder.writable and not abandoned() and self._engines.can_go_on

    @property
    def must_exit_hard(self) -> bool:
        """Whether an abandoned LoadGen run still goes on in this process."""
        return abandoned()

    def announce(self, seconds: Mapping[Step, float]) -> float:
        """The session's time in s, from how long its steps are expected to take."""
        return self._sizing.announce(seconds)

    @property
    def time_line(self) -> str:
        """The planned and actual time of the session; empty without an estimate."""
        return self._sizing.time_line()

    def close(self) -> None:
        """Stop the engine. A result with planned but missing runs is marked as failed."""
        self._engines.close()
        self.recorder.close()
        for companion in self._companions:
            companion.close()

    # The steps of a key

    def make(self, key: StepKey) -> StepOutcome:
        """Make the key unless it was made already, after the keys that it needs."""
        if key in self._outcomes:
            return replace(self._outcomes[key], now=False)
        for need in self._sizing.plan.needs.get(key, ()):
            outcome = self.make(need)
            if outcome.failure is None:
                continue
            if need.benchmark_and_scenario != key.benchmark_and_scenario:
                # This key has a separate result, which records why it failed.
                self._attempt(key, outcome.failure)
            self._outcomes[key] = outcome
            return outcome
        # Set first, so that a key that ends with any other exception is not made a second time.
        self._outcomes[key] = StepOutcome(f"{key}: {INTERRUPTED}", now=True)
        failure: str | None = INTERRUPTED
        try:
            failure = self._attempt(key)
        finally:
            if failure is not None:
                kind_of(key).missed(key, self._sizing)
        line = None if failure is None else f"{key}: {failure}"
        self._outcomes[key] = StepOutcome(line, now=True)
        return self._outcomes[key]

    def _attempt(self, key: StepKey, unmet: str | None = None) -> str | None:
        """Make a key and keep the outcome, however it ends. Return why it failed, or None.

        `unmet`: why a key that it needs failed, so that it fails as well.
        """
        failure: str | None = None
        result = self.recorder.begin(key)
        folder = result.folder.path
        try:
            if unmet is not None:
                raise RunError(unmet)
            self._walk(key, result)
        except OSError as error:
            failure = os_error_line(error, folder)
        except SuiteError as error:
            failure = str(error)
        except BaseException as error:
            failure = f"{INTERRUPTED} ({type(error).__name__})"
            if isinstance(error, TerminatedError):
                failure = f"terminated ({error})"
            with contextlib.suppress(OSError):
                self.recorder.end(key, result, failure)
            raise
        finally:
            self._display.idle()
        try:
            self.recorder.end(key, result, failure)
        except SuiteError as error:
            failure = failure or str(error)
        except OSError as error:
            failure = failure or os_error_line(error, folder)
        return failure

    def _walk(self, key: StepKey, result: Any) -> None:
        """Make the steps of a key that were not made yet, which a step may still change."""
        self.recorder.write(result)
        past = set(self.steps_made)
        if not self._engines.is_loaded(kind_of(key).role):
            # An engine that another one replaced is loaded and measured again.
            past -= {step for step in self._sizing.plan.steps_of[key] if step.key is None}
        while step := next((s for s in self._sizing.plan.steps_of[key] if s not in past), None):
            self._make(step, partial(self._outcome, step, key, result))
            if step.kind == "probe":
                # Who watches a run, as tune does, sees its speed before the long steps.
                self.recorder.keep_config(result)
            past.add(step)
            count = len(self.steps_made)
            for need in self._sizing.plan.needs.get(key, ()):
                outcome = self.make(need)
                if outcome.failure is not None:
                    raise RunError(outcome.failure)
            # A run that the plan did not have before also prepared the engine.
            past.update(self.steps_made[count:])

    def _outcome(self, step: Step, key: StepKey, result: Any) -> object:
        """Make a step for a key, whose result is at hand. Returns what the step measured."""
        if step.key is not None:
            return self.maker(key.kind).make(step, result)
        of_engine: dict[str, Callable[[], object]] = {
            "load": lambda: self._preparation.load(result.folder.path),
            "probe": self._preparation.probe,
        }
        for companion in self._companions:
            of_engine |= companion.makers()
        if step.kind in of_engine:
            return of_engine[step.kind]()
        return source_of(self.settings).make(step, self._preparation)

    def _make(self, step: Step, make: Callable[[], object]) -> None:
        """Make a step and hand on what it returned."""
        start_s = time.monotonic()
        self._sizing.begin(step)
        if step.key is not None and step.kind in kind_of(step.key).long_steps:
            self._display.step(step.what)
        try:
            with ranges.named(f"{step.kind} {step.key or ''}".rstrip()):
                outcome = make()
        finally:
            self._display.idle()
            self._sizing.keep_duration(step, time.monotonic() - start_s)
        self._sizing.learn(step, outcome)
        self.recorder.record(step, outcome)
        self.steps_made.append(step)
        if step.kind == "load" and step.key is None:
            self._use_kept_rates()
            self._use_kept_samples()
        if isinstance(outcome, EngineSpeed):
            # The empty line ends the line that pytest is writing.
            for line in [*self._sizing.lines(), ""]:
                self._display.say(line)

    def _use_kept_samples(self) -> None:
        """See how many samples earlier sessions took on the loaded engine."""
        places = dict.fromkeys(
            k.benchmark_and_scenario for k in self.plan.runs if k.kind == RunKey.kind
        )
        configs = {id_: self.recorder.config_json(BENCHMARKS[id_]) for id_, _ in places}
        kept = {
            place: kept_samples(self.settings.results_dir, place, Config.read(configs[place[0]]))
            for place in (places if self.settings.smoke else ())
        }
        self._sizing.use_kept_samples({place: count for place, count in kept.items() if count})

    def _use_kept_rates(self) -> None:
        """See which Offline rates of earlier sessions are those of the loaded engine."""
        if self.settings.server_target_qps is not None:
            return
        folder = self.settings.results_dir
        rates: dict[str, float] = {}
        for benchmark in self._sizing.plan.selection.rates_known:
            config = Config.read(self.recorder.config_json(BENCHMARKS[benchmark]))
            if rate := kept_rate(folder, benchmark, config):
                rates[benchmark] = rate
        self._sizing.use_kept_rates(rates)
