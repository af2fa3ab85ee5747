"""One session of the suite: an engine and data loaded once, runs made once, each one judged.

A run is made when its first verdict is asked for; every later question is about the same run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from mlperf_suite import __version__
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import RUNNABLE, Category, Scenario
from mlperf_suite.benchmarks.prompts import encode_prompts, end_of_text_ids, load_tokenizer
from mlperf_suite.benchmarks.workload import EMBEDDED, OFFICIAL, Baseline, Generation
from mlperf_suite.compliance.rules import RunFacts, accuracy_verdict, judge
from mlperf_suite.datasets.news import News, load_news
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import RunError, SuiteError, UsageError
from mlperf_suite.hardware import describe_system
from mlperf_suite.loadgen.load_plan import (
    SMOKE,
    LoadPlan,
    Shortened,
    plan_run,
)
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.loadgen.runner import (
    LoadRun,
    Progress,
    abandoned,
    check_round,
    run_loadgen,
)
from mlperf_suite.reports.index_page import write_index
from mlperf_suite.reports.writing import write_reports, write_samples
from mlperf_suite.results.baseline import Reference, write_rouge_samples
from mlperf_suite.results.metrics import performance_metrics, repeated_metrics
from mlperf_suite.results.record import (
    MODES,
    Result,
    RunKey,
    Stage,
    accuracy_figures,
    rouge_json,
    summary_json,
)
from mlperf_suite.results.run_folder import (
    CONFIG_JSON,
    ENDED,
    SUMMARY_JSON,
    RunFolder,
    check_writable,
    write_json,
)
from mlperf_suite.scorers.rouge import RougeScores, check_punkt, score_rouge
from mlperf_suite.session.rates import expected_latency_ms, target_qps
from mlperf_suite.settings import Settings, check_model_is_reachable


class Watcher(Protocol):
    """Who hears how far the session is."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Something begins; `total` samples are ahead where that is known."""

    def progress(self, progress: Progress) -> None:
        """The run of this stage is so far."""

    def idle(self) -> None:
        """The stage is over."""

    def say(self, line: str) -> None:
        """A line for whoever watches, to stay."""


