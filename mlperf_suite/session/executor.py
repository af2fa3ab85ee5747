"""Walks the steps of a plan.

A key's steps are made when it is first asked for, after the keys that it needs. Each step returns
what it measured, which the pace and the recorder take up. `_attempt` handles every early end, so
that all kinds of steps fail alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.errors import RunError, SuiteError, of_the_system
from mlperf_suite.loadgen.runner import abandoned
from mlperf_suite.mmlu.score_files import MmluRecord
from mlperf_suite.profiling import ranges
from mlperf_suite.results.record import Result, RunKey
from mlperf_suite.results.schema import Config
from mlperf_suite.session.caching_audit import CachingAudits
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.mmlu_run import MmluRun
from mlperf_suite.session.peak_search import PeakSearches
from mlperf_suite.session.plan import MMLU, Kind, MmluKey, Step, StepKey
from mlperf_suite.session.preparation import Preparation
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.scenario_runs import ScenarioRuns
from mlperf_suite.session.timing.forecast import kept_rate
from mlperf_suite.session.timing.pace import Pace
from mlperf_suite.session.timing.probe import Speed
from mlperf_suite.session.watcher import Watcher
from mlperf_suite.settings import Settings

INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a key.

    `failure`: what failed and why, in a line; None if the key was made. `now`: whether it was made
    in this call.
    """

    failure: str | None = None
    now: bool = False

    @property
    def ok(self) -> bool:
        return self.failure is None


@dataclass
class Executor:
    """Makes each key that is asked for, once. `steps`: those made so far, in order."""

    settings: Settings
    engines: Engines
    recorder: Recorder
    pace: Pace
    watcher: Watcher
    preparation: Preparation
    runs: ScenarioRuns
    searches: PeakSearches
    audits: CachingAudits
    mmlu: MmluRun
    steps: list[Step] = field(default_factory=list)
    _outcomes: dict[StepKey, Outcome] = field(default_factory=dict)

    def make(self, key: StepKey) -> Outcome:
        """Make the key unless it was made already, after the keys that it needs."""
        if key in self._outcomes:
            return dataclasses.replace(self._outcomes[key], now=False)
        for need in self.pace.plan.needs.get(key, ()):
            outcome = self.make(need)
            if outcome.failure is None:
                continue
            if need.place != key.place:
                # This key has a separate result, which records why it failed.
                self._attempt(key, outcome.failure)
            self._outcomes[key] = outcome
            return outcome
        # Set first, so that a key that ends with any other exception is not made a second time.
        self._outcomes[key] = Outcome(f"{key}: {INTERRUPTED}", now=True)
        failure: str | None = INTERRUPTED
        try:
            failure = self._attempt(key)
        finally:
            if failure is not None and isinstance(key, RunKey):
                # An accuracy run that failed shows no rate to the runs that remain.
                self.pace.accuracy_failed(key)
        line = None if failure is None else f"{key}: {failure}"
        self._outcomes[key] = Outcome(line, now=True)
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
            failure = of_the_system(error, folder)
        except SuiteError as error:
            failure = str(error)
        except BaseException as error:
            failure = f"{INTERRUPTED} ({type(error).__name__})"
            with contextlib.suppress(OSError):
                self.recorder.end(key, result, failure)
            raise
        finally:
            self.watcher.idle()
        try:
            self.recorder.end(key, result, failure)
        except SuiteError as error:
            failure = failure or str(error)
        except OSError as error:
            failure = failure or of_the_system(error, folder)
        return failure

    @property
    def can_go_on(self) -> bool:
        """Whether another step could be made in this process."""
        return self.recorder.writable and not abandoned() and self.engines.can_go_on

    # The steps of a key

    def _walk(self, key: StepKey, result: Result | MmluRecord) -> None:
        """Make the steps of a key that were not made yet, which a step may still change."""
        self.recorder.write(result)
        past = set(self.steps)
        if not self.engines.is_loaded("scoring" if key == MMLU else "runs"):
            # An engine that another one replaced is loaded and measured again.
            past -= {step for step in self.pace.plan.steps_of[key] if step.key is None}
        while step := next((s for s in self.pace.plan.steps_of[key] if s not in past), None):
            self._make(step, partial(self._outcome, step, key, result))
            past.add(step)
            count = len(self.steps)
            for need in self.pace.plan.needs.get(key, ()):
                outcome = self.make(need)
                if outcome.failure is not None:
                    raise RunError(outcome.failure)
            # A run that the plan did not have before also prepared the engine.
            past.update(self.steps[count:])

    def _outcome(self, step: Step, key: StepKey, result: Result | MmluRecord) -> object:
        """Make a step for a key, whose result is at hand. Returns what the step measured."""
        if isinstance(result, MmluRecord):
            return self.mmlu.load(result) if step.kind == "load" else self.mmlu.make(result)
        assert not isinstance(key, MmluKey)
        makers: dict[Kind, Callable[[], object]] = {
            "load": lambda: self.preparation.load(result.folder.path),
            "idle power": self.preparation.idle_power,
            "probe": self.preparation.probe,
            "scaling": self.preparation.scaling,
            "rate": lambda: self.preparation.rate(step),
            "warm-up": lambda: self.preparation.warm_up(key.place),
            "run": lambda: self.runs.make(step, result),
            "search": lambda: self.searches.make(result),
            "blocks": lambda: self.audits.make(result),
        }
        return makers[step.kind]()

    def load_engine(self) -> None:
        """Load the engine of the runs for a test that asks for it. Raises SuiteError."""
        if not self.engines.is_loaded("runs"):
            load = next(step for step in self.pace.plan.steps if step.key is None)
            folder = self.settings.results_dir
            self._make(load, lambda: self.preparation.load(folder))

    def _make(self, step: Step, make: Callable[[], object]) -> None:
        """Make a step and hand on what it returned."""
        start_s = time.monotonic()
        try:
            with ranges.named(f"{step.kind} {step.key or ''}".rstrip()):
                outcome = make()
        finally:
            self.watcher.idle()
            self.pace.keep_duration(step, time.monotonic() - start_s)
        self.pace.learn(step, outcome)
        self.recorder.record(step, outcome)
        self.steps.append(step)
        if step.kind == "load" and step.key is None:
            self._use_kept_rates()
        if isinstance(outcome, Speed):
            # The empty line ends the line that pytest is writing.
            for line in [*self.pace.lines(), ""]:
                self.watcher.say(line)

    def _use_kept_rates(self) -> None:
        """See which Offline rates of earlier sessions are those of the loaded engine."""
        if self.settings.server_target_qps is not None:
            return
        folder = self.settings.results_dir
        rates: dict[str, float] = {}
        for benchmark in self.pace.plan.selection.rates_known:
            config = Config.read(self.recorder.config_json(BENCHMARKS[benchmark]))
            if rate := kept_rate(folder, benchmark, config):
                rates[benchmark] = rate
        self.pace.use_kept_rates(rates)
