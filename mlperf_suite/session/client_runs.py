"""Runs scenarios of round v6.1 with MLCommons' HTTP client, and judges what it writes.

The client measures and writes; its files are judged by the rules that judge them in a submission's
tree, without those of the files that a submission adds. The suite scores the answers itself, since
the client's own scorers need the hub or services beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, Benchmark
from mlperf_suite.client_results.client_benchmarks import (
    ClientBenchmark,
    ClientRunKey,
    client_benchmark,
)
from mlperf_suite.client_results.result_files import (
    AccuracyResults,
    AccuracyScore,
    ClientConfig,
    ResponseCounts,
    ResultSummary,
    config_of,
    read_typed,
)
from mlperf_suite.engines.endpoint.server_facts import check_reachable, find_out
from mlperf_suite.errors import RunError, SuiteError, of_the_system
from mlperf_suite.judging.client_submissions import events_of
from mlperf_suite.judging.tree import read_yaml
from mlperf_suite.official_client.client_answers import accuracy_answers
from mlperf_suite.official_client.client_job import (
    ClientData,
    ClientJob,
    ClientLoad,
    whole_passes,
)
from mlperf_suite.official_client.client_process import (
    SILENCE_S,
    ClientProgress,
    run_client,
)
from mlperf_suite.official_client.installation import ClientInstallation, find_client
from mlperf_suite.results.record import scorer_json
from mlperf_suite.results.run_folder import check_writable, write_json
from mlperf_suite.rules.client_rules import ClientFacts, is_of_accuracy, rules_of_a_run
from mlperf_suite.rules.submission_rules import JsonFile
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.scorers.scorer import Answer, Scores, reads_special_tokens
from mlperf_suite.session.engines import endpoint_config
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.watcher import Watcher
from mlperf_suite.settings import Settings

_SHARE_OF_OFFLINE = 0.8
"""Of the rate of Offline, a rate for Server; as for LoadGen's runs."""
_WARMUP_REQUESTS = 2
_EVENT_RATE = 1.0
"""Requests/s that are expected of Offline where nobody says another rate: one pass of any data."""


@dataclass(frozen=True, slots=True)
class ClientOutcome:
    """What became of a run: where it is, and its verdicts by rule, or why there are none."""

    folder: Path
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    failure: str = ""
    summary: ResultSummary | None = None


