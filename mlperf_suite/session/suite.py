"""One session of the suite, as the plugin sees it.

Engine and data are loaded once. Each step of the plan is executed when its first verdict is asked
for; later questions are answered from the same run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.loadgen.runner import abandoned
from mlperf_suite.mmlu.journal import Shares
from mlperf_suite.profiling import nsight, ranges
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.session.caching_audit import CachingAudits
from mlperf_suite.session.energy import Energy, FindMeters, find_meters
from mlperf_suite.session.engines import Engines, LoadEngine, endpoint_config
from mlperf_suite.session.executor import Executor, Outcome
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.mmlu_run import MmluRun, OnProgress, Share
from mlperf_suite.session.peak_search import PeakSearches
from mlperf_suite.session.plan import MMLU, MmluKey, Plan, SearchKey, Step, StepKey
from mlperf_suite.session.preparation import Preparation
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.scenario_runs import ScenarioRuns
from mlperf_suite.session.timing.pace import Pace
from mlperf_suite.session.watcher import Watcher
from mlperf_suite.settings import Settings


class Suite:
    """Makes runs on demand; `recorder` has their results.

    `baselines`: by benchmark id and scenario, the earlier runs that the gate compares with.
    `shares`: set if several engines score MMLU, each on its own worker. `on_mmlu`: called for each
    scored question. `meters`: finds the energy meters of an engine.
    `benchmarks`: those whose data tests ask for, besides those of the plan.
    """

    def __init__(
        self,
        settings: Settings,
        plan: Plan,
        load_engine: LoadEngine,
        watcher: Watcher,
        baselines: Mapping[tuple[str, str], BaselineRun] | None = None,
        *,
        shares: Shares | None = None,
        on_mmlu: OnProgress = lambda done, total, subject: None,
        meters: FindMeters = find_meters,
        benchmarks: Iterable[Benchmark] = (),
    ) -> None:
        self.settings = settings
        self.baselines = baselines or {}
        ids = [key.benchmark for key in plan.keys if not isinstance(key, MmluKey)]
        ids += [benchmark.id for benchmark in benchmarks]
        self.inputs = Inputs(settings, [BENCHMARKS[id_] for id_ in dict.fromkeys(ids)])
        self._pace = Pace(self.inputs, plan, self.baselines)
        self._engines = Engines(self.inputs, load_engine, watcher)
        self._energy = Energy(settings, meters)
        self.recorder = Recorder(self.inputs, self._pace, self.baselines, self._engines)
        self._mmlu = MmluRun(self.inputs, self._engines, on_mmlu, shares)
        needs = (self.inputs, self._engines, self._pace, self._energy, watcher)
        preparation = Preparation(*needs)
        self._executor = Executor(
            settings,
            self._engines,
            self.recorder,
            self._pace,
            watcher,
            preparation,
            ScenarioRuns(*needs),
            PeakSearches(*needs, preparation),
            CachingAudits(*needs),
            self._mmlu,
        )

    @property
    def plan(self) -> Plan:
        """The steps of the session, as known so far."""
        return self._pace.plan

    @property
    def steps_made(self) -> Sequence[Step]:
        """The steps made so far, in order."""
        return self._executor.steps

    def check(self) -> None:
        """Find what would stop the session, before anything slow is loaded. Raises UsageError.

        Whether endpoints answer is checked after everything else.
        """
        self.inputs.check(
            self.plan.runs, [key for key in self.plan.keys if isinstance(key, SearchKey)]
        )
        if self.settings.profile_run == "cuda":
            nsight.check()
        if MMLU in self.plan.keys:
            _ = self.inputs.mmlu
        if self.settings.engine_kind == "endpoint":
            from mlperf_suite.engines.endpoint.server_facts import check_reachable

            check_reachable(endpoint_config(self.inputs))
        if self.settings.profile_run == "cuda":
            # Last, since `close` turns them off and is not called if a check stopped the session.
            ranges.turn_on()

    def samples(self, benchmark: str, scenario: str) -> int:
        """The samples that the runs of a scenario take, as known so far."""
        definition = BENCHMARKS[benchmark]
        return self._pace.estimator.size(definition, definition.scenario(scenario)).samples

    def make(self, key: StepKey) -> Outcome:
        """Make the key unless it was made already."""
        return self._executor.make(key)

    def score_share(self, index: int) -> Share:
        """Score a share of MMLU for the worker that makes the run. Raises SuiteError."""
        return self._mmlu.score_share(index)

    @property
    def engine(self) -> Engine:
        """The engine of the runs, loaded now if it is not loaded yet. Raises SuiteError."""
        self._executor.load_engine()
        return self._engines.loaded("runs")

    @property
    def can_go_on(self) -> bool:
        """Whether another step could be made in this process."""
        return self._executor.can_go_on

    @property
    def must_exit_hard(self) -> bool:
        """Whether an abandoned LoadGen run still goes on in this process."""
        return abandoned()

    @property
    def time_line(self) -> str:
        """The planned and actual time of the session; empty without an estimate."""
        return self._pace.time_line()

    def close(self) -> None:
        """Stop the engine. A result with planned but missing runs is marked as failed."""
        self._engines.close()
        self._energy.close()
        self.recorder.close()
        ranges.turn_off()
