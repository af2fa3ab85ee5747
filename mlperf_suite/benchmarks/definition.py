"""The definition of a benchmark: scenarios, limits, data, prompt, generation, scorer, reference.

Each benchmark is in a tuple `BENCHMARKS` of a file of this package or of a feature; `catalog` finds
them. Sources of the figures: mlperf.conf (sample counts, durations, latency limits) and
constants.py of the official submission checker (rounds, scenarios, audits, reference accuracy),
both of github.com/mlcommons/inference. EOS ids: each model's generation_config.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from mlperf_suite.benchmarks.audits import Audit
from mlperf_suite.benchmarks.model_identity import ModelIdentity
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.errors import DatasetError
from mlperf_suite.scorers.scorer import Scorer

Category = Literal["datacenter", "edge"]
CATEGORIES: tuple[Category, ...] = ("datacenter", "edge")
SCENARIOS: tuple[str, ...] = ("Offline", "Server", "Interactive", "SingleStream")
CURVE = "Curve"
"""In place of a scenario: streamed answers at each of several fixed concurrencies, as the series
MLPerf Endpoints measures them. No scenario of LoadGen's, and without limits."""

LOADGEN = "loadgen"
"""The kind of the runs that LoadGen makes, with rules on its logs."""
MIN_DURATION_MS = 600_000
"""Every scenario of a submission runs 10 minutes (mlperf.conf; the checker's TEST_DURATION_MS)."""
ALL_ROUNDS = ("v5.1", "v6.0", "v6.1")
UNTIL_V6_0 = ("v5.1", "v6.0")
OFFICIAL_SOURCE = "MLPerf Inference reference, fp16/bf16, mlcommons/inference"
OFFLINE_AND_ONLINE = (("Offline",), ("Server", "Interactive"))
"""Scenarios of a closed datacenter submission: Offline, and one that issues queries at a rate."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of a benchmark.

    `name` is the name in submissions; `loadgen_scenario` and `loadgen_model` are the names in
    LoadGen's configuration. `metric` is the detail log key of the deciding figure. `rounds`: the
    rounds that offer the scenario, if fewer than the benchmark's. `min_queries`: the minimum for a
    performance run, if user.conf has to set it because mlperf.conf does not. `counts_tokens`:
    whether LoadGen counts the answers' tokens (use_token_latencies in mlperf.conf). `limits`: on
    the 99th percentile, in ms: of `ttft` and `tpot`, or of the `latency` where no tokens are
    counted; empty if there are none.
    """

    name: str
    loadgen_model: str
    loadgen_scenario: str
    metric: str
    metric_unit: str
    limits: Mapping[str, float] = field(default_factory=dict, hash=False)
    rounds: tuple[str, ...] = ()
    min_queries: int | None = None
    counts_tokens: bool = True

    @property
    def marker(self) -> str:
        return self.name.lower()

    @property
    def streams(self) -> bool:
        """Whether LoadGen gets the first token: where it counts tokens, except in Offline."""
        return self.counts_tokens and self.loadgen_scenario != "Offline"


def limit_name(key: str) -> str:
    """The name, in words, of what a key of `Scenario.limits` limits."""
    return key if key == "latency" else key.upper()


def offline(model: str, min_queries: int | None = None) -> Scenario:
    """Offline, under LoadGen's name for the model."""
    metric, unit = "result_tokens_per_second", "tokens/s"
    return Scenario("Offline", model, "Offline", metric, unit, min_queries=min_queries)


def server(model: str, ttft_ms: float, tpot_ms: float) -> Scenario:
    """Server with its limits in ms, under LoadGen's name for the model."""
    return _at_a_rate("Server", model, ttft_ms, tpot_ms)


def interactive(
    model: str, ttft_ms: float, tpot_ms: float, rounds: tuple[str, ...] = ()
) -> Scenario:
    """Interactive, which LoadGen runs as Server under a separate model name."""
    return _at_a_rate("Interactive", model, ttft_ms, tpot_ms, rounds)


