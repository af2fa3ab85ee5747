"""Records each result and writes its settings, summary, reports and index."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlperf_suite import __version__
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import CURVE, Benchmark
from mlperf_suite.client_results.client_benchmarks import ClientRunKey
from mlperf_suite.errors import of_the_system
from mlperf_suite.hardware import describe_system
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.mmlu.score_files import SUBJECTS_PLOT, MmluRecord
from mlperf_suite.profiling import ranges
from mlperf_suite.results.baseline import MMLU_KIND, BaselineRun
from mlperf_suite.results.curve_figures import CurveFigures
from mlperf_suite.results.node_files import NodeResult, write_node_files
from mlperf_suite.results.record import (
    CurveRecord,
    PeakSearch,
    Result,
    RunRecord,
    Search,
    summary_of,
)
from mlperf_suite.results.run_folder import CONFIG_JSON, ENDED, SUMMARY_JSON, RunFolder
from mlperf_suite.results.schema import MMLU, Meta, Run, ScalingFigures, Summary, WarmUpFigures
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import CurveKey, MmluKey, Role, SearchKey, Step, StepKey
from mlperf_suite.session.timing.pace import Pace

Baselines = Mapping[tuple[str, str], BaselineRun]


class Recorder:
    """Records the results of a session.

    `baselines`: by benchmark id and scenario, the earlier run that the regression gate compares
    with.
    """

    def __init__(self, inputs: Inputs, pace: Pace, baselines: Baselines, engines: Engines) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._pace = pace
        self._baselines = baselines
        self._engines = engines
        self._results: dict[tuple[str, str], Result] = {}
        self._searches: dict[SearchKey, PeakSearch] = {}
        self._scaling: ScalingFigures | None = None
        self.mmlu: MmluRecord | None = None
        """The MMLU score, None before it begins."""
        self.load_generator: str | None = None
        """What sends the requests in LoadGen's place, with version and commit; None if LoadGen."""
        self.writable = True
        """Whether all files could be written so far."""
        self.node_files: list[Path] = []
        """The files with the session's results in the node script's format."""

    @property
    def results(self) -> list[Result]:
        """The results that have begun, in that order, without MMLU's."""
        return list(self._results.values())

    def result(self, benchmark: str, scenario: str) -> Result:
        """The result of a scenario; the first call creates its folder."""
        kind = (benchmark, scenario)
        if kind not in self._results:
            start = datetime.now(UTC).astimezone()
            by_client = self._settings.by_official_client and scenario != CURVE
            place = (self._settings.results_dir, benchmark, scenario, start)
            folder = RunFolder(*place, by_client=by_client)
            definition = BENCHMARKS[benchmark]
            self._results[kind] = Result(definition, definition.scenario(scenario), folder, start)
        return self._results[kind]

    def search(self, key: SearchKey) -> PeakSearch:
        """What a search found. Raises KeyError if it was not made."""
        return self._searches[key]

    def curve(self, key: CurveKey) -> CurveRecord:
        """A curve as far as it was measured."""
        curve = self.result(*key.place).curve
        assert curve is not None
        return curve

    def result_of(self, key: StepKey) -> Result | MmluRecord:
        """The result that a key is part of; MMLU's must have begun."""
        if isinstance(key, MmluKey):
            assert self.mmlu is not None
            return self.mmlu
        return self.result(*key.place)

    def verdicts(self, key: StepKey) -> list[Verdict]:
        """The verdicts on what a key made; empty if it was not made."""
        if isinstance(key, MmluKey):
            return self.mmlu.verdicts if self.mmlu else []
        result = self.result(*key.place)
        if isinstance(key, ClientRunKey):
            return result.verdicts
        record = result.runs.get(key.mode) if isinstance(key, RunKey) else None
        return record.verdicts if record else []

    # What the steps returned

    def begin(self, key: StepKey) -> Result | MmluRecord:
        """Begin the record of a key, in its result; see `end`."""
        if isinstance(key, MmluKey):
            start = datetime.now(UTC).astimezone()
            folder = RunFolder(self._settings.results_dir, MMLU, None, start)
            self.mmlu = MmluRecord(self._inputs.mmlu, folder, start)
            return self.mmlu
        result = self.result(*key.place)
        if isinstance(key, RunKey):
            result.runs[key.mode] = RunRecord()
        elif isinstance(key, ClientRunKey):
            result.runs["performance"] = RunRecord()
        elif isinstance(key, CurveKey):
            result.curve = CurveRecord()
        else:
            result.search = Search()
        return result

    def record(self, step: Step, outcome: object) -> None:
        """Take up what a step returned. Runs and MMLU complete the record that `begin` made."""
        key = step.key
        if isinstance(outcome, ScalingFigures):
            self._scaling = outcome
        elif isinstance(outcome, WarmUpFigures) and isinstance(key, RunKey):
            record = self.result(*key.place).runs[key.mode]
            record.warm_up = record.warm_up or outcome
        elif isinstance(outcome, PeakSearch) and isinstance(key, SearchKey):
            self._searches[key] = outcome
            search = self.result(*key.place).search
            assert search is not None
            search.peak = outcome.figures
        elif isinstance(outcome, CurveFigures) and isinstance(key, CurveKey):
            self.curve(key).complete = True

    def end(self, key: StepKey, result: Result | MmluRecord, failure: str | None) -> None:
        """Write what became of a key. `failure`: why it failed. Raises OSError as `write` does."""
        result.ended = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        if isinstance(result, MmluRecord):
            result.died = failure
        elif isinstance(key, RunKey):
            result.runs[key.mode].failure = failure
        elif isinstance(key, ClientRunKey):
            result.runs["performance"].failure = failure
        elif isinstance(key, CurveKey):
            self.curve(key).failure = failure
        elif result.search is not None:
            result.search.failure = failure
        try:
            self.write(result)
        except OSError:
            self.writable = False
            raise

    # Files

    def write(self, result: Result | MmluRecord) -> None:
        """Write what is known about a result so far.

        Raises OSError if something cannot be written; summary.json then says so, if it can be
        written itself.
        """
        result.unwritten = None
        try:
            with ranges.named("reports"):
                self._write(result)
        except OSError as error:
            path = result.folder.path
            result.unwritten = f"not everything could be written: {of_the_system(error, path)}"
            with contextlib.suppress(OSError):
                result.folder.last_word(self.summary(result))
            raise

    def _write(self, result: Result | MmluRecord) -> None:
        from mlperf_suite.reports.writing import publish, write_reports

        folder, settings = result.folder, self._settings
        if isinstance(result, MmluRecord):
            label = self._engines.label("scoring")
            result.write_scores(settings.model, label, details=settings.mmlu_details)
            folder.write(CONFIG_JSON, self._mmlu_config_json(result))
        else:
            self.keep_config(result)
            folder.record_checksums()
        summary = self.summary(result)
        folder.write(SUMMARY_JSON, summary.as_json())
        write_reports(folder.path)
        # If nothing was scored, or a run is not a result, nothing is replaced.
        unscored = isinstance(result, MmluRecord) and result.scores is None
        is_result = not (unscored or summary.spoiled)
        replaces = summary.meta.status in ENDED and is_result and not settings.keep_all
        baselines = [b.folder for b in self._baselines.values() if b.folder]
        ended = summary.meta.status != "running"
        publish(folder, baselines if replaces else None, ended=ended)

    def keep_config(self, result: Result) -> None:
        """Write config.json alone, with what is known by now. Raises OSError."""
        runs = result.runs.items()
        warm_ups = {m: dataclasses.asdict(run.warm_up) for m, run in runs if run.warm_up}
        content = {**self.config_json(result.benchmark), "warm_up": warm_ups}
        result.folder.write(CONFIG_JSON, content)

    def summary(self, result: Result | MmluRecord) -> Summary:
        """The summary of a result so far, with the regression gate's verdict."""
        if isinstance(result, MmluRecord):
            kind, summary = MMLU_KIND, self._mmlu_summary(result)
        else:
            kind, summary = result.place, self._runs_summary(result)
        baseline, run = self._baselines.get(kind), summary.run
        if baseline is None or (run.is_empty and not (summary.curve and summary.curve.measured)):
            return summary
        regression = baseline.judge(
            summary,
            result.folder.path,
            self._settings.max_regression,
            allow_different=self._settings.baseline_allow_different,
        )
        return dataclasses.replace(summary, regression=regression)

    def _about(self, role: Role, **meta: Any) -> Summary:
        """What each summary of this session has, besides `meta` and what its steps measured."""
        settings = self._settings
        common = Meta(
            model=settings.model,
            engine=self._engines.name(role),
            round=settings.round.name,
            profile=settings.profile,
            label=self._engines.label(role),
            load_generator=self.load_generator,
            # Several engines in workers of pytest-xdist can share the questions of MMLU.
            gpus=self._engines.gpus(role) if role == "runs" or settings.replicated else None,
            cpus_of=self._engines.cpus_of(role),
            node_name=settings.node_name,
        )
        return Summary(meta=dataclasses.replace(common, **meta), system=dict(describe_system()))

    def _runs_summary(self, result: Result) -> Summary:
        size = self._pace.estimator.size(result.benchmark, result.scenario)
        about = dataclasses.replace(
            self._about(
                "runs",
                dataset=self._settings.dataset,
                samples=size.samples,
                samples_why=size.why or None,
                max_new_tokens=self._inputs.generation(result.benchmark).max_new_tokens,
                profiler=self._settings.profile_run,
            ),
            run=Run(scaling=self._scaling),
            plan=tuple(self._pace.rows(result.benchmark, result.scenario.name)),
        )
        return summary_of(result, about, self._planned_modes(result))

    def _mmlu_summary(self, record: MmluRecord) -> Summary:
        return dataclasses.replace(
            self._about(
                "scoring",
                benchmark=MMLU,
                dataset=record.task.data.name,
                questions=record.task.planned,
                shots=record.task.shots,
                started=record.started.isoformat(timespec="seconds"),
                ended=record.ended,
                status=record.status,
                reason=record.failure,
            ),
            run=Run(mmlu=record.figures(self._settings.model)),
            verdicts=tuple(record.verdicts),
            plots=(SUBJECTS_PLOT,) if (record.folder.path / SUBJECTS_PLOT).is_file() else (),
        )

    def config_json(self, benchmark: Benchmark) -> dict[str, Any]:
        """Every setting as used, the engine's description, the data, versions and hardware."""
        workload, generation = self._inputs.workload(benchmark), self._inputs.generation(benchmark)
        speed = self._pace.estimator.speed
        settings = {
            **self._settings.as_json(),
            **workload.prompt.as_json(),
            "max_new_tokens": generation.max_new_tokens,
            "generation": generation.as_json(),
            **self._inputs.generation_by_mode(benchmark),
        }
        return {
            "suite_version": __version__,
            "benchmark": benchmark.id,
            "settings": settings,
            "engine": self._description_json("runs"),
            "dataset": self._inputs.data_json(benchmark),
            "speed": dataclasses.asdict(speed) if speed else None,
            "prompts_sha256": self._inputs.prompts_sha256(benchmark),
            "system": describe_system(),
        }

    def _mmlu_config_json(self, record: MmluRecord) -> dict[str, Any]:
        data = record.task.data
        questions = {"dev": data.dev, "test": data.test}
        return {
            "suite_version": __version__,
            "settings": self._settings.as_json(),
            "engine": self._description_json("scoring"),
            "dataset": {
                "name": data.name,
                **{part: sum(map(len, of.values())) for part, of in questions.items()},
                "sha256": data.sha256,
            },
            "shots": record.task.shots,
            "system": describe_system(),
        }

    def _description_json(self, role: Role) -> dict[str, Any] | None:
        description = self._engines.descriptions.get(role)
        return dataclasses.asdict(description) if description else None

    # The end of the session

    def _planned_modes(self, result: Result) -> set[Mode]:
        plan = self._pace.plan
        modes = {key.mode for key in plan.runs if key.place == result.place}
        by_client = [
            k for k in plan.keys if isinstance(k, ClientRunKey) and k.place == result.place
        ]
        modes |= {"performance"} if by_client else set()
        return modes | {"accuracy" for key in by_client if key in plan.selection.scored}

    def close(self) -> None:
        """Mark each result as failed whose planned runs were not all made."""
        for result in self.results:
            modes = sorted(self._planned_modes(result) - result.runs.keys())
            if modes and result.failure is None and self.writable:
                result.cut_short = f"the session ended before its {modes[0]} run"
                with contextlib.suppress(OSError):
                    self.write(result)
            result.folder.give_up_room()
        if self.mmlu is not None:
            self.mmlu.folder.give_up_room()
        self._write_node_files()

    def _write_node_files(self) -> None:
        """Write the files that users of the node script parse, if the node has a name."""
        node = self._settings.node_name
        if node is None or not self.results:
            return
        results = [NodeResult(self.summary(r), r.folder.path, r.started) for r in self.results]
        # On a full disk, each result already says so.
        with contextlib.suppress(OSError):
            self.node_files = write_node_files(self._settings.results_dir, node, results)
