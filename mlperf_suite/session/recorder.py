"""Records each result and writes its settings, summary, reports and index."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlperf_suite import __version__
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.engines.protocol import EngineDescription
from mlperf_suite.errors import of_the_system
from mlperf_suite.hardware import describe_system
from mlperf_suite.profiling import ranges
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.node_files import NodeResult, write_node_files
from mlperf_suite.results.record import About, Result, summary_of
from mlperf_suite.results.run_folder import CONFIG_JSON, ENDED, SUMMARY_JSON, RunFolder
from mlperf_suite.results.schema import PlanRow, ScalingFigures, Summary
from mlperf_suite.results.validity_marks import STAND_IN_LABEL
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import Plan

Baselines = Mapping[tuple[str, str], BaselineRun]


class Recorder:
    """Records the results of a session.

    `plan`: which runs were selected. `baselines`: by benchmark id and scenario, the earlier run
    that the regression gate compares with. `description`: of the engine of the runs, None until it
    is loaded. `samples_of`: how many samples the runs of a result take, and why that many.
    `rows`: the steps with their expected and actual times. `speed`: the engine's probed speed.
    """

    def __init__(
        self,
        inputs: Inputs,
        plan: Plan,
        baselines: Baselines,
        description: Callable[[], EngineDescription | None],
        samples_of: Callable[[Benchmark, str], tuple[int, str]],
        rows: Callable[[Benchmark, str], Sequence[PlanRow]],
        speed: Callable[[], dict[str, Any] | None],
    ) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._plan = plan
        self.baselines = baselines
        self._description = description
        self._samples_of = samples_of
        self._rows = rows
        self._speed = speed
        self._results: dict[tuple[str, str], Result] = {}
        self.writable = True
        """Whether all files could be written so far."""
        self.node_files: list[Path] = []
        """The files with the session's results in the node script's format."""
        self.scaling: ScalingFigures | None = None
        """How replicas scale, if it was measured."""

    @property
    def results(self) -> list[Result]:
        """The results that have begun, in that order."""
        return list(self._results.values())

    def result(self, benchmark: Benchmark, scenario: str) -> Result:
        """The result of a scenario; the first call creates its folder."""
        kind = (benchmark.id, scenario)
        if kind not in self._results:
            started = datetime.now(UTC).astimezone()
            folder = RunFolder(self._settings.results_dir, benchmark.id, scenario, started)
            self._results[kind] = Result(benchmark, benchmark.scenario(scenario), folder, started)
        return self._results[kind]

    def _planned(self, result: Result) -> set[Mode]:
        kind = (result.benchmark.id, result.scenario.name)
        return {key.mode for key in self._plan.runs if (key.benchmark, key.scenario) == kind}

    def write(self, result: Result) -> None:
        """Write what is known about a result so far.

        Raises OSError if something cannot be written; summary.json then says so, if it can be
        written itself.
        """
        result.unwritten = None
        try:
            with ranges.named("reports"):
                self._write(result)
        except OSError as error:
            result.unwritten = unwritten(error, result.folder.path)
            with contextlib.suppress(OSError):
                result.folder.last_word(self.summary(result))
            raise

    def _write(self, result: Result) -> None:
        from mlperf_suite.reports.writing import write_reports

        folder = result.folder
        warmed = {mode: run.warm_up for mode, run in result.runs.items() if run.warm_up}
        warm_up = {mode: dataclasses.asdict(one) for mode, one in warmed.items()}
        content = {**self.config_json(result.benchmark), "warm_up": warm_up}
        folder.write(CONFIG_JSON, content)
        folder.record_checksums()
        summary = self.summary(result)
        folder.write(SUMMARY_JSON, summary.as_json())
        write_reports(folder.path)
        # A run that is not a result replaces none.
        keep_all = self._settings.keep_all or bool(summary.no_result)
        publish(folder, summary.meta.status, keep_all, self.baselines)

    def summary(self, result: Result) -> Summary:
        """The summary of a result so far, with the regression gate's verdict."""
        settings = self._settings
        samples, why = self._samples_of(result.benchmark, result.scenario.name)
        about = About(
            model=settings.model,
            dataset=settings.dataset,
            samples=samples,
            samples_why=why or None,
            max_new_tokens=self._inputs.generation(result.benchmark).max_new_tokens,
            round=settings.round.name,
            profile=settings.profile,
            label=self.label,
            node_name=settings.node_name,
            profiler=settings.profile_run,
            system=describe_system(),
            scaling=self.scaling,
            plan=tuple(self._rows(result.benchmark, result.scenario.name)),
        )
        summary = summary_of(result, about, self._planned(result))
        baseline = self.baselines.get((result.benchmark.id, result.scenario.name))
        if baseline is not None and (summary.run.performance or summary.run.accuracy):
            judged = baseline.judge(
                summary,
                result.folder.path,
                settings.max_regression,
                allow_different=settings.baseline_allow_different,
            )
            summary = dataclasses.replace(summary, regression=judged)
        return summary

    def config_json(self, benchmark: Benchmark) -> dict[str, Any]:
        """Every setting as used, the engine's description, the data, versions and hardware."""
        description, workload = self._description(), self._inputs.workload(benchmark)
        generation = self._inputs.generation(benchmark)
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
            "engine": dataclasses.asdict(description) if description else None,
            "dataset": self._inputs.data_json(benchmark),
            "speed": self._speed(),
            "prompts_sha256": self._inputs.prompts_sha256(benchmark),
            "system": describe_system(),
        }

    @property
    def label(self) -> str:
        """The label shown on every output."""
        return label_of(self._settings.label, self._description())

    def close(self) -> None:
        """Mark each result as failed whose planned runs were not all made."""
        for result in self.results:
            missing = sorted(self._planned(result) - result.runs.keys())
            if missing and result.failure is None and self.writable:
                result.cut_short = f"the session ended before its {missing[0]} run"
                with contextlib.suppress(OSError):
                    self.write(result)
            result.folder.give_up_room()
        self._write_node_files()

    def _write_node_files(self) -> None:
        """Write the files that users of the node script parse, if the node has a name."""
        node = self._settings.node_name
        if node is None or not self.results:
            return
        made = [NodeResult(self.summary(r), r.folder.path, r.started) for r in self.results]
        # On a full disk, each result already says so.
        with contextlib.suppress(OSError):
            self.node_files = write_node_files(self._settings.results_dir, node, made)


def unwritten(error: OSError, folder: Path) -> str:
    """What could not be written and why, in a line. `folder`: named if the error names no path."""
    return f"not everything could be written: {of_the_system(error, folder)}"


def label_of(label: str, description: EngineDescription | None) -> str:
    """The label of the profile, or the stand-in engine's label."""
    return STAND_IN_LABEL if description is not None and description.stand_in else label


def publish(folder: RunFolder, status: str | None, keep_all: bool, baselines: Baselines) -> None:
    """Make a written run the latest, drop older ones of its kind if asked, update the index."""
    from mlperf_suite.reports.index_page import write_index

    folder.publish()
    if not keep_all and status in ENDED:
        folder.drop_older(b.folder for b in baselines.values() if b.folder)
    write_index(folder.path.parent)