def _at_a_rate(
    name: str, model: str, ttft_ms: float, tpot_ms: float, rounds: tuple[str, ...] = ()
) -> Scenario:
    limits, metric = {"ttft": ttft_ms, "tpot": tpot_ms}, "result_completed_tokens_per_second"
    return Scenario(name, model, "Server", metric, "tokens/s", limits, rounds)


def single_stream(model: str) -> Scenario:
    """SingleStream, under LoadGen's name for the model."""
    metric = "result_90.00_percentile_latency_ns"
    return Scenario("SingleStream", model, "SingleStream", metric, "ns")


@dataclass(frozen=True, slots=True)
class Generation:
    """Sampling settings: greedy by default, `min_new_tokens` to `max_new_tokens` tokens.

    `top_k`: 0 means the whole vocabulary. `seed`: set on each request; None sets none. `stops`: by
    sample kind, a text that ends the answer. `keeps_eos`: whether the answer given to LoadGen
    includes its final EOS. `ignore_eos`: an answer goes on to its most tokens; of servers alone.
    """

    max_new_tokens: int = 128
    min_new_tokens: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 1
    seed: int | None = 42
    stops: tuple[tuple[str, str], ...] = ()
    keeps_eos: bool = True
    ignore_eos: bool = False

    def as_json(self) -> dict[str, object]:
        """The settings for config.json; those that only some benchmarks use appear only there."""
        names = ("max_new_tokens", "min_new_tokens", "temperature", "top_p", "top_k", "seed")
        content: dict[str, object] = {name: getattr(self, name) for name in names}
        if self.stops:
            content["stops"] = dict(self.stops)
        if not self.keeps_eos:
            content["keeps_eos"] = False
        return content


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """What a correct system scores in one metric, and which scores pass.

    `value` and `high` are in `unit`. The minimum score is `share` times the value, or
    `strict_share` times the value with --high-accuracy. `high` None: no upper limit besides 100 for
    a percentage.
    """

    name: str
    unit: str
    value: float
    share: float
    strict_share: float
    high: float | None = None

    def low(self, *, strict: bool = False) -> float:
        """The minimum passing score, in the unit."""
        return self.value * (self.strict_share if strict else self.share)


def at_least(
    name: str, value: float, share: float = 0.99, strict_share: float = 0.999
) -> ExpectedScore:
    """A score in percent that must reach a share of its reference."""
    return ExpectedScore(name, "%", value, share, strict_share)


def within(name: str, unit: str, value: float, tolerance: float = 0.1) -> ExpectedScore:
    """A length that may deviate from its reference by the tolerance."""
    share = 1 - tolerance
    return ExpectedScore(name, unit, value, share, share, value * (1 + tolerance))


@dataclass(frozen=True, slots=True)
class ReferenceAccuracy:
    """What a correct system scores on a data set. `answers` is the number of answers measured."""

    scores: tuple[ExpectedScore, ...]
    answers: int
    source: str = OFFICIAL_SOURCE

    def of(self, name: str) -> ExpectedScore | None:
        """The expectation for the named metric, or None if there is none."""
        return next((score for score in self.scores if score.name == name), None)


class Prompt(Protocol):
    """Turns a sample into the prompt tokens for the engine."""

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> Sequence[Sequence[int]]:
        """The token ids of each sample's prompt, in order."""

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise DatasetError for a sample that cannot be turned into a prompt."""

    def as_json(self) -> dict[str, object]:
        """The prompt's entries in config.json."""


Load = Callable[[str, str | None], Samples]
"""Reads a data set by name or path; the second argument is the hub token."""
OFFICIAL_DATA = "official"
"""The default of --dataset: data that the suite cannot fetch, so the user must name a file."""


def from_a_file(file: str, load: Load) -> Load:
    """A loader that asks for the official file by name if no data was named."""

    def load_named(source: str, token: str | None = None) -> Samples:
        if source == OFFICIAL_DATA:
            raise DatasetError(
                f"--dataset: name the benchmark's official data, {file}; a pickle must be "
                "converted to parquet first (docs/benchmarks.md)"
            )
        return load(source, token)

    return load_named


@dataclass(frozen=True, slots=True)
class Part:
    """What one mode of a workload (accuracy, performance, an audit) runs on, and how it
    generates."""

    load: Load
    generation: Generation
    mean_tokens: float


