"""Runs scenarios of round v6.1 with MLCommons' HTTP client, and judges what it writes.

The client measures and writes; its files are judged by the rules that judge them in a submission's
tree, without the rules on files that a submission adds. The suite scores the answers too, by the
benchmark's scorer: the client's own scorer is not at hand everywhere, and only its score counts in
a submission.

The figures of a performance run are as LoadGen's runs have them. Rates, percentiles and early
stopping's estimates are the client's own; what needs every request (the noise within the run,
goodput) is from its events.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, ReferenceAccuracy, Scenario
from mlperf_suite.engines.protocol import ClientFigures, RemoteRun
from mlperf_suite.features.endpoints.curve.curve_accuracy import scores_of_texts, token_ids_of
from mlperf_suite.features.endpoints.judging.official_client_submissions import events_of
from mlperf_suite.features.endpoints.official_client.client_answers import (
    OfficialClientAnswer,
    read_answers,
    request_times,
    texts_by_sample,
)
from mlperf_suite.features.endpoints.official_client.client_job import (
    ACCURACY_DATA,
    PERFORMANCE_DATA,
    PLACEHOLDER,
    OfficialClientData,
    OfficialClientJob,
    OfficialClientLoad,
    whole_passes,
)
from mlperf_suite.features.endpoints.official_client.client_process import (
    SILENCE_S,
    OfficialClientProgress,
    run_official_client,
)
from mlperf_suite.features.endpoints.official_client.installation import find_official_client
from mlperf_suite.features.endpoints.official_client.own_scorers import OwnScorer, own_scorer
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OfficialClientRunKey,
    official_client_benchmark,
)
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    OFFICIAL_CLIENT_ACCURACY,
    OFFICIAL_CLIENT_SUMMARY,
    AccuracyResults,
    AccuracyScore,
    Distribution,
    OfficialClientConfig,
    ResponseCounts,
    ResultSummary,
    read_typed,
    read_yaml_as,
)
from mlperf_suite.features.endpoints.rules.official_client_rules import (
    OfficialClientFacts,
    is_of_accuracy,
    rules_of_a_run,
    scores_of,
)
from mlperf_suite.features.servers.source import endpoint_config
from mlperf_suite.loadgen.timeline import Timeline, write_timeline
from mlperf_suite.results.performance_figures import PERCENTILES, goodput, percentile_name
from mlperf_suite.results.record import Result, RunRecord
from mlperf_suite.results.schema import EarlyStopping, Percentiles, PerformanceFigures
from mlperf_suite.rules.verdict import Verdict, VerdictError
from mlperf_suite.scorers.scorer import Scores, reads_special_tokens
from mlperf_suite.session.load_run import Observation, StepMaker
from mlperf_suite.session.preparation import Preparation
from mlperf_suite.session.run_kind import Step

_WARMUP_REQUESTS = 2
_SAME_SCORE = 0.01
"""How far two scorers' scores may be apart, relatively: the client rounds its own to 4 digits."""


@dataclass
class OfficialClientRuns(StepMaker):
    """Makes a run of the client, judges it and fills in its records.

    `preparation`: measures the rate that Offline is planned for.
    """

    preparation: Preparation

    def make(self, step: Step, result: Result) -> RunRecord:
        """Run a scenario and complete its records, of accuracy too if that was selected.

        Returns the performance run's. Raises SuiteError or OSError; what the client wrote by then
        stays in the result's folder.
        """
        key: OfficialClientRunKey = step.key
        run = _ClientRun(self, key, result, key in self.sizing.plan.selection.scored)
        job = run.job(self._requests(step, result))
        self.display.begin(str(key))
        observation = Observation(self.engine, str(key), "performance")
        record = result.runs["performance"]
        try:
            report = run_official_client(
                run.client,
                job,
                result.folder.path,
                on_progress=self._progress,
                silence_s=max(SILENCE_S, self.settings.engine_silence),
            )
        finally:
            # What the servers did until then; a failure here must not hide the reason.
            with contextlib.suppress(Exception):
                record.remote = observation.remote()
        run.judge(report, record)
        return record

    def _progress(self, progress: OfficialClientProgress) -> None:
        self.display.requests(progress.completed, progress.total, progress.failed)

    def _requests(self, step: Step, result: Result) -> OfficialClientLoad:
        """The load: Server's rate is the user's, or a share of what Offline reached."""
        settings, benchmark = self.settings, result.benchmark
        samples = self.sizing.estimator.size(benchmark, result.scenario).samples
        least_s = 0.0 if settings.smoke else MIN_DURATION_MS / 1000
        if step.key.scenario != "Offline":
            rate = self.sizing.server_qps(benchmark.id)
            count = whole_passes(samples, rate, least_s)
            return OfficialClientLoad(rate=rate, requests=count, least_s=least_s)
        expected = settings.offline_target_qps
        if expected is None and least_s:
            expected = self.preparation.rate(step)
        return OfficialClientLoad(
            requests=whole_passes(samples, expected, least_s), least_s=least_s
        )


