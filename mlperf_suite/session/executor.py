"""Executes the steps of a plan: warm-ups, LoadGen runs and their scores, searches, MMLU.

A step is executed when its key is first asked for, after the keys that it needs. `_attempt` handles
every early end, so that all kinds of steps fail alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.energy.cost import Price, cost_figures
from mlperf_suite.engines.protocol import (
    CountsCachedTokens,
    Engine,
    RemoteEngine,
    RemoteRun,
    ReplicasRun,
    ReplicatedEngine,
    RunObserver,
)
from mlperf_suite.errors import RunError, SuiteError, of_the_system
from mlperf_suite.loadgen.load_plan import AUDIT_MODES, SMOKE, LoadPlan, plan_run
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.loadgen.runner import LoadRun, abandoned, run_loadgen
from mlperf_suite.profiling import ranges
from mlperf_suite.results.baseline import write_answer_scores
from mlperf_suite.results.performance_figures import performance_figures, repeated_figures
from mlperf_suite.results.record import (
    Result,
    RunKey,
    RunRecord,
    accuracy_figures,
    scorer_json,
)
from mlperf_suite.results.run_folder import ENGINE_LOG, write_json
from mlperf_suite.results.schema import (
    CLIENT_BOUND,
    PROFILED,
    Config,
    RepeatFigures,
    ScalingFigures,
    WarmUpFigures,
)
from mlperf_suite.rules import accuracy_verdict, client, judge, validity
from mlperf_suite.rules.facts import AnswerTokens, RunFacts, gives_text_alone
from mlperf_suite.rules.registry import rule_of
from mlperf_suite.rules.verdict import Verdict, set_aside
from mlperf_suite.scorers.protocol import Answer, Scores, reads_special_tokens
from mlperf_suite.session import profiled_run
from mlperf_suite.session.energy import Energy
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import Plan, StepKey, sized_by_rate
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.scaling import measure_scaling, prompts_each
from mlperf_suite.session.timing.pace import Pace
from mlperf_suite.session.timing.rates import kept_rate
from mlperf_suite.session.warm_up import (
    warm_up,
    warm_up_prompts,
    warm_up_requests,
)
from mlperf_suite.session.watcher import Watcher

INTERRUPTED = "interrupted"
_DECODED_AT_ONCE = 64


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


class Executor:
    """Makes each key that is asked for, once."""

    def __init__(
        self,
        inputs: Inputs,
        plan: Plan,
        engines: Engines,
        recorder: Recorder,
        pace: Pace,
        watcher: Watcher,
        energy: Energy,
    ) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._plan = plan
        self._engines = engines
        self._recorder = recorder
        self._pace = pace
        self._watch = watcher
        self._energy = energy
        self._outcomes: dict[StepKey, Outcome] = {}
        self._prepared: Engine | None = None
        self.makers: dict[type, Callable[[Any], Made]] = {RunKey: self._run_maker}
        """By the type of a key, what makes it; searches and MMLU add their own."""
        self.mode_makers: dict[Mode, Callable[[RunKey], Made]] = {}
        """By mode, what makes a run that consists of several LoadGen runs."""

    def made(self, key: StepKey) -> Outcome:
        """Make the key unless it was made already, after the keys that it needs."""
        if key in self._outcomes:
            return dataclasses.replace(self._outcomes[key], now=False)
        for need in self._plan.needs.get(key, ()):
            outcome = self.made(need)
            if outcome.failure is None:
                continue
            if not _same_result(need, key):
                # This key has a separate result, which records why it failed.
                self._attempt(self._not_made(key, outcome.failure))
            self._outcomes[key] = outcome
            return outcome
        # Set first, so that a key that ends with any other exception is not made a second time.
        self._outcomes[key] = Outcome(f"{key}: {INTERRUPTED}", now=True)
        failure = self._attempt(self._maker(key))
        said = None if failure is None else f"{key}: {failure}"
        self._outcomes[key] = Outcome(said, now=True)
        return self._outcomes[key]

    def _not_made(self, key: StepKey, why: str) -> Made:
        """A stand-in for making a key that fails because a key that it needs failed."""

        def fail() -> None:
            raise RunError(why)

        return dataclasses.replace(self._maker(key), do=fail)

    def _maker(self, key: StepKey) -> Made:
        if isinstance(key, RunKey) and key.mode in self.mode_makers:
            return self.mode_makers[key.mode](key)
        return self.makers[type(key)](key)

    def _attempt(self, made: Made) -> str | None:
        """Make it and keep the outcome, however it ends. Return why it failed, or None."""
        failure: str | None = None
        try:
            made.do()
        except OSError as error:
            failure = of_the_system(error, made.folder)
        except SuiteError as error:
            failure = str(error)
        except BaseException as error:
            failure = f"{INTERRUPTED} ({type(error).__name__})"
            with contextlib.suppress(OSError):
                made.keep(failure)
            raise
        finally:
            self._watch.idle()
        try:
            made.keep(failure)
        except SuiteError as error:
            failure = failure or str(error)
        except OSError as error:
            self._recorder.writable = False
            failure = failure or of_the_system(error, made.folder)
        return failure

    @property
    def can_go_on(self) -> bool:
        """Whether another step could be made in this process."""
        return self._recorder.writable and not abandoned() and self._engines.can_go_on

    # LoadGen runs

    def engine_for(self, result: Result) -> Engine:
        """The engine of the runs, loaded and probed; every prompt fits its context."""
        with self.timed("load", None):
            engine = self._engines.get("runs", result.folder.path / ENGINE_LOG)
        if engine is not self._prepared:
            for benchmark in self._inputs.benchmarks:
                for mode in self._modes_of(benchmark):
                    self._inputs.check_prompts(benchmark, engine.description.max_model_len, mode)
            self._energy.engine_loaded(
                engine.description, lambda: self._watch.begin("idle power, before any work")
            )
            self._watch.idle()
            self._pace.measure(engine)
            if self._settings.scaling:
                self._recorder.scaling = self._scaling(engine)
            self._prepared = engine
        return engine

    def _scaling(self, engine: Engine) -> ScalingFigures:
        """Measure how all replicas compare with one."""
        self._watch.begin("measuring one replica alone, and all")
        benchmark, settings = self._inputs.benchmarks[0], self._settings
        most = engine.description.settings.get("max_num_seqs")
        count = prompts_each(most, smoke=settings.smoke)
        found = measure_scaling(
            engine,
            warm_up_prompts(self._inputs.prompts(benchmark), count),
            self._inputs.generation(benchmark),
            settings.engine_silence,
            self._watch.say,
        )
        self._watch.idle()
        return found

    def _modes_of(self, benchmark: Benchmark) -> set[Mode]:
        """The planned modes; performance for a search, which makes such runs."""
        found = {key.mode for key in self._plan.runs if key.benchmark == benchmark.id}
        return found or {"performance"}

    def _run_maker(self, key: RunKey) -> Made:
        benchmark = BENCHMARKS[key.benchmark]
        result = self._recorder.result(benchmark, key.scenario)
        record = result.runs[key.mode] = RunRecord()

        def keep(failure: str | None) -> None:
            record.failure = failure
            self._recorder.write(result)

        return Made(lambda: self._make_run(key, result, record), keep, result.folder.path)

    def _make_run(self, key: RunKey, result: Result, record: RunRecord) -> None:
        self._recorder.write(result)
        run, cached, record.remote = self._load_run(key, result, record)
        self._judge(key, result, record, run, cached)

    def _load_run(
        self, key: RunKey, result: Result, record: RunRecord, number: int = 1
    ) -> tuple[LoadRun, int | None, RemoteRun | None]:
        """Make one LoadGen run after its warm-up.

        Returns the run, the prompt tokens that came from a cache (None if the engine does not
        count them) and what an engine behind a network reports about the run. From number 2 on,
        the run is a repeat.
        """
        engine = self.engine_for(result)
        if result.scenario.loadgen_scenario == "Server":
            self.know_rate(result)
        plan = self._load_plan(key, result, self._seen_rate(key, result, engine))
        folder = result.folder.of_mode(key.mode)
        folder = folder if number == 1 else folder / f"repeat_{number}"
        with self.timed("warm-up", key, number):
            warmed = self.warm_up(engine, result, plan.user_conf.get("target_qps"))
        record.warm_up = record.warm_up or warmed
        if isinstance(engine, RunObserver):
            engine.run_begins(str(key), key.mode)
        prompts = self._inputs.prompts(result.benchmark, key.mode)[: plan.samples]
        generation = self._inputs.generation(result.benchmark, key.mode)
        self._watch.begin(
            str(key) + (f", repeat {number}" if number > 1 else ""),
            plan.samples if key.mode == "accuracy" else None,
        )
        # Discard what was counted before the run, such as its warm-up.
        remote_run(engine)
        replicas_run(engine)
        cached = cached_tokens_since(engine)
        try:
            with (
                self._profiled(key, engine, result, record),
                self.timed("run", key, number),
                self._reads(key, number),
            ):
                run = run_loadgen(
                    plan,
                    engine,
                    prompts,
                    generation,
                    folder,
                    self._watch.progress,
                    stops=self._inputs.stops(result.benchmark, key.mode),
                    dropped=self._inputs.dropped(result.benchmark, key.mode),
                    silence_s=self._settings.engine_silence,
                )
        except BaseException:
            if number == 1:
                # Record what the servers did until then; a failure here must not hide the reason.
                with contextlib.suppress(Exception):
                    record.remote = remote_run(engine)
                    record.replicas = replicas_run(engine)
            raise
        if run.untimed:
            self._watch.say(f"{key}: no timeline: {run.untimed}")
        if number == 1:
            record.rate = run.samples / run.elapsed_s if run.elapsed_s else None
            record.replicas = replicas_run(engine)
            if key.mode == "performance":
                record.energy = self._energy.of_run(run, folder)
        # Read first: servers may report cached tokens separately from their answers.
        remote = remote_run(engine)
        return run, cached(remote), remote

    def _is_profiled(self, key: RunKey) -> bool:
        """Whether a run is made under the profiler: every selected run is. A run that only finds
        Server's rate is not, since a profiler slows it down."""
        asked = key in self._plan.runs and key not in self._plan.unasked
        return self._settings.profile_run is not None and asked

    @contextlib.contextmanager
    def _profiled(
        self, key: RunKey, engine: Engine, result: Result, record: RunRecord
    ) -> Iterator[None]:
        """Profile the run in the block if asked for."""
        profiler = self._settings.profile_run
        if profiler is None or not self._is_profiled(key):
            yield
            return
        with profiled_run.taken(profiler, engine, result.folder.path) as profile:
            yield
        record.profile = profile.figures

    def _reads(self, key: RunKey, number: int) -> contextlib.AbstractContextManager[None]:
        """Read energy during the performance run that is judged, and no other."""
        metered = key.mode == "performance" and number == 1
        return self._energy.read() if metered else contextlib.nullcontext()

    def know_rate(self, result: Result) -> None:
        """Make sure that Server's rate is known: given, measured before, or by an Offline run now.

        A profiled Offline run gives no usable rate: the rate then comes from a few prompts
        without the profiler. Raises RunError if the run fails or gives no rate.
        """
        id_, rates = result.benchmark.id, self._pace.offline_rates
        if self._settings.server_target_qps or id_ in rates:
            return
        config = Config.read(self._recorder.config_json(result.benchmark))
        if (kept := kept_rate(self._settings.results_dir, id_, config)) is not None:
            rates[id_] = kept
            return
        offline = RunKey(id_, "Offline", "performance")
        outcome = self.made(offline)
        if outcome.failure is not None:
            raise RunError(outcome.failure)
        if self._is_profiled(offline):
            scenario = result.benchmark.scenario("Offline")
            self._pace.measure_rate(result.benchmark, scenario, self.engine_for(result))
            rates[id_] = self._pace.probed[id_, "Offline"]
        if id_ not in rates:
            made = self._recorder.result(result.benchmark, "Offline").runs[offline.mode]
            limited = run_is_client_bound(made.verdicts)
            why = CLIENT_BOUND if limited else "LoadGen reported no samples/s"
            raise RunError(f"{offline} shows no rate for Server ({why}): give --server-target-qps")

    def warm_up(
        self, engine: Engine, result: Result, rate_qps: float | int | None
    ) -> WarmUpFigures | None:
        """Warm the engine up for a run of this result; None if that is switched off."""
        requests = warm_up_requests(
            result.scenario,
            self._settings.warmup,
            smoke=self._settings.smoke,
            engines=len(engine.replicas) if isinstance(engine, ReplicatedEngine) else 1,
        )
        if not requests:
            return None
        self._watch.begin(f"{result.benchmark.id} {result.scenario.name}: warm-up")
        prompts = warm_up_prompts(self._inputs.prompts(result.benchmark), requests)
        generation = self._pace.warm_up_generation(result.benchmark, result.scenario)
        rate = float(rate_qps) if rate_qps and result.scenario.limits else None
        return warm_up(
            engine,
            prompts,
            generation,
            result.scenario,
            rate,
            self._settings.engine_silence,
            self._inputs.stops(result.benchmark, "performance"),
        )

    def _seen_rate(self, key: RunKey, result: Result, engine: Engine) -> float | None:
        """The samples/s of this result's accuracy run, or None.

        Without one, the rate is measured now, once, if the length of the run depends on it.
        """
        accuracy = result.runs.get("accuracy")
        # Separate accuracy data has answers of a different length.
        alike = result.benchmark.accuracy_samples is None
        if accuracy and accuracy.rate and alike:
            return accuracy.rate
        if sized_by_rate(key, offline_rate_given=self._settings.offline_target_qps is not None):
            with self.timed("rate", key):
                self._pace.measure_rate(result.benchmark, result.scenario, engine)
        return None

    def _load_plan(self, key: RunKey, result: Result, seen: float | None) -> LoadPlan:
        benchmark, scenario = result.benchmark, result.scenario
        size = self._pace.size(benchmark, scenario, key.mode)
        audit = benchmark.audit(key.mode)
        queries = self._pace.audit_queries(benchmark, scenario, audit) if audit else None
        shortened = SMOKE[scenario.loadgen_scenario] if self._settings.smoke else None
        target_qps = self._pace.target_qps(key, seen)
        latency_ms = self._pace.expected_latency_ms(key, seen)
        samples = size.samples
        if self._is_profiled(key):
            seconds = self._settings.profile_seconds
            shortened = profiled_run.shortened_to(seconds, scenario.loadgen_scenario)
            per_second = 1000 / latency_ms if latency_ms else target_qps
            samples = profiled_run.samples_for(seconds, per_second, samples)
        return plan_run(
            benchmark,
            scenario,
            key.mode,
            self._settings.round,
            samples,
            target_qps=target_qps,
            expected_latency_ms=latency_ms,
            shortened=shortened,
            audit_queries=queries,
        )

    def _judge(
        self,
        key: RunKey,
        result: Result,
        record: RunRecord,
        run: LoadRun,
        cached_tokens: int | None,
    ) -> None:
        benchmark, mode, samples = (
            result.benchmark,
            key.mode,
            self._pace.size(result.benchmark, result.scenario, key.mode).samples,
        )
        audit = benchmark.audit(mode)
        scored = mode == "accuracy" or (audit is not None and audit.least_score is not None)
        scores = self._scores(key, run.logs, samples) if scored else None
        reference, unreferenced = self._inputs.reference(benchmark, samples, mode)
        accuracy = result.runs.get("accuracy")
        if mode == "accuracy" and run.samples:
            record.answers = AnswerTokens(run.tokens / run.samples, run.samples)
        description = self._engines.descriptions["runs"]
        facts = RunFacts(
            benchmark,
            result.scenario,
            mode,
            self._settings.round,
            run.logs,
            smoke=self._settings.smoke,
            scores=scores.values if scores else None,
            figures_not_judged=scores.not_judged if scores else {},
            reference=reference,
            unreferenced=unreferenced,
            high_accuracy=self._settings.high_accuracy,
            accuracy_passed=accuracy_verdict(accuracy.verdicts)
            if accuracy and mode == "performance"
            else None,
            eos_token_ids=self._inputs.eos_token_ids if audit else None,
            departures=self._inputs.departures(
                benchmark,
                result.scenario,
                description.settings,
                # For performance runs, a separate rule judges them.
                (cached_tokens or 0) if mode != "performance" else 0,
                mode=mode,
                max_model_len=description.max_model_len,
            ),
            remote=record.remote,
            text_alone=gives_text_alone(description.settings),
            cached_tokens=cached_tokens,
            accuracy_tokens=accuracy.answers if accuracy else None,
        )
        record.verdicts = judge(facts)
        if self._settings.profile_run is not None:
            record.verdicts = set_aside(record.verdicts, PROFILED)
        if audit is not None:
            audits = (result.runs[m] for m in AUDIT_MODES if m in result.runs)
            verdicts = [v.as_json() for one in audits for v in one.verdicts]
            write_json(result.folder.compliance / "verdicts.json", verdicts)
            if scores is not None:
                name = f"{self._inputs.scorer(benchmark).name}.json"
                # The audit's limit is not a share of the reference accuracy.
                said = scorer_json(scores, None, facts.high_accuracy)
                write_json(result.folder.of_mode(mode) / name, said)
        elif mode == "performance":
            figures = performance_figures(
                result.scenario, run.logs.detail, run.elapsed_s, run.tokens, run.timeline
            )
            figures = dataclasses.replace(figures, untimed=run.untimed)
            limited = run_is_client_bound(record.verdicts)
            slowed = limited or self._is_profiled(key)
            if result.scenario.name == "Offline" and figures.samples_per_sec and not slowed:
                self._pace.offline_rates[benchmark.id] = figures.samples_per_sec
            kwh, hour = (
                Price.parse(text) if text else None
                for text in (self._settings.price_kwh, self._settings.price_hour)
            )
            record.cost = cost_figures(kwh, hour, record.energy, figures.tokens_per_sec)
            record.figures = figures
            repeats: tuple[RepeatFigures, ...] = ()
            for again in self._repeats(key, result, record, facts):
                # If a repeat fails, the figures measured before it are kept.
                repeats = (*repeats, again)
                record.figures = dataclasses.replace(figures, repeats=repeats)
        elif scores is not None:
            self._keep_scores(result, record, facts, scores)

    def _keep_scores(
        self, result: Result, record: RunRecord, facts: RunFacts, scores: Scores
    ) -> None:
        scorer = self._inputs.scorer(result.benchmark)
        strict, folder = facts.high_accuracy, result.folder.accuracy
        record.figures = accuracy_figures(
            scores,
            facts.reference,
            strict,
            facts.logs.detail[facts.logs.detail.accuracy_count_key],
            accuracy_verdict(record.verdicts),
        )
        write_json(folder / f"{scorer.name}.json", scorer_json(scores, facts.reference, strict))
        data = self._inputs.data_sha256(result.benchmark, "accuracy")
        write_answer_scores(folder, scorer.name, scores.per_answer, data)

    def _repeats(
        self, key: RunKey, result: Result, record: RunRecord, facts: RunFacts
    ) -> Iterator[RepeatFigures]:
        """Make the same run again, for --repeat.

        Only the first run is judged in full. The gate uses the figures of all, so repeats can fail
        the rules about how a run was made: those on the client, generation and cached prompts.
        """
        settings = self._engines.descriptions["runs"].settings
        for number in range(2, self._settings.repeat + 1):
            run, cached, remote = self._load_run(key, result, record, number)
            departures = self._inputs.departures(result.benchmark, result.scenario, settings)
            again = dataclasses.replace(
                facts,
                logs=run.logs,
                remote=remote,
                departures=departures,
                cached_tokens=cached,
            )
            for check in (
                client.client_bound,
                validity.generation,
                validity.cached_prompt_tokens,
            ):
                found = rule_of(check).judge(again)
                worse = dataclasses.replace(
                    found, why=f"repeat {number}: {found.why or found.found}"
                )
                record.verdicts = [
                    worse if v.rule == found.rule and _is_worse(found, v) else v
                    for v in record.verdicts
                ]
            yield repeated_figures(
                performance_figures(result.scenario, run.logs.detail, run.elapsed_s, run.tokens)
            )

    def _scores(self, key: RunKey, logs: RunLogs, samples: int) -> Scores | None:
        """The scores of the answers as LoadGen logged them; None if the log holds none."""
        from mlperf_suite.reports.writing import write_samples

        logged = logs.accuracy.first_of_each()
        benchmark = BENCHMARKS[key.benchmark]
        items = self._inputs.samples(benchmark, key.mode).items
        indices = sorted(index for index in logged if 0 <= index < samples)
        if not indices:
            return None
        tokens = [logged[index].token_ids for index in indices]
        scorer = self._inputs.scorer(benchmark)
        special = reads_special_tokens(scorer)
        texts = decoded(self._inputs.tokenizer, tokens, special_tokens=special)
        write_samples(logs.folder, indices, texts, items)
        answers = [
            Answer(items[index], ids, text)
            for index, ids, text in zip(indices, tokens, texts, strict=True)
        ]
        return scorer.score(answers)

    @contextlib.contextmanager
    def timed(self, kind: str, key: StepKey | None, number: int = 1) -> Iterator[None]:
        """Record how long a step of the plan takes."""
        started = time.monotonic()
        try:
            with ranges.named(f"{kind} {key or ''}".rstrip()):
                yield
        finally:
            for step in self._plan.steps:
                if (step.kind, step.key, step.number) == (kind, key, number):
                    self._pace.took.setdefault(step, time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class Made:
    """How a key is made: `do` makes it, `keep` writes the outcome to `folder`."""

    do: Callable[[], None]
    keep: Callable[[str | None], None]
    folder: Path


def decoded(
    tokenizer: Any, answers: Sequence[Sequence[int]], *, special_tokens: bool = False
) -> list[str]:
    """The text of each answer. `answers`: their token ids."""
    texts: list[str] = []
    for begin in range(0, len(answers), _DECODED_AT_ONCE):
        # The tokenizer only takes lists, which need ten times the memory of the answers.
        some = [list(ids) for ids in answers[begin : begin + _DECODED_AT_ONCE]]
        texts += tokenizer.batch_decode(some, skip_special_tokens=not special_tokens)
    return texts


def remote_run(engine: Engine) -> RemoteRun | None:
    """What an engine behind a network reports since the last call; None for a local engine."""
    return engine.take_remote_run() if isinstance(engine, RemoteEngine) else None


def replicas_run(engine: Engine) -> ReplicasRun | None:
    """What each replica did since the last call; None for an engine without replicas."""
    return engine.take_replicas_run() if isinstance(engine, ReplicatedEngine) else None


def run_is_client_bound(verdicts: Sequence[Verdict]) -> bool:
    """Whether the client limited a run, smoke runs included."""
    rule = client.client_bound.__name__
    return any(v.rule == rule and v.status in ("failed", "shortened") for v in verdicts)


def _is_worse(one: Verdict, other: Verdict) -> bool:
    order = ("passed", "not judged", "shortened", "failed")
    return order.index(one.status) > order.index(other.status)


def cached_tokens_since(engine: Engine) -> Callable[[RemoteRun | None], int | None]:
    """Return a function that counts the prompt tokens taken from a cache since this call.

    It is called with what a remote server reported about the run, if anything, and returns None
    if nothing counts them.
    """
    if not isinstance(engine, CountsCachedTokens):
        return lambda remote: None
    before = engine.cached_prompt_tokens

    def count(remote: RemoteRun | None) -> int | None:
        found = engine.cached_prompt_tokens - before
        untold = remote is not None and remote.cached_untold
        return None if untold and not found else found

    return count


def _same_result(need: StepKey, key: StepKey) -> bool:
    """Whether both are runs of the same result, whose folder already records the failure."""
    return (
        isinstance(need, RunKey)
        and isinstance(key, RunKey)
        and (need.benchmark, need.scenario) == (key.benchmark, key.scenario)
    )