UNKNOWN_IDENTITY = ModelIdentity()


@dataclass(frozen=True, slots=True)
class ScorerOption:
    """A feature's option that a scorer takes. `make`: the scorer with a value that was given.

    `need`: why an official accuracy run must have one, after the benchmark's id.
    """

    name: str
    make: Callable[[Any], Scorer]
    need: str


@dataclass(frozen=True, slots=True)
class Workload:
    """One model on one data set: prompts, generation and required scores.

    `model`: a hub id, or the name of a model that the set-up makes. `marks`: what identifies a copy
    of the model under another name. `dataset`: the default of --dataset; `load` reads it, or
    another that the user names, and `select` takes the benchmark's samples from it. `context`: the
    longest sequence that the workload needs, in tokens; None for the model's own limit.
    `reference`: for the whole data set; `reference_of` gives that of the first n samples, if each
    sample's own is known. `mean_tokens` and `prompt_tokens`: the mean length of an answer and of a
    prompt, in tokens, for time estimates. `parts`: by mode, what differs in it. `ungated`: why the
    scores are not compared with a reference; empty if they are. `own_samples`: the number of
    samples in `dataset`, if fewer than the benchmark's. `scorer_option`: the option of a
    feature that the scorer takes, if any. `media`: what its prompts carry
    beside tokens. `cleans_up_spaces`: whether the reference decodes answers with a transformers
    that applies `clean_up_tokenization_spaces` where the tokenizer asks for it; later ones than
    4.46.2, which language/llama3.1-8b and others pin, ignore it for BPE.
    """

    model: str
    load: Load
    prompt: Prompt
    generation: Generation
    scorer: Scorer
    reference: ReferenceAccuracy
    mean_tokens: float
    prompt_tokens: float
    dataset: str = OFFICIAL_DATA
    model_identity: ModelIdentity = UNKNOWN_IDENTITY
    context: int | None = None
    select: Callable[[Samples], Samples] = lambda samples: samples
    reference_of: Callable[[int], ReferenceAccuracy] | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    ungated: str = ""
    own_samples: int | None = None
    scorer_option: ScorerOption | None = None
    media: Literal["", "sound", "picture"] = ""
    cleans_up_spaces: bool = False

    def part(self, mode: str) -> Part:
        """What a mode runs on: its own part, or else the workload's data and generation."""
        return self.parts.get(mode) or Part(self.load, self.generation, self.mean_tokens)

    def reference_for(self, samples: int) -> ReferenceAccuracy | None:
        """The reference for a run over the first `samples` samples, or None if it is unknown."""
        if samples == self.reference.answers:
            return self.reference
        if self.reference_of is None or samples > self.reference.answers:
            return None
        return self.reference_of(samples)

    def is_model(self, name: str, facts: Mapping[str, object] | None) -> bool:
        """Whether a model is this workload's: by its hub id, or by what its files say of it.

        `facts`: the `model_facts` of a model with another name or in a folder; None if they cannot
        be read.
        """
        if facts is None or not self.model_identity.shape:
            return name.casefold() == self.model.casefold()
        return not self.model_identity.differences(facts)


OWN_HEAD = "the model's own"


@dataclass(frozen=True, slots=True)
class Speculation:
    """The only speculative decoding that a benchmark may use, in one of its scenarios.

    Source: appendix "Speculative Decoding" of inference_rules.adoc (mlcommons/inference_policies).
    `rounds`: those for which the rules have it. The other fields are the values of a description's
    `speculative` (`SPECULATIVE` in engines/protocol.py) that count as the rules' one: `method` by
    the names that engines give it, `head` by hub ids, `quantization` as the head is published.
    """

    rounds: tuple[str, ...]
    method: tuple[str, ...]
    head: tuple[str, ...]
    quantization: tuple[str, ...]
    steps: tuple[int, ...] = (3,)
    topk: tuple[int, ...] = (1,)
    scenario: str = "Interactive"