class _ClientRun:
    """One run: the client's job and its outcome."""

    def __init__(
        self, maker: OfficialClientRuns, key: OfficialClientRunKey, result: Result, scored: bool
    ) -> None:
        self._maker, self._key, self._result = maker, key, result
        self._inputs, self._benchmark = maker.inputs, result.benchmark
        self.client = find_official_client()
        self._scorer: OwnScorer | None = None
        if scored:
            metric = self._inputs.scorer(self._benchmark).name
            self._scorer = own_scorer(self.client, key.benchmark, metric)
            if self._scorer.fault:
                result.not_submittable = self._scorer.fault

    def _samples(self, mode: str = "performance") -> int:
        sized: Callable[..., Any] = self._maker.sizing.estimator.size
        return int(sized(self._benchmark, self._result.scenario, mode).samples)

    def job(self, load: OfficialClientLoad) -> OfficialClientJob:
        """What the client is asked."""
        settings, inputs, benchmark = self._maker.settings, self._inputs, self._benchmark
        round_, warmup = settings.round, settings.warmup
        return OfficialClientJob(
            name=str(self._key),
            urls=tuple(target.url for target in endpoint_config(inputs).targets),
            model=self._maker.engine.description.model,
            tokenizer=inputs.tokenizer_folder,
            load=load,
            performance=OfficialClientData(prompts=inputs.prompts(benchmark)[: self._samples()]),
            generation=inputs.generation(benchmark),
            max_new_tokens=inputs.generation(benchmark).max_new_tokens,
            streaming=load.rate is not None,
            seeds=(round_.schedule_rng_seed, round_.sample_index_rng_seed),
            accuracy=self._accuracy_data() if self._scorer else None,
            scorer=self._scorer.name if self._scorer else PLACEHOLDER,
            keeps_special_tokens=reads_special_tokens(inputs.scorer(benchmark)),
            workers=settings.feature_options["endpoint_clients"] or 1,
            key_variable="API_KEY" if settings.feature_options["api_key"] else None,
            warmup_requests=_WARMUP_REQUESTS if warmup is None else warmup,
            route="openai" if inputs.media else "openai_completions",
        )

    def _accuracy_data(self) -> OfficialClientData:
        inputs, benchmark = self._inputs, self._benchmark
        count = self._samples("accuracy")
        items = inputs.samples(benchmark, "accuracy").items[:count]
        generation = inputs.generation(benchmark, "accuracy")
        return OfficialClientData(
            prompts=inputs.prompts(benchmark, "accuracy")[:count],
            references=[str(item.reference) for item in items],
            generation=None if generation == inputs.generation(benchmark) else generation,
        )

    # What came of it

    def judge(self, report: Path, record: RunRecord) -> None:
        """Fill in the records of the run from the client's files."""
        answers = read_answers(report)
        summary, fault = read_typed(report / "performance" / OFFICIAL_CLIENT_SUMMARY, ResultSummary)
        if summary is not None:
            timeline = self._timeline(answers.get(PERFORMANCE_DATA, []))
            record.figures = official_client_performance(self._result.scenario, summary, timeline)
            if record.remote is not None:
                record.remote = _as_the_client_saw(record.remote, record.figures, summary)
        facts = self._facts(report, summary, fault)
        scored = answers.get(ACCURACY_DATA, [])
        scores = self._scores(scored) if self._scorer else None
        if scores is not None:
            facts = self._with_accuracy(facts, report, scores, scored)
        judged = [rule.judge(facts) for rule in rules_of_a_run()]
        record.verdicts = [v for v in judged if not is_of_accuracy(v.rule)]
        if scores is not None:
            self._keep_scores(scores, [v for v in judged if is_of_accuracy(v.rule)])

    def _timeline(self, answers: Sequence[OfficialClientAnswer]) -> Timeline | None:
        lengths = [len(prompt) for prompt in self._inputs.prompts(self._benchmark)]
        answers = [answer for answer in answers if 0 <= answer.sample < len(lengths)]
        texts = [answer.text for answer in answers]
        tokens = token_ids_of(self._inputs, texts)
        timeline = official_client_timeline(answers, [len(ids) for ids in tokens], lengths)
        if timeline is not None:
            folder = self._result.folder.performance
            folder.mkdir(exist_ok=True)
            write_timeline(folder, timeline)
            for companion in self._maker.companions:
                companion.timed(folder, timeline)
        return timeline

    def _facts(
        self, report: Path, summary: ResultSummary | None, fault: str
    ) -> OfficialClientFacts:
        config, problem = read_yaml_as(report / "config.yaml", OfficialClientConfig)
        demands = official_client_benchmark(self._key.benchmark, self._key.scenario)
        assert demands is not None
        return OfficialClientFacts(
            name=self._key.benchmark,
            scenario=self._key.scenario,
            round=self._maker.settings.round,
            benchmark=demands,
            config=config,
            summary=summary,
            accuracy=None,
            problems=tuple(filter(None, (problem, fault))),
            events=events_of(report, config, self._inputs.tokenizer_folder),
            smoke=self._maker.settings.smoke,
        )

    # Accuracy

    def _scores(self, answers: Sequence[OfficialClientAnswer]) -> Scores:
        """The suite's scores of the answers. Raises RunError if there are none."""
        texts = texts_by_sample(answers)
        self._write_answers(sorted(texts.items()))
        return scores_of_texts(self._inputs, self._benchmark, texts)

    def _write_answers(self, texts: Sequence[tuple[int, str]]) -> None:
        from mlperf_suite.reports.writing import write_samples

        folder = self._result.folder.accuracy
        folder.mkdir(exist_ok=True)
        items = self._inputs.samples(self._benchmark, "accuracy").items
        texts = [(number, text) for number, text in texts if 0 <= number < len(items)]
        write_samples(folder, [number for number, _ in texts], [text for _, text in texts], items)

    def _with_accuracy(
        self,
        facts: OfficialClientFacts,
        report: Path,
        scores: Scores,
        answers: Sequence[OfficialClientAnswer],
    ) -> OfficialClientFacts:
        """The facts with the client's own scores, or the suite's in place of the placeholder's."""
        samples = self._samples("accuracy")
        reference = self._reference()
        demands = replace(facts.benchmark, expected=reference.scores if reference else ())
        if self._scorer is None or self._scorer.fault:
            own = _results(scores, texts_by_sample(answers), samples)
            # Of scores in their own unit.
            return replace(facts, benchmark=replace(demands, scale=1.0), accuracy=own)
        own_file = report / "accuracy" / OFFICIAL_CLIENT_ACCURACY
        accuracy, fault = read_typed(own_file, AccuracyResults)
        problems = tuple(filter(None, (*facts.problems, fault)))
        facts = replace(facts, benchmark=demands, accuracy=accuracy, problems=problems)
        self._compare(facts, scores)
        return facts

    def _reference(self) -> ReferenceAccuracy | None:
        """The reference accuracy of the scenario: qwen3-vl's Interactive has data of its own."""
        demands = official_client_benchmark(self._key.benchmark, self._key.scenario)
        own = None
        if demands and demands.answers != self._benchmark.samples_of("accuracy"):
            own = ReferenceAccuracy(demands.expected, demands.answers)
        samples = self._samples("accuracy")
        return self._inputs.reference(self._benchmark, samples, reference=own)[0]

    def _compare(self, facts: OfficialClientFacts, scores: Scores) -> None:
        """Say where the client's score differs from the suite's of the same answers."""
        try:
            of_client = scores_of(facts) if facts.accuracy else {}
        except VerdictError:
            return
        for name, value in scores.values.items():
            other = of_client.get(name, value)
            if abs(other - value) > _SAME_SCORE * max(abs(value), 1.0):
                words = (
                    f"{name} is {other:,.4f} by the client's scorer and {value:,.4f} by the suite's"
                )
                self._maker.display.say(f"{self._key}: {words}")

    def _keep_scores(self, scores: Scores, verdicts: list[Verdict]) -> None:
        gate = next((v for v in verdicts if v.rule == "client_accuracy_gate"), None)
        passed = None if gate is None or gate.status == "not judged" else gate.passed
        record = self._result.runs["accuracy"] = RunRecord(verdicts=verdicts)
        maker, samples, reference = self._maker, self._samples("accuracy"), self._reference()
        strict = maker.settings.high_accuracy
        maker.keep_scores(self._result, record, scores, reference, samples, passed, strict=strict)


