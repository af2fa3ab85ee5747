"""One session of the suite: an engine and data loaded once, runs made once, each one judged.

A run is made when its first verdict is asked for; every later question is about the same run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from mlperf_suite import __version__
from mlperf_suite.accuracy.rouge import RougeScores, check_punkt, score_rouge
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.table import RUNNABLE, Benchmark, Category, Scenario
from mlperf_suite.benchmarks.tasks import EMBEDDED, OFFICIAL, ROUGE_NAMES, Baseline, Generation
from mlperf_suite.compliance.rules import RunFacts, accuracy_verdict, judge
from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.config import Settings, check_model_is_reachable
from mlperf_suite.datasets.news import News, load_news
from mlperf_suite.datasets.prompts import encode_prompts, end_of_text_ids, load_tokenizer
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import RunError, SuiteError, UsageError
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.loadgen.peak import MAX_RUNS, PeakSearch, RateTrial, find_peak
from mlperf_suite.loadgen.plan import (
    SEARCH,
    SEARCH_SAMPLES,
    SMOKE,
    LoadPlan,
    Mode,
    Shortened,
    plan_run,
)
from mlperf_suite.loadgen.runner import (
    LoadRun,
    Progress,
    abandoned,
    check_round,
    loadgen_version,
    run_loadgen,
)
from mlperf_suite.reports.index import write_index
from mlperf_suite.reports.plots import plot_peak
from mlperf_suite.reports.writing import write_reports, write_samples
from mlperf_suite.results.metrics import performance_metrics, repeated_metrics
from mlperf_suite.results.reference import Reference, write_rouge_samples
from mlperf_suite.results.run_folder import (
    CONFIG_JSON,
    SUMMARY_JSON,
    RunFolder,
    check_writable,
    read_config,
    read_summary,
    run_folders,
    write_json,
)
from mlperf_suite.results.system import describe_system

SCHEMA_VERSION = 2
"""Of summary.json. 2 added run.performance.blocks, repeats and target_qps, run.accuracy's
standard_error, and regression; 1 stays readable."""
MODES: tuple[Mode, ...] = ("accuracy", "performance", "test06")
_PROBE_SAMPLES = {True: 16, False: 1024}
"""Samples that measure the rate where no accuracy run did, by whether the run is a smoke run."""
_LATENCY_PROBES = 3
_SERVER_SHARE = 0.8
_RATE_HEADROOM = 1.05
"""Offline is planned for a little more than the rate seen, so that it cannot end too early."""


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


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run: a category's scenario in one mode."""

    category: Category
    scenario: str
    mode: Mode

    def __str__(self) -> str:
        return f"{self.category} {self.scenario} {self.mode}"


@dataclass(slots=True)
class Stage:
    """One LoadGen run of a result: its verdicts and figures, or why there are none."""

    verdicts: list[Verdict] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    rate: float | None = None
    failure: str | None = None