GEN_NUM = "gen_num"
F1, WORD_ACCURACY, WORD_ERROR_RATE = "f1", "word_accuracy", "word_error_rate"
"""Figures that accuracy.txt holds in forms of their own."""
COUNTED_IN_A_SENTENCE = "Total samples evaluated"
"""How official scripts name the number of scored answers: `gen_num` in most, and in one a sentence
apart from the figures, which need not be in accuracy.txt."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark. `samples` is the size of its data set and performance set.

    `required`: groups of scenarios; a closed submission has at least one of each group. `rounds`:
    the rounds that offer the benchmark. `eos_token_ids`: the ids with which the model ends an
    answer. `reference`: the accuracy that a submission's logs are judged by. `workload`: what the
    suite runs under the official profile, None if it only judges logs; `smoke`: what it runs under
    the smoke profile. `aliases`: other names in submissions. `by_default`: whether it runs if no
    benchmark is named. `accuracy_samples`: the size of its accuracy data set, if that is a
    different one. `counted_as`: the name of the number of scored answers in accuracy.txt. `audits`:
    those required of a closed submission. `speculation`: where and how a draft model, or the
    model's own heads, may propose tokens; None if nowhere. `answers_as_text`: whether the reference
    passes an answer to LoadGen as characters, beside the number of its tokens; this suite passes
    tokens. `letters`: of how many letters it passes the numbers instead. `also`: the second
    category that offers the benchmark, if there is one. `by_round`: what turns its workload, or its
    smoke form, into that of a round. `in_trees`: whether the suite judges its results in
    submissions. `run_kind`: the name of the `RunKind` that makes its runs, and whose rules judge
    them. `of_client`: the scenarios that only the official HTTP client measures.
    """

    id: str
    category: Category
    samples: int
    scenarios: tuple[Scenario, ...]
    rounds: tuple[str, ...]
    eos_token_ids: tuple[int, ...]
    reference: ReferenceAccuracy
    audits: tuple[Audit, ...] = ()
    workload: Workload | None = None
    smoke: Workload | None = None
    aliases: tuple[str, ...] = ()
    by_default: bool = False
    accuracy_samples: int | None = None
    counted_as: str = GEN_NUM
    required: tuple[tuple[str, ...], ...] = OFFLINE_AND_ONLINE
    speculation: Speculation | None = None
    answers_as_text: bool = False
    letters: int = 0
    also: Category | None = None
    by_round: Mapping[str, Callable[[Workload], Workload]] = field(default_factory=dict)
    in_trees: bool = True
    run_kind: str = LOADGEN
    of_client: tuple[Scenario, ...] = ()

    @property
    def vocabulary(self) -> int | None:
        """The size of the model's vocabulary: vocab_size of its config.json; None if unknown."""
        shape = self.workload.model_identity.shape if self.workload else {}
        places = (shape, shape.get("text_config"))
        sizes = [place.get("vocab_size") for place in places if isinstance(place, Mapping)]
        size = next(filter(None, sizes), None)
        return size if isinstance(size, int) else None

    def audit(self, mode: str) -> Audit | None:
        """The audit that a mode runs, or None if the benchmark has no such audit."""
        return next((audit for audit in self.audits if audit.mode == mode), None)

    def samples_of(self, mode: str) -> int:
        """The number of samples of the official data set that a mode runs over."""
        audit = self.audit(mode)
        if audit is not None and audit.samples is not None:
            return audit.samples
        return (self.accuracy_samples if mode == "accuracy" else None) or self.samples

    def own_samples_of(self, mode: str) -> int | None:
        """Like `samples_of`, or None if the mode runs over as many samples as accuracy."""
        count = self.samples_of(mode)
        return None if count == self.samples_of("accuracy") else count

    @property
    def every_scenario(self) -> tuple[Scenario, ...]:
        """Those of LoadGen, and those that only the official client measures, which may have the
        name of one that LoadGen runs in other rounds."""
        return (*self.scenarios, *self.of_client)

    def scenario(self, name: str) -> Scenario:
        """The scenario of that name, or `CURVE`. Raises KeyError if the benchmark has none."""
        if name == CURVE:
            return Scenario(CURVE, "", "Server", "", "tokens/s")
        for scenario in self.every_scenario:
            if scenario.name == name:
                return scenario
        raise KeyError(f"{self.id} has no scenario {name}")

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(score.name for score in self.reference.scores)