def _as_the_client_saw(
    remote: RemoteRun, figures: PerformanceFigures, summary: ResultSummary
) -> RemoteRun:
    """What the servers said of a run, with the official client's figures in place of those of the
    suite's own client, which sent nothing. Only one server's are known by server."""
    endpoints = remote.endpoints
    if len(endpoints) == 1:
        (endpoint,) = endpoints
        own = replace(
            endpoint,
            requests=summary.n_samples_completed,
            tokens=figures.total_new_tokens or 0,
            ttft_ms=figures.ttft_ms or {},
            latency_ms=figures.latency_ms or {},
        )
        endpoints = (own,)
    return RemoteRun(ClientFigures(0, 0.0), endpoints)


def _results(scores: Scores, texts: Mapping[int, str], samples: int) -> AccuracyResults:
    """The suite's scores as the client writes its own."""
    empty = sum(not text for text in texts.values())
    counts = ResponseCounts(
        issued=samples, scored=len(texts), empty=empty, missing=samples - len(texts)
    )
    score = AccuracyScore(
        ACCURACY_DATA,
        score=dict(scores.values),
        unit_samples=samples,
        num_repeats=1,
        total_samples=samples,
        complete=len(texts) == samples,
        dataset_type="accuracy",
        response_counts=counts,
    )
    return AccuracyResults((score,))


