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
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Makers:
    """What makes the steps, by their kinds."""

    preparation: Preparation
    runs: ScenarioRuns
    searches: PeakSearches
    audits: CachingAudits
    mmlu: MmluRun

    def make(self, step: Step, key: StepKey, result: Result | MmluRecord) -> object:
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
            "warm-up": lambda: self.preparation.warm_up_for(key),
            "run": lambda: self.runs.make(step, result),
            "search": lambda: self.searches.make(result),
            "blocks": lambda: self.audits.make(result),
        }
        return makers[step.kind]()


class Executor:
    """Makes each key that is asked for, once. `steps`: those made so far, in order."""

    def __init__(
        self,
        settings: Settings,
        engines: Engines,
        recorder: Recorder,
        pace: Pace,
        makers: Makers,
        watcher: Watcher,
    ) -> None:
        self._settings = settings
        self._engines = engines
        self._recorder = recorder
        self._pace = pace
        self._makers = makers
        self._watch = watcher
        self._outcomes: dict[StepKey, Outcome] = {}
        self.steps: list[Step] = []

    def make(self, key: StepKey) -> Outcome:
        """Make the key unless it was made already, after the keys that it needs."""
        if key in self._outcomes:
            return dataclasses.replace(self._outcomes[key], now=False)
        for need in self._pace.plan.needs.get(key, ()):
            outcome = self.make(need)
            if outcome.failure is None:
                continue
            if need.place != key.place:
                # This key has a separate result, which records why it failed.
                self._attempt(key, _failing_with(outcome.failure))
            self._outcomes[key] = outcome
            return outcome
        # Set first, so that a key that ends with any other exception is not made a second time.
        self._outcomes[key] = Outcome(f"{key}: {INTERRUPTED}", now=True)
        try:
            failure = self._attempt(key, lambda result: self._walk(key, result))
        except BaseException:
            self._note_failure(key)
            raise
        if failure is not None:
            self._note_failure(key)
        line = None if failure is None else f"{key}: {failure}"
        self._outcomes[key] = Outcome(line, now=True)
        return self._outcomes[key]

    def _note_failure(self, key: StepKey) -> None:
        """An accuracy run that failed shows no rate to the runs that remain."""
        if isinstance(key, RunKey):
            self._pace.accuracy_failed(key)

    def _attempt(self, key: StepKey, make: Callable[[Result | MmluRecord], None]) -> str | None:
        """Make a key and keep the outcome, however it ends. Return why it failed, or None."""
        failure: str | None = None
        result = self._recorder.begin(key)
        folder = result.folder.path
        try:
            make(result)
        except OSError as error:
            failure = of_the_system(error, folder)
        except SuiteError as error:
            failure = str(error)
        except BaseException as error:
            failure = f"{INTERRUPTED} ({type(error).__name__})"
            with contextlib.suppress(OSError):
                self._recorder.end(key, result, failure)
            raise
        finally:
            self._watch.idle()
        try:
            self._recorder.end(key, result, failure)
        except SuiteError as error:
            failure = failure or str(error)
        except OSError as error:
            failure = failure or of_the_system(error, folder)
        return failure

    @property
    def can_go_on(self) -> bool:
        """Whether another step could be made in this process."""
        return self._recorder.writable and not abandoned() and self._engines.can_go_on

    # The steps of a key

    def _walk(self, key: StepKey, result: Result | MmluRecord) -> None:
        """Make the steps of a key that were not made yet, which a step may still change."""
        self._recorder.write(result)
        past = set(self.steps)
        if not self._engines.is_loaded("scoring" if key == MMLU else "runs"):
            # An engine that another one replaced is loaded and measured again.
            past -= {step for step in self._pace.plan.steps_of[key] if step.key is None}
        while step := self._next(key, past):
            self._make(step, partial(self._makers.make, step, key, result))
            past.add(step)
            count = len(self.steps)
            for need in self._pace.plan.needs.get(key, ()):
                outcome = self.make(need)
                if outcome.failure is not None:
                    raise RunError(outcome.failure)
            # A run that the plan did not have before also prepared the engine.
            past.update(self.steps[count:])

    def _next(self, key: StepKey, past: set[Step]) -> Step | None:
        return next((step for step in self._pace.plan.steps_of[key] if step not in past), None)

    def load_engine(self) -> None:
        """Load the engine of the runs for a test that asks for it. Raises SuiteError."""
        if not self._engines.is_loaded("runs"):
            load = next(step for step in self._pace.plan.steps if step.key is None)
            folder = self._settings.results_dir
            self._make(load, lambda: self._makers.preparation.load(folder))

    def _make(self, step: Step, make: Callable[[], object]) -> None:
        """Make a step and hand on what it returned."""
        start_s = time.monotonic()
        try:
            with ranges.named(f"{step.kind} {step.key or ''}".rstrip()):
                outcome = make()
        finally:
            self._watch.idle()
            self._pace.keep_duration(step, time.monotonic() - start_s)
        self._pace.learn(step, outcome)
        self._recorder.record(step, outcome)
        self.steps.append(step)
        if step.kind == "load" and step.key is None:
            self._use_kept_rates()
        if isinstance(outcome, Speed):
            # The empty line ends the line that pytest is writing.
            for line in [*self._pace.lines(), ""]:
                self._watch.say(line)

    def _use_kept_rates(self) -> None:
        """See which Offline rates of earlier sessions are those of the loaded engine."""
        if self._settings.server_target_qps is not None:
            return
        folder = self._settings.results_dir
        rates: dict[str, float] = {}
        for benchmark in self._pace.plan.selection.rates_known:
            config = Config.read(self._recorder.config_json(BENCHMARKS[benchmark]))
            if rate := kept_rate(folder, benchmark, config):
                rates[benchmark] = rate
        self._pace.use_kept_rates(rates)


def _failing_with(why: str) -> Callable[[Result | MmluRecord], None]:
    """What makes a key that fails because a key that it needs failed."""

    def fail(result: Result | MmluRecord) -> None:
        raise RunError(why)

    return fail