class Session:
    """Loads on demand, runs once, judges. `planned` says which runs the user selected."""

    def __init__(
        self,
        settings: Settings,
        load_engine: Callable[[Session], Engine],
        watcher: Watcher,
        planned: frozenset[RunKey] = frozenset(),
    ) -> None:
        self.settings = settings
        self.planned = planned
        self.results: dict[tuple[str, str], Result] = {}
        self._load_engine = load_engine
        self._engine: Engine | None = None
        self._load_failure: SuiteError | None = None
        self.watch = watcher
        self._results_written = True
        self.references: Mapping[tuple[str, str], Reference] = {}
        """By category and scenario, the earlier run that the regression gate compares with."""
        self.engine_log: Path | None = None
        """Where the engine's output goes: the folder of the run that loads it."""
        self.wants_scoring = False
        """Whether questions are to be scored too: the engine then keeps a prefix cache for them.
        Answers of other runs never come from it."""

    def check(self, categories: Iterable[Category]) -> None:
        """Find what would stop the session, before anything slow is loaded. Raises UsageError."""
        check_round(self.settings.round)
        check_writable(self.settings.results_dir)
        check_model_is_reachable(self.settings)
        for category in categories:
            self.news(category)
        _ = self.model_path
        if any(key.mode == "accuracy" for key in self.planned):
            check_punkt()

    @cached_property
    def model_path(self) -> str:
        """The folder or hub id that the engine loads."""
        model = self.settings.model
        return str(embedded_model_dir()) if model == EMBEDDED.model else model

    @cached_property
    def _all_news(self) -> News:
        return load_news(self.settings.dataset, self.settings.token)

    def news(self, category: Category) -> News:
        """The samples of a category, in QSL order."""
        return self._all_news.for_benchmark(RUNNABLE[category].samples).first(
            self.settings.total_sample_count
        )

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.model_path, self.settings.token)

    @cached_property
    def _prompts(self) -> dict[Category, list[list[int]]]:
        return {}

    def prompts(self, category: Category) -> list[list[int]]:
        """The token ids of each sample. Raises UsageError for one that leaves no room to answer."""
        if category not in self._prompts:
            encoded = encode_prompts(self.news(category).items, self.settings.task, self.tokenizer)
            self._prompts[category] = encoded
        return self._prompts[category]

    @cached_property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The ids with which the model itself ends an answer."""
        return end_of_text_ids(self.model_path, self.tokenizer, self.settings.token)

    @property
    def generation(self) -> Generation:
        return dataclasses.replace(
            self.settings.task.generation, max_new_tokens=self.settings.max_new_tokens
        )

    @property
    def engine(self) -> Engine:
        """The engine, loaded at the first call; what did not load once is not tried again.

        Raises SuiteError.
        """
        if self._load_failure is not None:
            raise self._load_failure
        if self._engine is None:
            self.watch.stage("loading the engine")
            try:
                self._engine = self._load_engine(self)
            except SuiteError as error:
                self._load_failure = error
                raise
            finally:
                self.watch.idle()
        return self._engine

    @property
    def engine_was_loaded(self) -> bool:
        return self._engine is not None

    @property
    def can_go_on(self) -> bool:
        """Whether another run could be made in this process."""
        return (
            self._results_written
            and self._load_failure is None
            and not abandoned()
            and (self._engine is None or self._engine.alive)
        )

    @property
    def must_exit_hard(self) -> bool:
        """Whether an abandoned LoadGen run still goes on in this process."""
        return abandoned()

    def close(self) -> None:
        """Stop the engine. What was planned and not made ends its result as failed."""
        if self._engine is not None:
            self._engine.close()
        for result in self.results.values():
            missing = [
                key.mode
                for key in self._planned_of(result)
                if key.mode not in result.stages and result.failure is None
            ]
            if missing and self._results_written:
                result.cut_short = f"the session ended before its {missing[0]} run"
                with contextlib.suppress(OSError):
                    self.write(result)

    def _planned_of(self, result: Result) -> list[RunKey]:
        """The runs that the user selected of a result, in the order in which they are made."""
        kind = (result.benchmark.category, result.scenario.name)
        keys = (RunKey(*kind, mode) for mode in MODES)
        return [key for key in keys if key in self.planned]

    def baseline(self, category: Category, samples: int) -> Baseline | None:
        """What this model must score on these samples, or None where nobody measured it."""
        settings = self.settings
        own_model = settings.model == EMBEDDED.model and settings.dataset == EMBEDDED.dataset
        official_data = settings.dataset == OFFICIAL.dataset or self._is_whole(category)
        known = own_model or (settings.task is OFFICIAL and official_data)
        return settings.task.baseline(category, samples) if known else None

    def _is_whole(self, category: Category) -> bool:
        """Whether the data is as large as the benchmark's: a local copy of it, as far as seen."""
        wanted = RUNNABLE[category].samples
        return len(self._all_news.for_benchmark(wanted).items) == wanted

    def samples(self, key: RunKey) -> int:
        """The number of samples that a run takes: all, but for the slowest of the smoke runs."""
        available = len(self.news(key.category).items)
        shortened = self._shortened(RUNNABLE[key.category].scenario(key.scenario))
        if shortened is None or self.settings.total_sample_count is not None:
            return available
        return min(available, shortened.samples or available)

    def _shortened(self, scenario: Scenario) -> Shortened | None:
        return SMOKE[scenario.loadgen_scenario] if self.settings.smoke else None

    def run(self, key: RunKey) -> Stage:
        """The run of this key, made now if it was not yet. Raises SuiteError where it failed."""
        result = self.result(key.category, key.scenario)
        if key.mode not in result.stages:
            if (before := self._run_before(key)) is not None:
                self.run(before)
            self._make(key, result)
        stage = result.stages[key.mode]
        if stage.failure is not None:
            raise RunError(f"{key}: {stage.failure}")
        return stage

    def failure_of(self, key: RunKey) -> str | None:
        """Why the run of this key, or the one before it, died; None where neither did by now."""
        result = self.results.get((key.category, key.scenario))
        stage = result.stages.get(key.mode) if result else None
        if stage is None and (before := self._run_before(key)) is not None:
            return self.failure_of(before)
        return stage.failure if stage else None

    def _run_before(self, key: RunKey) -> RunKey | None:
        """The run that must be made before this one: accuracy first, where it is planned."""
        accuracy = RunKey(key.category, key.scenario, "accuracy")
        return accuracy if key.mode == "performance" and accuracy in self.planned else None

    def was_made(self, key: RunKey) -> bool:
        """Whether the run of this key was made, or at least begun."""
        result = self.results.get((key.category, key.scenario))
        return result is not None and key.mode in result.stages

    def result(self, category: Category, scenario: str) -> Result:
        """The result of a scenario, its folder made at the first call."""
        kind = (category, scenario)
        if kind not in self.results:
            benchmark, started = RUNNABLE[category], datetime.now(UTC).astimezone()
            folder = RunFolder(self.settings.results_dir, category, scenario, started)
            self.results[kind] = Result(benchmark, benchmark.scenario(scenario), folder, started)
        return self.results[kind]

    def _make(self, key: RunKey, result: Result) -> None:
        stage = result.stages[key.mode] = Stage()
        try:
            self.prepare(result)
            run = self._load_run(key, result)
            self._judge(key, result, stage, run)
        except OSError as error:
            stage.failure = f"{error.filename or result.folder.path}: {error.strerror}"
        except SuiteError as error:
            stage.failure = str(error)
        except BaseException as error:
            stage.failure = f"interrupted ({type(error).__name__})"
            self.write(result)
            raise
        finally:
            self.watch.idle()
        try:
            self.write(result)
        except OSError as error:
            stage.failure = stage.failure or f"{result.folder.path}: {error.strerror}"
            self._results_written = False

    def prepare(self, result: Result) -> None:
        """Write what is known so far, load the engine, and check that every prompt fits it."""
        self.write(result)
        self.engine_log = self.engine_log or result.folder.path / "engine.log"
        self._check_prompts(result.benchmark.category)

    def _check_prompts(self, category: Category) -> None:
        room = self.engine.description.max_model_len - self.generation.min_new_tokens
        for index, prompt in enumerate(self.prompts(category)):
            if len(prompt) > room:
                raise UsageError(
                    f"sample {index}: its prompt of {len(prompt):,} tokens does not fit the "
                    f"engine's context of {room + 1:,}: raise --max-model-len or leave it out"
                )

    def _load_run(self, key: RunKey, result: Result, repeat: int = 1) -> LoadRun:
        prompts = self.prompts(key.category)[: self.samples(key)]
        plan = self._plan(key, result, len(prompts))
        folder = result.folder.of_mode(key.mode)
        if repeat > 1:
            folder /= f"repeat_{repeat}"
        self.watch.stage(
            f"{key} {repeat}" if repeat > 1 else str(key), self._expected_samples(plan)
        )
        return run_loadgen(plan, self.engine, prompts, self.generation, folder, self.watch.progress)

    def _plan(self, key: RunKey, result: Result, samples: int) -> LoadPlan:
        return plan_run(
            result.benchmark,
            result.scenario,
            key.mode,
            self.settings.round,
            samples,
            target_qps=target_qps(self, key, result),
            expected_latency_ms=expected_latency_ms(self, key, result),
            shortened=self._shortened(result.scenario),
        )

    @staticmethod
    def _expected_samples(plan: LoadPlan) -> int | None:
        if plan.mode == "accuracy":
            return plan.samples
        return None

    def _judge(self, key: RunKey, result: Result, stage: Stage, run: LoadRun) -> None:
        baseline = self.baseline(key.category, self.samples(key))
        scores = None
        if key.mode == "accuracy":
            self.watch.stage("scoring the answers")
            scores = self._score(key.category, run.logs)
            stage.rate = run.samples / run.elapsed_s
        accuracy = result.stages.get("accuracy")
        facts = RunFacts(
            result.benchmark,
            result.scenario,
            key.mode,
            self.settings.round,
            run.logs,
            smoke=self.settings.smoke,
            scores=scores.means if scores else None,
            baseline=baseline,
            high_accuracy=self.settings.high_accuracy,
            accuracy_passed=accuracy_verdict(accuracy.verdicts)
            if accuracy and key.mode == "performance"
            else None,
            eos_token_ids=self.eos_token_ids if key.mode == "test06" else None,
            departures=self.settings.departures,
        )
        stage.verdicts = judge(facts)
        if key.mode == "test06":
            verdicts = [v.as_json() for v in stage.verdicts]
            write_json(result.folder.compliance / "verdicts.json", verdicts)
        elif key.mode == "performance":
            stage.figures = performance_metrics(
                result.scenario, run.logs.detail, run.elapsed_s, run.tokens, run.timeline
            )
            stage.figures["repeats"] = self._repeats(key, result)
        elif scores is not None:
            stage.figures = accuracy_figures(scores, facts, stage.verdicts)
            write_json(result.folder.accuracy / "rouge.json", rouge_json(scores, facts))
            write_rouge_samples(
                result.folder.accuracy, scores.samples, self.news(key.category).sha256
            )

    def _repeats(self, key: RunKey, result: Result) -> list[dict[str, Any]]:
        """The same run made again as often as --repeat says; what is judged is the first."""
        again = [self._load_run(key, result, n) for n in range(2, self.settings.repeat + 1)]
        return [
            repeated_metrics(
                performance_metrics(result.scenario, run.logs.detail, run.elapsed_s, run.tokens)
            )
            for run in again
        ]

    def _score(self, category: Category, logs: RunLogs) -> RougeScores | None:
        """ROUGE of the answers as LoadGen logged them; None where the log holds none."""
        answers = logs.accuracy.first_of_each()
        items = self.news(category).items
        indices = sorted(index for index in answers if 0 <= index < len(items))
        if not indices:
            return None
        texts = self.tokenizer.batch_decode(
            [list(answers[index].token_ids) for index in indices], skip_special_tokens=True
        )
        write_samples(logs.folder, indices, texts, items)
        return score_rouge(texts, [items[index].highlights for index in indices])

    def write(self, result: Result) -> None:
        """Write what is known of a result by now: config, summary, report, index."""
        folder = result.folder
        folder.write(CONFIG_JSON, self.config_json(result.benchmark.category))
        folder.record_checksums()
        summary = self.summary(result)
        folder.write(SUMMARY_JSON, summary)
        write_reports(folder.path)
        folder.publish()
        if not self.settings.keep_all and summary["meta"]["status"] in ENDED:
            folder.drop_older(r.folder for r in self.references.values() if r.folder)
        write_index(self.settings.results_dir)

    def config_json(self, category: Category) -> dict[str, Any]:
        description = dataclasses.asdict(self._engine.description) if self._engine else None
        news = self.news(category)
        return {
            "suite_version": __version__,
            "settings": self.settings.as_json(),
            "engine": description,
            "dataset": {"name": news.name, "samples": len(news.items), "sha256": news.sha256},
            "prompts_sha256": self._prompts_sha256(category),
            "system": describe_system(),
        }

    def _prompts_sha256(self, category: Category) -> str | None:
        if category not in self._prompts:
            return None
        return hashlib.sha256(json.dumps(self._prompts[category]).encode()).hexdigest()

    @property
    def label(self) -> str:
        """What stands on every output."""
        if self._engine is not None and self._engine.description.stand_in:
            return "made with a stand-in engine: not a measurement of any system"
        return self.settings.label

    def summary(self, result: Result) -> dict[str, Any]:
        """summary.json of a result as it stands, with what the regression gate says of it."""
        kind = (result.benchmark.category, result.scenario.name)
        planned = {key.mode for key in self._planned_of(result)}
        samples = self.samples(RunKey(*kind, "performance"))
        summary = summary_json(result, self.settings, self.label, planned, samples)
        reference = self.references.get(kind)
        if reference is not None and summary["run"]:
            summary["regression"] = reference.judge(
                summary,
                result.folder.path,
                self.settings.max_regression,
                allow_different=self.settings.baseline_allow_different,
            )
        return summary


def load_vllm(session: Session) -> Engine:
    """The engine that the settings ask for."""
    from mlperf_suite.engines.vllm_engine import VllmConfig, VllmEngine

    settings = session.settings
    return VllmEngine.load(
        VllmConfig(
            session.model_path,
            settings.precision,  # type: ignore[arg-type]
            settings.tensor_parallel_size,
            settings.max_model_len,
            settings.gpu_memory_utilization,
            settings.max_new_tokens,
            600.0 if settings.smoke else 3600.0,
            session.engine_log,
            settings.token,
            dict(settings.engine_args),
            scoring_cache=session.wants_scoring,
        )
    )