class ClientRuns:
    """Makes each run once, when it is first asked for.

    `with_accuracy`: the scenarios whose accuracy is judged as well.
    """

    def __init__(
        self, settings: Settings, watcher: Watcher, with_accuracy: frozenset[ClientRunKey]
    ) -> None:
        self._settings, self._watcher, self._with_accuracy = settings, watcher, with_accuracy
        self._outcomes: dict[ClientRunKey, ClientOutcome] = {}
        self._inputs: dict[str, Inputs] = {}
        self._client: ClientInstallation | None = None
        self._names: dict[str, str] = {}

    @property
    def outcomes(self) -> dict[ClientRunKey, ClientOutcome]:
        """The runs that were made, in their order."""
        return self._outcomes

    def check(self, keys: frozenset[ClientRunKey]) -> None:
        """Find what would stop the session before anything slow begins. Raises UsageError."""
        self._client = find_client()
        check_writable(self._settings.results_dir)
        for name in sorted({key.benchmark for key in keys}):
            inputs = self._inputs_of(name)
            inputs.check([])
            check_reachable(endpoint_config(inputs))
            if any(key.benchmark == name for key in self._with_accuracy):
                inputs.scorer(BENCHMARKS[name]).check()
        if note := self._client.note:
            self._watcher.say(note)

    def _inputs_of(self, name: str) -> Inputs:
        if name not in self._inputs:
            self._inputs[name] = Inputs(self._settings, [BENCHMARKS[name]])
        return self._inputs[name]

    def make(self, key: ClientRunKey) -> ClientOutcome:
        """Run a scenario and judge it, or return what was made before. Never raises SuiteError."""
        if key not in self._outcomes:
            folder = _new_folder(self._settings.results_dir, key)
            self._outcomes[key] = ClientOutcome(folder, failure=f"{key}: interrupted")
            try:
                self._outcomes[key] = self._run(key, folder)
            except SuiteError as error:
                self._outcomes[key] = ClientOutcome(folder, failure=f"{key}: {error}")
            except OSError as error:
                words = of_the_system(error, folder)
                self._outcomes[key] = ClientOutcome(folder, failure=f"{key}: {words}")
            finally:
                self._watcher.idle()
        return self._outcomes[key]

    def _run(self, key: ClientRunKey, folder: Path) -> ClientOutcome:
        rate = self._rate(key) if key.scenario != "Offline" else None
        job = self._job(key, rate)
        self._watcher.begin(str(key))
        report = run_client(
            self._client or find_client(),
            job,
            folder,
            on_progress=self._progress,
            silence_s=max(SILENCE_S, self._settings.engine_silence),
        )
        facts = self._facts(key, report)
        verdicts = [rule.judge(facts) for rule in rules_of_a_run()]
        if job.accuracy is None:
            verdicts = [v for v in verdicts if not is_of_accuracy(v.rule)]
        write_json(folder / "verdicts.json", [verdict.as_json() for verdict in verdicts])
        return ClientOutcome(folder, {v.rule: v for v in verdicts}, summary=facts.summary)

    def _progress(self, progress: ClientProgress) -> None:
        self._watcher.requests(progress.completed, progress.total, progress.failed)

    # What is asked of the client

    def _rate(self, key: ClientRunKey) -> float:
        """The rate in queries/s: the user's, or a share of what Offline reaches."""
        if self._settings.server_target_qps is not None:
            return self._settings.server_target_qps
        offline = self.make(ClientRunKey(key.benchmark, "Offline"))
        if offline.failure or offline.summary is None or not offline.summary.qps:
            why = offline.failure or "it has no rate"
            raise RunError(f"no rate without Offline: {why}; set --server-target-qps")
        return _SHARE_OF_OFFLINE * offline.summary.qps

    def _job(self, key: ClientRunKey, rate: float | None) -> ClientJob:
        settings, benchmark = self._settings, BENCHMARKS[key.benchmark]
        inputs = self._inputs_of(key.benchmark)
        config = endpoint_config(inputs)
        offline = rate is None
        expected = settings.offline_target_qps or _EVENT_RATE if offline else rate
        least_s = 0.0 if settings.smoke else MIN_DURATION_MS / 1000
        prompts = inputs.prompts(benchmark)
        load = ClientLoad(
            rate=rate,
            requests=whole_passes(len(prompts), expected, least_s),
            least_s=least_s,
        )
        round_ = settings.round
        warmup = settings.warmup
        return ClientJob(
            name=str(key),
            urls=tuple(target.url for target in config.targets),
            model=self._served_name(key.benchmark),
            tokenizer=inputs.tokenizer_folder,
            load=load,
            performance=ClientData(prompts=prompts),
            generation=inputs.generation(benchmark),
            max_new_tokens=inputs.generation(benchmark).max_new_tokens,
            streaming=not offline,
            seeds=(round_.schedule_rng_seed, round_.sample_index_rng_seed),
            accuracy=self._accuracy(key, benchmark) if key in self._with_accuracy else None,
            keeps_special_tokens=reads_special_tokens(inputs.scorer(benchmark)),
            workers=settings.endpoint_clients or 1,
            key_variable="API_KEY" if settings.api_key else None,
            warmup_requests=_WARMUP_REQUESTS if warmup is None else warmup,
        )

    def _served_name(self, name: str) -> str:
        """The model's name on the servers, which have to be there."""
        if name not in self._names:
            config = endpoint_config(self._inputs_of(name))
            served = {find_out(config, target).model for target in config.targets}
            if len(served) > 1:
                raise RunError(f"the endpoints serve the model under names: {sorted(served)}")
            self._names[name] = served.pop()
        return self._names[name]

    def _accuracy(self, key: ClientRunKey, benchmark: Benchmark) -> ClientData:
        inputs = self._inputs_of(key.benchmark)
        prompts = inputs.prompts(benchmark, "accuracy")
        generation = inputs.generation(benchmark, "accuracy")
        return ClientData(
            prompts=prompts,
            # The client demands a scorer; this one says what share of answers has these words.
            references=[f"sample {number}" for number in range(len(prompts))],
            generation=None if generation == inputs.generation(benchmark) else generation,
        )

    # What came of it

    def _facts(self, key: ClientRunKey, report: Path) -> ClientFacts:
        content, problem = read_yaml(report / "config.yaml")
        config: ClientConfig | None = None
        if not problem:
            config, problem = config_of(content)
        summary, fault = read_typed(report / "performance" / "result_summary.json", ResultSummary)
        demands = self._demands(key)
        accuracy = None
        if key in self._with_accuracy:
            accuracy, demands = self._scored(key, report, demands)
        return ClientFacts(
            division="closed",
            submitter="",
            name=key.benchmark,
            scenario=key.scenario,
            round=self._settings.round,
            benchmark=demands,
            config=config,
            summary=summary,
            accuracy=accuracy,
            problems=tuple(filter(None, (problem, fault))),
            audits={},
            missing_files=(),
            system=JsonFile({}),
            measurements=JsonFile({}),
            events=events_of(report),
            smoke=self._settings.smoke,
        )

    def _demands(self, key: ClientRunKey) -> ClientBenchmark:
        demands = client_benchmark(key.benchmark, key.scenario)
        assert demands is not None
        return demands

    def _scored(
        self, key: ClientRunKey, report: Path, demands: ClientBenchmark
    ) -> tuple[AccuracyResults, ClientBenchmark]:
        """The suite's scores of the answers, and the demands with this model's reference."""
        benchmark, inputs = BENCHMARKS[key.benchmark], self._inputs_of(key.benchmark)
        items = inputs.samples(benchmark, "accuracy").items
        texts = accuracy_answers(report)
        encode: Callable[..., dict[str, list[int]]] = inputs.tokenizer
        answers = [
            Answer(items[number], encode(text, add_special_tokens=False)["input_ids"], text)
            for number, text in sorted(texts.items())
            if 0 <= number < len(items)
        ]
        if not answers:
            raise RunError("the accuracy run has no answers")
        scorer = inputs.scorer(benchmark)
        scores = scorer.score(answers)
        reference, _ = inputs.reference(benchmark, len(items))
        strict = self._settings.high_accuracy
        content = scorer_json(scores, reference, strict)
        write_json(report.parent / f"{scorer.name}.json", content)
        expected = reference.scores if reference else ()
        return _results(scores, answers, len(items)), replace(demands, expected=expected)


def _results(scores: Scores, answers: list[Answer], samples: int) -> AccuracyResults:
    empty = sum(not answer.text for answer in answers)
    counts = ResponseCounts(
        issued=samples, scored=len(answers), empty=empty, missing=samples - len(answers)
    )
    score = AccuracyScore(
        "accuracy-data",
        score=dict(scores.values),
        unit_samples=samples,
        num_repeats=1,
        total_samples=samples,
        complete=len(answers) == samples,
        dataset_type="accuracy",
        response_counts=counts,
    )
    return AccuracyResults((score,))


def _new_folder(results_dir: Path, key: ClientRunKey) -> Path:
    """A folder for a run that is not there yet."""
    stamp = datetime.now(UTC).astimezone().strftime("%Y%m%d-%H%M%S")
    base = f"{stamp}-{key.benchmark}-{key.scenario.lower()}-client"
    number, folder = 1, results_dir / base
    while folder.exists():
        number += 1
        folder = results_dir / f"{base}-{number}"
    return folder
