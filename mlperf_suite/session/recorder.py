"""Records each result and writes its settings, summary, reports and index."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from mlperf_suite import __version__, ranges
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.errors import os_error_line
from mlperf_suite.hardware import describe_system
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.node_files import NodeResult, write_node_files
from mlperf_suite.results.record import Result, summary_of
from mlperf_suite.results.regression import has_figures
from mlperf_suite.results.run_folder import CONFIG_JSON, FINAL_STATUSES, SUMMARY_JSON, RunFolder
from mlperf_suite.results.schema import Meta, Summary
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session.companion import profile_of
from mlperf_suite.session.engine_source import EngineFigures, source_of
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.run_kind import (
    BenchmarkAndScenario,
    Role,
    RunKind,
    Step,
    StepKey,
    kind_of,
)
from mlperf_suite.session.timing.run_sizing import RunSizing
from mlperf_suite.session.typed_command import suite_commit

Baselines = Mapping[BenchmarkAndScenario, BaselineRun]


class SessionResult(Protocol):
    """A result of a session, whatever its kinds of runs are.

    `ended`: when its latest run ended. `unwritten`: why its files could not all be written.
    """

    folder: RunFolder
    started: datetime
    ended: str | None
    unwritten: str | None

    @property
    def failure(self) -> str | None: ...


class Recorder:
    """Records the results of a session.

    `baselines`: by benchmark id and scenario, the earlier run that the regression gate compares
    with.
    """

    def __init__(
        self, inputs: Inputs, sizing: RunSizing, baselines: Baselines, engines: Engines
    ) -> None:
        self.inputs = inputs
        self.engines = engines
        self._settings = inputs.settings
        self._sizing = sizing
        self._baselines = baselines
        self._results: dict[BenchmarkAndScenario, SessionResult] = {}
        self._kinds: dict[BenchmarkAndScenario, RunKind[Any]] = {}
        self._outcomes: dict[StepKey, object] = {}
        self._of_engine = EngineFigures({})
        self.load_generator: str | None = None
        """What sends the requests in LoadGen's place, with version and commit; None if LoadGen."""
        self.command: str | None = None
        """How the session was started, as in `Meta`."""
        self.writable = True
        """Whether all files could be written so far."""
        self.node_files: list[Path] = []
        """The files with the session's results in the node script's format."""

    @property
    def results(self) -> list[SessionResult]:
        """The results that have begun, in that order, scores last."""
        return sorted(self._results.values(), key=lambda result: not isinstance(result, Result))

    def new_folder(
        self, benchmark: str, scenario: str | None, started: datetime, *, by_client: bool = False
    ) -> RunFolder:
        """A folder for a result that begins now. `by_client`: as in `RunFolder`."""
        place = (self._settings.results_dir, benchmark, scenario, started)
        return RunFolder(*place, by_client=by_client)

    def new_result(
        self, place: BenchmarkAndScenario, started: datetime, *, by_client: bool = False
    ) -> Result:
        """The result of a benchmark's scenario that begins now, with its folder."""
        definition = BENCHMARKS[place[0]]
        folder = self.new_folder(*place, started, by_client=by_client)
        return Result(definition, definition.scenario(place[1]), folder, started)

    def result_of(self, key: StepKey) -> Any:
        """The result that a key is part of, as its kind keeps it; the first call creates it."""
        if key.benchmark_and_scenario not in self._results:
            started, kind = datetime.now(UTC).astimezone(), kind_of(key)
            self._results[key.benchmark_and_scenario] = kind.result(key, self, started)
            self._kinds[key.benchmark_and_scenario] = kind
        return self._results[key.benchmark_and_scenario]

    def has_begun(self, key: StepKey) -> bool:
        """Whether the result that a key is part of has begun."""
        return key.benchmark_and_scenario in self._results

    def outcome(self, key: StepKey) -> Any:
        """What the last step of a key returned. Raises KeyError if it was not made."""
        return self._outcomes[key]

    def verdicts(self, key: StepKey) -> list[Verdict]:
        """The verdicts on what a key made; empty if it was not made."""
        result = self._results.get(key.benchmark_and_scenario)
        return kind_of(key).verdicts(key, result) if result is not None else []

    # What the steps returned

    def begin(self, key: StepKey) -> Any:
        """Begin the record of a key, in its result; see `end`."""
        result = self.result_of(key)
        kind_of(key).begin(key, result)
        return result

    def record(self, step: Step, outcome: object) -> None:
        """Take up what a step returned. Runs and scores complete the record that `begin` made."""
        if isinstance(outcome, EngineFigures):
            self._of_engine = outcome
        elif step.key is not None:
            self._outcomes[step.key] = outcome
            kind_of(step.key).record(step, outcome, self.result_of(step.key))

    def end(self, key: StepKey, result: SessionResult, failure: str | None) -> None:
        """Write what became of a key. `failure`: why it failed. Raises OSError as `write` does."""
        result.ended = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        kind_of(key).end(key, result, failure)
        try:
            self.write(result)
        except OSError:
            self.writable = False
            raise

    # Files

    def _kind(self, result: SessionResult) -> tuple[BenchmarkAndScenario, RunKind[Any]]:
        place = next(place for place, made in self._results.items() if made is result)
        return place, self._kinds[place]

    def write(self, result: SessionResult) -> None:
        """Write the facts of a result so far.

        Raises OSError if something cannot be written; summary.json then says so, if it can be
        written itself.
        """
        result.unwritten = None
        try:
            with ranges.named("reports"):
                self._write(result)
        except OSError as error:
            path = result.folder.path
            result.unwritten = f"not everything could be written: {os_error_line(error, path)}"
            with contextlib.suppress(OSError):
                result.folder.last_word(self.summary(result))
            raise

    def _write(self, result: SessionResult) -> None:
        from mlperf_suite.reports.writing import publish, write_reports

        folder, settings = result.folder, self._settings
        _, kind = self._kind(result)
        kind.write(self, result)
        summary = self.summary(result)
        folder.write(SUMMARY_JSON, summary.as_json())
        write_reports(folder.path)
        # If nothing was scored, or a run is not a result, nothing is replaced.
        is_result = kind.replaces_others(result) and not summary.spoiled
        replaces = summary.meta.status in FINAL_STATUSES and is_result and not settings.keep_all
        baselines = [b.folder for b in self._baselines.values() if b.folder]
        # `latest` stays with the run before one that measured nothing.
        measured = bool(summary.verdicts) or has_figures(summary)
        ended = measured and summary.meta.status != "running"
        publish(folder, baselines if replaces else None, ended=ended)

    def write_runs(self, result: Result) -> None:
        """Write config.json and the checksums of the logs of a scenario's result."""
        self.keep_config(result)
        result.folder.record_checksums()

    def keep_config(self, result: Result) -> None:
        """Write config.json alone, with the facts so far. Raises OSError."""
        runs = result.runs.items()
        warm_ups = {m: dataclasses.asdict(run.warm_up) for m, run in runs if run.warm_up}
        content = {**self.config_json(result.benchmark), "warm_up": warm_ups}
        result.folder.write(CONFIG_JSON, content)

    def summary(self, result: SessionResult) -> Summary:
        """The summary of a result so far, with the regression gate's verdict."""
        place, kind = self._kind(result)
        summary: Summary = kind.summary(self, result)
        baseline = self._baselines.get(place)
        if baseline is None or not has_figures(summary):
            return summary
        regression = baseline.judge(
            summary,
            result.folder.path,
            self._settings.max_regression,
            allow_different=self._settings.baseline_allow_different,
        )
        return dataclasses.replace(summary, regression=regression)

    def about(self, role: Role, **meta: Any) -> Summary:
        """What each summary of this session has, besides `meta` and what its steps measured."""
        settings, is_whole = self._settings, source_of(self._settings).is_one_system
        common = Meta(
            model=settings.model,
            engine=self.engines.name(role),
            round=settings.round.name,
            profile=settings.profile,
            label=self.engines.label(role),
            load_generator=self.load_generator,
            # Several engines in workers of pytest-xdist can share what is scored.
            gpus=self.engines.gpus(role) if role == "runs" or is_whole else None,
            cpus_of=self.engines.cpus_of(role),
            node_name=settings.node_name,
            command=self.command,
            suite_version=__version__,
            suite_commit=suite_commit(),
        )
        return Summary(meta=dataclasses.replace(common, **meta), system=dict(describe_system()))

    def runs_summary(self, result: Result) -> Summary:
        """The summary of a scenario's result, without the regression gate's verdict."""
        size = self._sizing.estimator.size(result.benchmark, result.scenario)
        profile = profile_of(self._settings)
        about = dataclasses.replace(
            self.about(
                "runs",
                dataset=self._settings.dataset,
                samples=size.samples,
                samples_why=size.why or None,
                max_new_tokens=self.inputs.generation(result.benchmark).max_new_tokens,
                profiler=profile.profiler if profile else None,
            ),
            parts=self._of_engine.parts,
            plan=tuple(self._sizing.rows(result.benchmark, result.scenario.name)),
        )
        return summary_of(result, about, self._planned_modes(result.benchmark_and_scenario))

    def config_json(self, benchmark: Benchmark) -> dict[str, Any]:
        """Every setting as used, the engine's description, the data, versions and hardware."""
        workload, generation = self.inputs.workload(benchmark), self.inputs.generation(benchmark)
        speed = self._sizing.estimator.speed
        settings = {
            **self._settings.as_json(),
            **workload.prompt.as_json(),
            "max_new_tokens": generation.max_new_tokens,
            "generation": generation.as_json(),
            **self.inputs.generation_by_mode(benchmark),
        }
        return {
            **self.about_json("runs"),
            "benchmark": benchmark.id,
            "settings": settings,
            "dataset": self.inputs.data_json(benchmark),
            "speed": dataclasses.asdict(speed) if speed else None,
            "prompts_sha256": self.inputs.prompts_sha256(benchmark),
        }

    def about_json(self, role: Role) -> dict[str, Any]:
        """What each config.json of this session has: the suite, the engine, the system."""
        description = self.engines.descriptions.get(role)
        return {
            "suite_version": __version__,
            "engine": dataclasses.asdict(description) if description else None,
            "system": describe_system(),
        }

    # The end of the session

    def _planned_modes(self, place: BenchmarkAndScenario) -> set[Mode]:
        plan = self._sizing.plan
        keys = [key for key in plan.keys if key.benchmark_and_scenario == place]
        return {mode for key in keys for mode in kind_of(key).modes(key, plan.selection)}

    def close(self) -> None:
        """Mark each result as failed whose planned runs were not all made."""
        for result in self._results_of_runs:
            modes = sorted(self._planned_modes(result.benchmark_and_scenario) - result.runs.keys())
            if modes and result.failure is None and self.writable:
                result.cut_short = f"the session ended before its {modes[0]} run"
                with contextlib.suppress(OSError):
                    self.write(result)
        for made in self._results.values():
            made.folder.give_up_room()
        self._write_node_files()

    @property
    def _results_of_runs(self) -> list[Result]:
        return [result for result in self._results.values() if isinstance(result, Result)]

    def _write_node_files(self) -> None:
        """Write the files that users of the node script parse, if the node has a name."""
        node, results = self._settings.node_name, self._results_of_runs
        if node is None or not results:
            return
        of_node = [NodeResult(self.summary(r), r.folder.path, r.started) for r in results]
        # On a full disk, each result already says so.
        with contextlib.suppress(OSError):
            self.node_files = write_node_files(self._settings.results_dir, node, of_node)