@dataclass(slots=True)
class Result:
    """One category's scenario: its folder, and the stages made so far."""

    benchmark: Benchmark
    scenario: Scenario
    folder: RunFolder
    started: datetime
    stages: dict[Mode, Stage] = field(default_factory=dict)

    @property
    def failure(self) -> str | None:
        """Why a stage of this result died, or None."""
        return next((s.failure for s in self.stages.values() if s.failure), None)

    @property
    def verdicts(self) -> list[Verdict]:
        return [v for mode in MODES if mode in self.stages for v in self.stages[mode].verdicts]


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
        self._watch = watcher
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
        """The engine, loaded at the first call. Raises EngineError."""
        if self._engine is None:
            self._watch.stage("loading the engine")
            try:
                self._engine = self._load_engine(self)
            finally:
                self._watch.idle()
        return self._engine

    @property
    def engine_was_loaded(self) -> bool:
        return self._engine is not None

    @property
    def can_go_on(self) -> bool:
        """Whether another run could be made in this process."""
        return (
            self._results_written
            and not abandoned()
            and (self._engine is None or self._engine.alive)
        )

    @property
    def must_exit_hard(self) -> bool:
        """Whether an abandoned LoadGen run still goes on in this process."""
        return abandoned()

    def close(self) -> None:
        """Stop the engine."""
        if self._engine is not None:
            self._engine.close()

    def baseline(self, category: Category, samples: int) -> Baseline | None:
        """What this model must score on these samples, or None where nobody measured it."""
        settings = self.settings
        own_model = settings.model == EMBEDDED.model and settings.dataset == EMBEDDED.dataset
        known = settings.task is OFFICIAL or own_model
        return settings.task.baseline(category, samples) if known else None

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
        result = self._result(key.category, key.scenario)
        if key.mode not in result.stages:
            accuracy_first = RunKey(key.category, key.scenario, "accuracy")
            if key.mode == "performance" and accuracy_first in self.planned:
                self.run(accuracy_first)
            self._make(key, result)
        stage = result.stages[key.mode]
        if stage.failure is not None:
            raise RunError(f"{key}: {stage.failure}")
        return stage

    def failure_of(self, key: RunKey) -> str | None:
        """Why the run of this key died, or None where it did not or was not made yet."""
        result = self.results.get((key.category, key.scenario))
        stage = result.stages.get(key.mode) if result else None
        return stage.failure if stage else None

    def _result(self, category: Category, scenario: str) -> Result:
        kind = (category, scenario)
        if kind not in self.results:
            benchmark, started = RUNNABLE[category], datetime.now(UTC).astimezone()
            folder = RunFolder(self.settings.results_dir, category, scenario, started)
            self.results[kind] = Result(benchmark, benchmark.scenario(scenario), folder, started)
        return self.results[kind]

    def _make(self, key: RunKey, result: Result) -> None:
        stage = result.stages[key.mode] = Stage()
        try:
            self._write(result)
            self.engine_log = self.engine_log or result.folder.path / "engine.log"
            self._check_prompts(key.category)
            run = self._load_run(key, result)
            self._judge(key, result, stage, run)
        except OSError as error:
            stage.failure = f"{error.filename or result.folder.path}: {error.strerror}"
        except SuiteError as error:
            stage.failure = str(error)
        except BaseException as error:
            stage.failure = f"interrupted ({type(error).__name__})"
            self._write(result)
            raise
        finally:
            self._watch.idle()
        try:
            self._write(result)
        except OSError as error:
            stage.failure = stage.failure or f"{result.folder.path}: {error.strerror}"
            self._results_written = False

    def find_peak(self, category: Category, scenario: str) -> PeakSearch:
        """Search for the highest valid rate; leaves peak_qps.json, a plot and each run's logs.

        Every rate is held to the scenario's own limits, in smoke too. Raises SuiteError.
        """
        result = self._result(category, scenario)
        limits = result.scenario.limits
        if limits is None:
            raise UsageError(f"--find-peak-qps: {scenario} has no latency limits to search under")
        folder = result.folder.path / "PeakQps"
        made: list[RateTrial] = []

        def attempt(rate: float, full_length: bool) -> RateTrial:
            trial = self._try_rate(result, rate, full_length, folder / f"{len(made) + 1:02}")
            made.append(trial)
            self._watch.say(_told(trial, len(made)))
            return trial

        try:
            self._write(result)
            self._check_prompts(category)
            search = find_peak(attempt, self._server_rate(category))
        finally:
            self._watch.idle()
        content = {
            "scenario": scenario,
            "label": self.settings.label,
            "peak_qps": search.peak_qps,
            "limits_ms": dataclasses.asdict(limits),
            "max_runs": MAX_RUNS,
            "trials": [dataclasses.asdict(trial) for trial in search.trials],
        }
        result.folder.write("peak_qps.json", content)
        title = f"{result.benchmark.id} {scenario}: {self.settings.label}"
        plot_peak(
            search.trials, limits, search.peak_qps, title, result.folder.path / "plots/peak_qps.png"
        )
        self._write(result)
        return search

    def _try_rate(self, result: Result, rate: float, full_length: bool, folder: Path) -> RateTrial:
        smoke, loadgen_scenario = self.settings.smoke, result.scenario.loadgen_scenario
        prompts = self.prompts(result.benchmark.category)
        shortened: Shortened | None = SEARCH[smoke]
        if full_length:
            own = dataclasses.replace(SMOKE[loadgen_scenario], latency_factor=1)
            shortened = own if smoke else None
        else:
            prompts = prompts[:SEARCH_SAMPLES]
        plan = plan_run(
            result.benchmark,
            result.scenario,
            "performance",
            self.settings.round,
            len(prompts),
            target_qps=rate,
            shortened=shortened,
        )
        self._watch.stage(f"{result.scenario.name} at {rate:g} queries/s")
        run = run_loadgen(plan, self.engine, prompts, self.generation, folder, self._watch.progress)
        detail = run.logs.detail
        return RateTrial(
            rate,
            full_length,
            detail["result_validity"] == "VALID",
            detail.number("result_completed_samples_per_sec"),
            detail.milliseconds("result_first_token_99.00_percentile_latency_ns"),
            detail.milliseconds("result_time_per_output_token_99.00_percentile_ns"),
            str(detail["result_invalid_reason"] or ""),
        )

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
        self._watch.stage(
            f"{key} {repeat}" if repeat > 1 else str(key), self._expected_samples(plan)
        )
        return run_loadgen(
            plan, self.engine, prompts, self.generation, folder, self._watch.progress
        )

    def _plan(self, key: RunKey, result: Result, samples: int) -> LoadPlan:
        return plan_run(
            result.benchmark,
            result.scenario,
            key.mode,
            self.settings.round,
            samples,
            target_qps=self._target_qps(key, result),
            expected_latency_ms=self._expected_latency_ms(key, result),
            shortened=self._shortened(result.scenario),
        )

    def _target_qps(self, key: RunKey, result: Result) -> float | None:
        """Queries/s that Server is sent, or samples/s that Offline is planned for."""
        if result.scenario.loadgen_scenario == "Server":
            return self.settings.server_target_qps or self._server_rate(key.category)
        if result.scenario.loadgen_scenario != "Offline" or key.mode == "accuracy":
            return None
        if self.settings.offline_target_qps is not None:
            return self.settings.offline_target_qps
        return round(self._measured_rate(key, result) * _RATE_HEADROOM, 3)

    def _expected_latency_ms(self, key: RunKey, result: Result) -> float | None:
        """One SingleStream query's latency; LoadGen prepares as many queries as it promises."""
        if result.scenario.loadgen_scenario != "SingleStream":
            return None
        return round(1000 / self._measured_rate(key, result, one_by_one=True), 3)

    def _measured_rate(self, key: RunKey, result: Result, *, one_by_one: bool = False) -> float:
        """Samples/s as this result's accuracy run went, or as a probe goes."""
        accuracy = result.stages.get("accuracy")
        if accuracy is not None and accuracy.rate is not None:
            return accuracy.rate
        self._watch.stage("measuring the rate to plan for")
        prompts = self.prompts(key.category)
        if one_by_one:
            chosen = prompts[:_LATENCY_PROBES]
            probes = [generate_all(self.engine, [prompt], self.generation) for prompt in chosen]
            return len(chosen) / sum(probe.elapsed_s for probe in probes)
        chosen = prompts[: _PROBE_SAMPLES[self.settings.smoke]]
        return len(chosen) / generate_all(self.engine, chosen, self.generation).elapsed_s

    def _server_rate(self, category: Category) -> float:
        """0.8 of the samples/s of the last Offline run of this system, made now if there is none.

        That is 0.8 x tokens/s / mean tokens per answer, and so never tokens/s itself.
        """
        offline = RunKey(category, "Offline", "performance")
        made = self.results.get((category, "Offline"))
        if made is not None and "performance" in made.stages:
            samples_per_s = self.run(offline).figures["samples_per_sec"]
        else:
            samples_per_s = self._earlier_offline_rate(category)
        if samples_per_s is None:
            samples_per_s = self.run(offline).figures["samples_per_sec"]
        return float(f"{_SERVER_SHARE * samples_per_s:.4g}")

    def _earlier_offline_rate(self, category: Category) -> float | None:
        """The samples/s of the newest kept Offline run of this same system, or None."""
        system = _comparable(self._config_json(category))
        for folder in run_folders(self.settings.results_dir):
            summary, config = read_summary(folder), read_config(folder)
            if summary is None or config is None or _comparable(config) != system:
                continue
            meta, performance = (
                summary.get("meta") or {},
                (summary.get("run") or {}).get("performance"),
            )
            kind = (meta.get("category"), meta.get("scenario"))
            if kind == (category, "Offline") and performance and performance.get("valid"):
                return float(performance["samples_per_sec"])
        return None

    @staticmethod
    def _expected_samples(plan: LoadPlan) -> int | None:
        if plan.mode == "accuracy":
            return plan.samples
        return None

    def _judge(self, key: RunKey, result: Result, stage: Stage, run: LoadRun) -> None:
        baseline = self.baseline(key.category, self.samples(key))
        scores = None
        if key.mode == "accuracy":
            self._watch.stage("scoring the answers")
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
            stage.figures = _accuracy_figures(scores, facts, stage.verdicts)
            write_json(result.folder.accuracy / "rouge.json", _rouge_json(scores, facts))
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

    def _write(self, result: Result) -> None:
        """Write what is known of a result by now: config, summary, report, index."""
        folder = result.folder
        folder.write(CONFIG_JSON, self._config_json(result.benchmark.category))
        summary = self.summary(result)
        folder.write(SUMMARY_JSON, summary)
        write_reports(folder.path)
        folder.publish(keep_all=self.settings.keep_all)
        write_index(self.settings.results_dir)

    def _config_json(self, category: Category) -> dict[str, Any]:
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

    def summary(self, result: Result) -> dict[str, Any]:
        """summary.json of a result as it stands."""
        settings, engine = self.settings, self._engine.description if self._engine else None
        planned = {
            key.mode
            for key in self.planned
            if (key.category, key.scenario) == (result.benchmark.category, result.scenario.name)
        }
        finished = {mode for mode, stage in result.stages.items() if stage.verdicts}
        label = settings.label
        if engine is not None and engine.stand_in:
            label = "made with a stand-in engine: not a measurement of any system"
        summary: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "meta": {
                "category": result.benchmark.category,
                "scenario": result.scenario.name,
                "benchmark": result.benchmark.id,
                "model": settings.model,
                "dataset": settings.dataset,
                "round": settings.round.name,
                "profile": settings.profile,
                "label": label,
                "started": result.started.isoformat(timespec="seconds"),
                "node_name": settings.node_name,
                "status": _status(result, planned - finished),
                "reason": result.failure,
            },
            "system": {**describe_system(), "loadgen_version": loadgen_version()},
            "run": {mode: stage.figures or None for mode, stage in result.stages.items()},
            "verdicts": [v.as_json() for v in result.verdicts],
            "logs": _files(result, "mlperf_log_*"),
            "plots": _files(result, "plots/*"),
        }
        reference = self.references.get((result.benchmark.category, result.scenario.name))
        if reference is not None and summary["run"]:
            summary["regression"] = reference.judge(
                summary,
                result.folder.path,
                settings.max_regression,
                allow_different=settings.baseline_allow_different,
            )
        return summary


