"""One session of the suite, as the plugin sees it.

Engine and data are loaded once. Each step of the plan is executed when its first verdict is asked
for; later questions are answered from the same run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.loadgen.load_plan import CACHING
from mlperf_suite.loadgen.runner import abandoned
from mlperf_suite.mmlu.shares import Shares
from mlperf_suite.profiling import ranges
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.peak import PeakSearch
from mlperf_suite.results.record import Result, RunKey
from mlperf_suite.results.run_folder import ENGINE_LOG
from mlperf_suite.results.schema import Summary
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session import profiled_run
from mlperf_suite.session.caching_run import CachingRun
from mlperf_suite.session.energy import Energy, FindMeters, find_meters
from mlperf_suite.session.engines import Engines, LoadEngine, endpoint_config
from mlperf_suite.session.executor import Executor, Outcome
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.mmlu_run import MmluRun, OnProgress
from mlperf_suite.session.peak_run import PeakRun
from mlperf_suite.session.plan import MMLU, MmluKey, Plan, SearchKey, StepKey, clock
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.timing.pace import Pace
from mlperf_suite.session.watcher import Watcher
from mlperf_suite.settings import Settings


class Suite:
    """Makes runs on demand and answers questions about them.

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
        self.plan = plan
        self.baselines = baselines or {}
        ids = [key.benchmark for key in plan.keys if not isinstance(key, MmluKey)]
        ids += [benchmark.id for benchmark in benchmarks]
        self.inputs = Inputs(settings, [BENCHMARKS[id_] for id_ in dict.fromkeys(ids)])
        self.pace = Pace(
            self.inputs,
            plan,
            self.baselines,
            lambda: (self.mmlu.planned, self.mmlu.shots),
            watcher,
        )
        self._engines = Engines(self.inputs, load_engine, watcher)
        self.recorder = Recorder(
            self.inputs,
            plan,
            self.baselines,
            lambda: self._engines.descriptions.get("runs"),
            self._samples_of,
            self.pace.rows,
            lambda: self.pace.speed_json,
        )
        self._energy = Energy(settings, meters)
        self._executor = Executor(
            self.inputs, plan, self._engines, self.recorder, self.pace, watcher, self._energy
        )
        self._peaks = PeakRun(self.inputs, self.recorder, self._executor, self.pace, watcher)
        self.mmlu = MmluRun(self.inputs, self._engines, self.baselines, on_mmlu, shares)
        self._executor.mode_makers[CACHING] = CachingRun(
            self.inputs,
            self.recorder,
            self._executor,
            self.pace,
            watcher,
            lambda: self._engines.descriptions["runs"].settings,
        ).maker
        self._executor.makers[SearchKey] = self._peaks.maker
        self._executor.makers[MmluKey] = self.mmlu.maker

    def check(self) -> None:
        """Find what would stop the session, before anything slow is loaded. Raises UsageError.

        Whether endpoints answer is checked after everything else.
        """
        self.inputs.check(
            self.plan.runs, [key for key in self.plan.keys if isinstance(key, SearchKey)]
        )
        if self.settings.profile_run is not None:
            profiled_run.check(self.settings.profile_run)
        if MMLU in self.plan.keys:
            self.mmlu.check()
        if self.settings.engine_kind == "endpoint":
            from mlperf_suite.engines.endpoint.server_facts import check_reachable

            check_reachable(endpoint_config(self.inputs))
        if self.settings.profile_run == "cuda":
            # Last, since `close` turns them off and is not called if a check stopped the session.
            ranges.turn_on()

    def _samples_of(self, benchmark: Benchmark, scenario: str) -> tuple[int, str]:
        size = self.pace.size(benchmark, benchmark.scenario(scenario))
        return size.samples, size.why

    def samples(self, benchmark: str, scenario: str) -> int:
        """The samples that the runs of a scenario take, as known so far."""
        return self._samples_of(BENCHMARKS[benchmark], scenario)[0]

    def made(self, key: StepKey) -> Outcome:
        """Make the key unless it was made already."""
        return self._executor.made(key)

    def verdicts(self, key: StepKey) -> list[Verdict]:
        """The verdicts on what was made; empty if it was not made."""
        if isinstance(key, MmluKey):
            return self.mmlu.verdicts
        result = self.recorder.result(BENCHMARKS[key.benchmark], key.scenario)
        record = result.runs.get(key.mode) if isinstance(key, RunKey) else None
        return record.verdicts if record else []

    @property
    def engine(self) -> Engine:
        """The engine of the runs, loaded now if it is not loaded yet. Raises SuiteError."""
        return self._engines.get("runs", self.settings.results_dir / ENGINE_LOG)

    def search(self, key: SearchKey) -> PeakSearch:
        """What a search found. Raises KeyError if it was not made."""
        return self._peaks.found[key]

    @property
    def results(self) -> list[Result]:
        """The results that have begun, except MMLU's."""
        return self.recorder.results

    def result(self, benchmark: str, scenario: str) -> Result:
        """The result of a scenario; the first call creates its folder."""
        return self.recorder.result(BENCHMARKS[benchmark], scenario)

    @property
    def node_files(self) -> Sequence[Path]:
        """The files written in the node script's format, once the session is closed."""
        return self.recorder.node_files

    def summary(self, result: Result) -> Summary:
        """The summary of a result so far."""
        return self.recorder.summary(result)

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
        both = [step for step in self.pace.expected if step in self.pace.took]
        if not both:
            return ""
        planned = sum(self.pace.expected[step] for step in both)
        took = sum(self.pace.took[step] for step in both)
        return f"planned {clock(planned)}, took {clock(took)} for {len(both)} steps"

    def close(self) -> None:
        """Stop the engine. A result with planned but missing runs is marked as failed."""
        self._engines.close()
        self._energy.close()
        self.recorder.close()
        ranges.turn_off()