_NS_PER_MS = 1e6
_ESTIMATED = "99.0"
"""The percentile of the latency limits."""


def official_client_performance(
    scenario: Scenario, summary: ResultSummary, timeline: Timeline | None
) -> PerformanceFigures:
    """The content of run.performance. `valid` is None: the client has no verdict of its own."""
    load = summary.run_config.load_pattern if summary.run_config else None
    series = {"latency": summary.latency, "ttft": summary.ttft, "tpot": summary.tpot}
    estimates = {name: of.early_stopping_percentiles.get(_ESTIMATED) for name, of in series.items()}
    return PerformanceFigures(
        scenario=scenario.name,
        duration_s=None if summary.duration_ns is None else round(summary.duration_ns / 1e9, 3),
        total_new_tokens=round(summary.output_sequence_lengths.total or 0),
        tokens_per_sec=summary.tps,
        samples_per_sec=summary.qps,
        qps=summary.qps,
        latency_ms=_percentiles(summary.latency),
        ttft_ms=_percentiles(summary.ttft),
        tpot_ms=_percentiles(summary.tpot),
        early_stopping=EarlyStopping(
            percentile=float(_ESTIMATED),
            estimates_ms={
                n: None if ns is None else ns / _NS_PER_MS for n, ns in estimates.items()
            },
        )
        if scenario.limits
        else None,
        target_qps=load.target_qps if load else None,
        blocks={name: tuple(of) for name, of in timeline.blocks().items()} if timeline else {},
        goodput=goodput(timeline, scenario.limits, summary.qps),
    )


def _percentiles(series: Distribution) -> Percentiles | None:
    """Mean and percentiles in ms; None if nothing was measured."""
    by_number = {float(name): ns for name, ns in series.percentiles.items()}
    values = {percentile_name(p): by_number.get(float(p)) for p in PERCENTILES}
    values = {"mean": series.avg, **values}
    return {name: ns / _NS_PER_MS for name, ns in values.items() if ns is not None} or None


def official_client_timeline(
    answers: Sequence[OfficialClientAnswer], tokens: Sequence[int], prompt_lengths: Sequence[int]
) -> Timeline | None:
    """The timeline of the requests that ended; None if there are none.

    `tokens`: of each answer. `prompt_lengths`: in tokens, by the sample's number.
    """
    if not answers:
        return None
    times = request_times(answers, tokens)
    issued, first, ended = (
        column.round(3).tolist() for column in (times.issued_ms, times.first_ms, times.ended_ms)
    )
    return Timeline(
        issued_ms=issued,
        first_token_ms=None if any(map(math.isnan, first)) else first,
        finished_ms=ended,
        tokens=tokens,
        samples=[answer.sample for answer in answers],
        prompt_tokens=[prompt_lengths[answer.sample] for answer in answers],
        preempted=[0] * len(answers),
    )