def _told(trial: RateTrial, number: int) -> str:
    def ms(value: float | None) -> str:
        return "not reported" if value is None else f"{value:,.0f} ms"

    return (
        f"run {number} of at most {MAX_RUNS}: {trial.target_qps:g} queries/s, "
        f"{'full length' if trial.full_length else 'short'}: "
        f"{'VALID' if trial.valid else 'INVALID'}, TTFT p99 {ms(trial.ttft_p99_ms)}, "
        f"TPOT p99 {ms(trial.tpot_p99_ms)}"
    )


def _comparable(config: Mapping[str, Any]) -> object:
    """What of a config.json must be equal for two runs to be of the same system."""
    engine = config.get("engine") or {}
    settings = {k: v for k, v in (engine.get("settings") or {}).items() if k != "load_s"}
    names = ("name", "version", "model", "stand_in", "max_model_len")
    return (
        [engine.get(name) for name in names],
        settings,
        config.get("prompts_sha256"),
        (config.get("settings") or {}).get("max_new_tokens"),
        config.get("system"),
    )


def _status(result: Result, unfinished: set[Mode]) -> str:
    """failed: died; running: not over; invalid: a rule failed; else complete."""
    if result.failure is not None:
        return "failed"
    if unfinished or not result.verdicts:
        return "running"
    return "invalid" if any(v.status == "failed" for v in result.verdicts) else "complete"


