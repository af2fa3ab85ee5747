"""The runs that are judged by a benchmark's rules: accuracy, performance and MLPerf's audits."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.loadgen.load_plan import AUDIT_MODES, SMOKE, LoadPlan, RunKey, plan_run
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.loadgen.runner import LoadRun
from mlperf_suite.results.performance_figures import (
    performance_figures,
    repeated_figures,
    samples_per_second,
)
from mlperf_suite.results.record import Result, RunRecord, scorer_json
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import PROFILED, PerformanceFigures
from mlperf_suite.rules import accuracy_verdict, clock, judge, limits, validity
from mlperf_suite.rules.facts import (
    AnswerTokens,
    ComparedRuns,
    RunFacts,
    SessionFacts,
    gives_text_alone,
)
from mlperf_suite.rules.limits import held_back
from mlperf_suite.rules.registry import rule_of
from mlperf_suite.rules.verdict import Verdict, lasted_words, set_aside
from mlperf_suite.scorers.scorer import Answer, Scores, reads_special_tokens
from mlperf_suite.session.companion import RunAtHand, profile_of
from mlperf_suite.session.load_run import Observation, StepMaker, samples_for, shortened_to
from mlperf_suite.session.preparation import Preparation
from mlperf_suite.session.run_kind import BenchmarkAndScenario, Step
from mlperf_suite.session.timing.estimate import sized_by_rate

_DECODED_AT_ONCE = 64
_TOO_SHORT = "too_short_"
"""What the names of the logs of a run that was rerun begin with: nothing takes them for
logs of a run."""
_RULES_OF_REPEATS = (
    limits.client_bound,
    validity.generation,
    validity.cached_prompt_tokens,
    clock.loadgen_clock,
)
"""Only the first run is judged in full. The gate uses the figures of all, so repeats can fail the
rules about how a run was made."""


@dataclasses.dataclass
class ScenarioRuns(StepMaker):
    """Makes a run of a result, judges it and fills in its record."""

    preparation: Preparation
    _facts: dict[RunKey, RunFacts] = dataclasses.field(default_factory=dict)
    """The facts of each key's first run, for its repeats."""
    _compared: dict[BenchmarkAndScenario, ComparedRuns] = dataclasses.field(default_factory=dict)
    """By place, what an audit of it is compared with."""

    def make(self, step: Step, result: Result) -> object:
        """Estimate the rate, warm the engine up, or make a run. Raises SuiteError or
        OSError."""
        if step.kind == "rate":
            return self.preparation.rate(step)
        if step.kind == "warm-up":
            return self.preparation.warm_up(result.benchmark_and_scenario)
        return self._run(step, result)

    def _run(self, step: Step, result: Result) -> RunRecord:
        """Make a run, or a repeat of it, and complete its record.

        If the run fails, the record keeps the facts so far.
        """
        key: RunKey = step.key
        record = result.runs[key.mode]
        if step.number > 1:
            self._repeat(key, step.number, result, record)
        else:
            self._judge(key, result, record)
        return record

    # The run

    def _observed_run(
        self, key: RunKey, result: Result, record: RunRecord, number: int = 1
    ) -> tuple[LoadRun, Observation]:
        """Make a run; once more, for longer, if the rate that sized it was too low.

        The logs of the first stay in the same folder, under other names.
        """
        folder = result.folder.log_folder(key.mode)
        folder = folder if number == 1 else folder / f"repeat_{number}"
        run, observation = self._run_once(key, folder, result, record, number)
        rate = samples_per_second(result.scenario, run.logs.detail)
        if not rate or not self._is_too_short(key, run):
            return run, observation
        least_s = (run.logs.detail.number("effective_min_duration_ms") or 0.0) / 1000
        why = (
            f"a first run ended after {lasted_words(run.elapsed_s)} of at least "
            f"{lasted_words(least_s)}, since the engine was faster than measured before it"
        )
        self.display.say(f"{key}: {why}; rerunning it for longer")
        for path in [path for path in folder.iterdir() if path.is_file()]:
            path.replace(path.with_name(f"{_TOO_SHORT}{path.name}"))
        self.sizing.correct(key, rate)
        longer, observation = self._run_once(key, folder, result, record, number)
        kept = f"{why}. Its logs are kept beside those of this run, as {_TOO_SHORT}*"
        return dataclasses.replace(longer, rerun_reason=kept), observation

    def _is_too_short(self, key: RunKey, run: LoadRun) -> bool:
        """Whether the suite's own rate gave LoadGen too few queries for the minimum duration."""
        return (
            key.mode == "performance"
            and sized_by_rate(key, self.sizing.plan.selection)
            and not self.sizing.profile_of(key)
            and run.logs.detail["result_min_duration_met"] is False
        )

    def _run_once(
        self, key: RunKey, folder: Path, result: Result, record: RunRecord, number: int
    ) -> tuple[LoadRun, Observation]:
        plan = self._load_plan(key, result)
        self.display.begin(
            str(key) + (f", repeat {number}" if number > 1 else ""),
            plan.samples if key.mode == "accuracy" else None,
        )
        observation = Observation(self.engine, str(key), key.mode)
        profile = self.sizing.profile_of(key)
        at_hand = RunAtHand(key, number, self.engine, folder, result, profile)
        try:
            with contextlib.ExitStack() as around:
                for companion in self.companions:
                    around.enter_context(companion.around(at_hand))
                run = self.load_run(result.benchmark, plan, folder)
        except BaseException:
            if number == 1:
                # Record what the servers did until then; a failure here must not hide the reason.
                with contextlib.suppress(Exception):
                    record.remote = observation.remote()
            raise
        if run.untimed:
            self.display.say(f"{key}: no timeline: {run.untimed}")
        if number == 1:
            record.rate = run.samples / run.elapsed_s if run.elapsed_s else None
        for companion in self.companions:
            companion.made(at_hand, run)
        return run, observation

    def _load_plan(self, key: RunKey, result: Result) -> LoadPlan:
        benchmark, scenario = result.benchmark, result.scenario
        samples = self.sizing.estimator.size(benchmark, scenario, key.mode).samples
        audit = benchmark.audit(key.mode)
        queries = self.sizing.estimator.audit_size(benchmark, scenario, audit) if audit else None
        shortened = SMOKE[scenario.loadgen_scenario] if self.settings.smoke else None
        target_qps = self.sizing.target_qps(key)
        latency_ms = self.sizing.expected_latency_ms(key)
        if profile := self.sizing.profile_of(key):
            shortened = shortened_to(profile.seconds, scenario.loadgen_scenario)
            per_second = 1000 / latency_ms if latency_ms else target_qps
            samples = samples_for(profile.seconds, per_second, samples)
        return plan_run(
            benchmark,
            scenario,
            key.mode,
            self.settings.round,
            samples,
            target_qps=target_qps,
            expected_latency_ms=latency_ms,
            shortened=shortened,
            audit_queries=queries.samples if queries and queries.why else None,
        )

    # Its verdicts and figures

    def _judge(self, key: RunKey, result: Result, record: RunRecord) -> None:
        run, observation = self._observed_run(key, result, record)
        record.remote = observation.remote()
        cached_tokens = observation.cached_tokens(record.remote)
        samples = self.sizing.estimator.size(result.benchmark, result.scenario, key.mode).samples
        audit = result.benchmark.audit(key.mode)
        scored = key.mode == "accuracy" or (
            audit is not None and (audit.compares or audit.least_score is not None)
        )
        scores = self._scores(key, result, run.logs, samples) if scored else None
        if key.mode == "accuracy" and run.samples:
            record.answers = AnswerTokens(run.tokens / run.samples, run.samples)
        facts = self._facts_of(key, result, record, run.logs, scores, samples, cached_tokens)
        record.verdicts = judge(facts)
        self._keep_to_compare(key, result, facts)
        if profile_of(self.settings) is not None:
            record.verdicts = set_aside(record.verdicts, PROFILED)
        if audit is not None:
            self._keep_audit(key, result, scores, facts.high_accuracy)
        elif key.mode == "performance":
            self._facts[key] = facts
            self._keep_performance(result, record, run)
        elif scores is not None:
            issued = facts.logs.detail[facts.logs.detail.accuracy_count_key]
            passed, strict = accuracy_verdict(record.verdicts), facts.high_accuracy
            self.keep_scores(result, record, scores, facts.reference, issued, passed, strict=strict)

    def _facts_of(
        self,
        key: RunKey,
        result: Result,
        record: RunRecord,
        logs: RunLogs,
        scores: Scores | None,
        samples: int,
        cached_tokens: int | None,
    ) -> RunFacts:
        benchmark, mode, engine = result.benchmark, key.mode, self.engine.description.settings
        reference, no_reference_reason = self.inputs.reference(benchmark, samples, mode)
        accuracy = result.runs.get("accuracy")
        deviations = self.deviations(benchmark, result.scenario, mode)
        # For performance runs, a separate rule judges them.
        if cached_tokens and mode != "performance":
            deviations = (*deviations, f"{cached_tokens:,} prompt tokens from a cache")
        return RunFacts(
            benchmark,
            result.scenario,
            mode,
            self.settings.round,
            logs,
            smoke=self.settings.smoke,
            scores=scores.values if scores else None,
            figures_not_judged=scores.not_judged if scores else {},
            reference=reference,
            no_reference_reason=no_reference_reason,
            high_accuracy=self.settings.high_accuracy,
            accuracy_passed=accuracy_verdict(accuracy.verdicts)
            if accuracy and mode == "performance"
            else None,
            eos_token_ids=self.inputs.eos_token_ids if benchmark.audit(mode) else None,
            vocabulary=self.inputs.vocabulary,
            session=SessionFacts(
                deviations,
                self.inputs.speculation(benchmark, result.scenario, engine).undisclosed,
                self.inputs.possible_models(benchmark),
                record.remote,
                cached_tokens,
            ),
            text_alone=gives_text_alone(engine),
            accuracy_tokens=accuracy.answers if accuracy else None,
            compared=self._compared.get(key.benchmark_and_scenario),
        )

    def _keep_to_compare(self, key: RunKey, result: Result, facts: RunFacts) -> None:
        """Keep what the benchmark's audits compare themselves with."""
        if not any(audit.compares for audit in result.benchmark.audits):
            return
        compared = self._compared.get(key.benchmark_and_scenario, ComparedRuns())
        if key.mode == "accuracy":
            answers, scores = facts.logs.accuracy, facts.scores
            compared = dataclasses.replace(compared, answers=answers, scores=scores)
        elif key.mode == "performance":
            rate = facts.detail.number("result_samples_per_second")
            compared = dataclasses.replace(compared, samples_per_s=rate)
        self._compared[key.benchmark_and_scenario] = compared

    def _keep_audit(
        self, key: RunKey, result: Result, scores: Scores | None, high_accuracy: bool
    ) -> None:
        audits = (result.runs[mode] for mode in AUDIT_MODES if mode in result.runs)
        verdicts = [verdict.as_json() for audit in audits for verdict in audit.verdicts]
        write_json(result.folder.compliance / "verdicts.json", verdicts)
        if scores is not None:
            name = f"{self.inputs.scorer(result.benchmark).name}.json"
            # The audit's limit is not a share of the reference accuracy.
            content = scorer_json(scores, None, high_accuracy)
            write_json(result.folder.log_folder(key.mode) / name, content)

    def _keep_performance(self, result: Result, record: RunRecord, run: LoadRun) -> None:
        figures = performance_figures(
            result.scenario, run.logs.detail, run.elapsed_s, run.tokens, run.timeline
        )
        stream = record.remote.stream if record.remote else None
        if held_back(stream, result.scenario.limits.get("tpot")):
            figures = dataclasses.replace(figures, goodput=None)
        record.figures = dataclasses.replace(
            figures, untimed=run.untimed, made_again=run.rerun_reason
        )

    def _repeat(self, key: RunKey, number: int, result: Result, record: RunRecord) -> None:
        """Make the same run again, for --repeat, and add its figures to those of the first."""
        run, observation = self._observed_run(key, result, record, number)
        remote = observation.remote()
        first_facts = self._facts[key]
        session = dataclasses.replace(
            first_facts.in_session,
            remote=remote,
            deviations=self.deviations(result.benchmark, result.scenario),
            cached_tokens=observation.cached_tokens(remote),
        )
        facts = dataclasses.replace(first_facts, logs=run.logs, session=session)
        for check in _RULES_OF_REPEATS:
            verdict = rule_of(check).judge(facts)
            why = f"repeat {number}: {verdict.why or verdict.found}"
            worse = dataclasses.replace(verdict, why=why)
            record.verdicts = [
                worse if first.rule == verdict.rule and _is_worse(verdict, first) else first
                for first in record.verdicts
            ]
        figures = record.figures
        assert isinstance(figures, PerformanceFigures)
        again = performance_figures(result.scenario, run.logs.detail, run.elapsed_s, run.tokens)
        repeats = (*figures.repeats, repeated_figures(again))
        record.figures = dataclasses.replace(figures, repeats=repeats)

    def _scores(self, key: RunKey, result: Result, logs: RunLogs, samples: int) -> Scores | None:
        """The scores of the answers as LoadGen logged them; None if the log holds none."""
        from mlperf_suite.reports.writing import write_samples

        logged = logs.accuracy.first_of_each()
        items = self.inputs.samples(result.benchmark, key.mode).items
        indices = sorted(index for index in logged if 0 <= index < samples)
        if not indices:
            return None
        tokens = [logged[index].token_ids for index in indices]
        scorer = self.inputs.scorer(result.benchmark)
        special = reads_special_tokens(scorer)
        cleans = self.inputs.workload(result.benchmark).cleans_up_spaces
        texts = decoded(
            self.inputs.tokenizer, tokens, special_tokens=special, cleans_up_spaces=cleans
        )
        write_samples(logs.folder, indices, texts, items)
        answers = [
            Answer(items[index], ids, text)
            for index, ids, text in zip(indices, tokens, texts, strict=True)
        ]
        return scorer.score(answers)


def decoded(
    tokenizer: Any,
    answers: Sequence[Sequence[int]],
    *,
    special_tokens: bool = False,
    cleans_up_spaces: bool = False,
) -> list[str]:
    """The text of each answer. `answers`: their token ids. `cleans_up_spaces`: as in `Workload`."""
    tokenizer.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = (
        cleans_up_spaces
    )
    texts: list[str] = []
    for begin in range(0, len(answers), _DECODED_AT_ONCE):
        # The tokenizer only takes lists, which need ten times the memory of the answers.
        batch = [list(ids) for ids in answers[begin : begin + _DECODED_AT_ONCE]]
        texts += tokenizer.batch_decode(batch, skip_special_tokens=not special_tokens)
    return texts


def _is_worse(verdict: Verdict, first: Verdict) -> bool:
    order = ("passed", "not judged", "shortened", "failed")
    return order.index(verdict.status) > order.index(first.status)