def _files(result: Result, pattern: str) -> list[str]:
    root = result.folder.path
    return sorted(str(p.relative_to(root)) for p in root.rglob(pattern) if p.is_file())


def _accuracy_figures(
    scores: RougeScores, facts: RunFacts, verdicts: list[Verdict]
) -> dict[str, Any]:
    return {
        "total_samples": facts.logs.detail["qsl_reported_total_count"],
        "rouge": {name: getattr(scores, name) for name in ROUGE_NAMES},
        "passed": accuracy_verdict(verdicts),
        "run_gen_len": scores.gen_len,
        "run_gen_num": scores.gen_num,
        "standard_error": scores.standard_errors,
    }


def _rouge_json(scores: RougeScores, facts: RunFacts) -> Mapping[str, object]:
    """rouge.json: scores and thresholds in percent, lengths in characters."""
    baseline = facts.baseline
    content: dict[str, object] = {name: getattr(scores, name) for name in ROUGE_NAMES}
    content["baseline"] = dict(baseline.rouge) if baseline else None
    content["baseline_gen_len"] = baseline.gen_len if baseline else None
    content["baseline_source"] = baseline.source if baseline else None
    content["gate_multiplier"] = facts.gate if baseline else None
    for name in ROUGE_NAMES:
        value = round(baseline.rouge[name] * facts.gate, 4) if baseline else None
        content[f"threshold_{name}"] = value
    content["run_gen_len"], content["run_gen_num"] = scores.gen_len, scores.gen_num
    return content


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
            {
                **({"enable_prefix_caching": True} if session.wants_scoring else {}),
                **settings.engine_args,
            },
        )
    )
