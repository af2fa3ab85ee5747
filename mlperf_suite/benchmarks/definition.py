"""What a benchmark is: scenarios and limits, data, prompt, generation, scorer, reference accuracy.

Each benchmark is a file of this package with a tuple `BENCHMARKS` of what it defines; `registry`
finds them. Sources of the figures: mlperf.conf (sample counts, durations, latency limits) and
constants.py of the official submission checker (rounds, scenarios, audits, reference accuracy),
both of github.com/mlcommons/inference. EOS ids: each model's own generation_config.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from mlperf_suite.benchmarks.audits import Audit
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.scorers.protocol import Scorer

Category = Literal["datacenter", "edge"]
CATEGORIES: tuple[Category, ...] = ("datacenter", "edge")
SCENARIOS: tuple[str, ...] = ("Offline", "Server", "Interactive", "SingleStream")

MIN_DURATION_MS = 600_000
"""Every scenario of a submission runs ten minutes (mlperf.conf; the checker's TEST_DURATION_MS)."""
ALL_ROUNDS = ("v5.1", "v6.0", "v6.1")
UNTIL_V6_0 = ("v5.1", "v6.0")
OFFICIAL_SOURCE = "MLPerf Inference reference, fp16/bf16, mlcommons/inference"
OFFLINE_AND_ONLINE = (("Offline",), ("Server", "Interactive"))
"""Scenarios of a closed datacenter submission: Offline, and one of those with queries at a rate."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """The limits on the 99th percentile of the time to first token and per output token, in ms."""

    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of a benchmark.

    `name` is what people and submissions say; `loadgen_scenario` and `loadgen_model` are what
    LoadGen's configuration calls it. `metric` is the key of the detail log that decides.
    `rounds`: those that offer it, where they are fewer than the benchmark's. `min_queries`: the
    least of a performance run, where mlperf.conf does not say it and user.conf has to.
    """

    name: str
    loadgen_model: str
    loadgen_scenario: str
    metric: str
    metric_unit: str
    limits: TokenLimits | None = None
    rounds: tuple[str, ...] = ()
    min_queries: int | None = None

    @property
    def marker(self) -> str:
        return self.name.lower()

    @property
    def streams(self) -> bool:
        """Whether LoadGen is told the first token: everywhere but in Offline."""
        return self.loadgen_scenario != "Offline"


def offline(model: str, min_queries: int | None = None) -> Scenario:
    """Offline, under LoadGen's name of the model."""
    metric, unit = "result_tokens_per_second", "tokens/s"
    return Scenario("Offline", model, "Offline", metric, unit, min_queries=min_queries)


def server(model: str, ttft_ms: float, tpot_ms: float) -> Scenario:
    """Server with its limits in ms, under LoadGen's name of the model."""
    return _at_a_rate("Server", model, ttft_ms, tpot_ms)


def interactive(
    model: str, ttft_ms: float, tpot_ms: float, rounds: tuple[str, ...] = ()
) -> Scenario:
    """Interactive, which LoadGen runs as Server under a model name of its own."""
    return _at_a_rate("Interactive", model, ttft_ms, tpot_ms, rounds)


def _at_a_rate(
    name: str, model: str, ttft_ms: float, tpot_ms: float, rounds: tuple[str, ...] = ()
) -> Scenario:
    limits, metric = TokenLimits(ttft_ms, tpot_ms), "result_completed_tokens_per_second"
    return Scenario(name, model, "Server", metric, "tokens/s", limits, rounds)


def single_stream(model: str) -> Scenario:
    """SingleStream, under LoadGen's name of the model."""
    metric = "result_90.00_percentile_latency_ns"
    return Scenario("SingleStream", model, "SingleStream", metric, "ns")


@dataclass(frozen=True, slots=True)
class Generation:
    """How tokens are chosen: by default greedy, `min_new_tokens` to `max_new_tokens` of them.

    `top_k`: 0 is all of the vocabulary. `seed`: of each request; None sets none. `stops`: by a
    sample's kind, a text after which its answer ends. `keeps_eos`: whether LoadGen is given the EOS
    at an answer's end.
    """

    max_new_tokens: int = 128
    min_new_tokens: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 1
    seed: int | None = 42
    stops: tuple[tuple[str, str], ...] = ()
    keeps_eos: bool = True

    def as_json(self) -> dict[str, object]:
        """What config.json says of it; what only some benchmarks have is left out elsewhere."""
        content: dict[str, object] = {
            name: getattr(self, name)
            for name in (
                "max_new_tokens",
                "min_new_tokens",
                "temperature",
                "top_p",
                "top_k",
                "seed",
            )
        }
        if self.stops:
            content["stops"] = dict(self.stops)
        if not self.keeps_eos:
            content["keeps_eos"] = False
        return content


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """What a correct system scores in one metric, and which scores of another pass.

    `value` and `high` are in `unit`. `share` is the share of the value that is the least to pass,
    `strict_share` the same with --high-accuracy. `high` None: nothing but a percentage's 100.
    """

    name: str
    unit: str
    value: float
    share: float
    strict_share: float
    high: float | None = None

    def low(self, *, strict: bool = False) -> float:
        """The least score that passes, in the unit."""
        return self.value * (self.strict_share if strict else self.share)


def at_least(
    name: str, value: float, share: float = 0.99, strict_share: float = 0.999
) -> ExpectedScore:
    """A score in percent that must reach a share of its reference."""
    return ExpectedScore(name, "%", value, share, strict_share)


def within(name: str, unit: str, value: float, tolerance: float = 0.1) -> ExpectedScore:
    """A length that may be so much shorter or longer than its reference."""
    share = 1 - tolerance
    return ExpectedScore(name, unit, value, share, share, value * (1 + tolerance))


@dataclass(frozen=True, slots=True)
class ReferenceAccuracy:
    """What a correct system scores on a data set. `answers` is the number it was measured over."""

    expected: tuple[ExpectedScore, ...]
    answers: int
    source: str

    def of(self, name: str) -> ExpectedScore | None:
        """What is expected of the metric of that name, None where nothing is."""
        return next((one for one in self.expected if one.name == name), None)


class Prompt(Protocol):
    """How a sample becomes the tokens that the engine is given."""

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> Sequence[Sequence[int]]:
        """The token ids of each sample's prompt, in order."""

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise DatasetError for a sample that no prompt can be made of."""

    def as_json(self) -> dict[str, object]:
        """What config.json says of it."""


Load = Callable[[str, str | None], Samples]
"""Reads a data set by its name or path; the second is the hub's token."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one mode of a workload (accuracy, performance, an audit) runs on, and how it answers.

    `load`, `generation`, `mean_tokens`: as in `Workload`.
    """

    load: Load
    generation: Generation
    mean_tokens: float


@dataclass(frozen=True, slots=True)
class Workload:
    """One model on one data set: what it is asked, how it answers, what it must score.

    `model`: a hub id, or "embedded". `shape`: entries of the model's config.json by which a copy
    of it under another name is known. `dataset`: what --dataset is by default; `load` reads it, or
    another that a user names, and `select` takes the benchmark's samples of it. `context`: the
    longest sequence that it needs, in tokens; None is the model's own. `reference`: of the whole
    data set; `reference_of` gives that of the first n samples, where each sample's own is known.
    `mean_tokens` and `prompt_tokens`: the mean length of an answer and of a prompt, in tokens, to
    plan time by. `parts`: by mode, what differs in it. `ungated`: why the scores are compared with
    nothing; empty where they are. `own_samples`: the samples of `dataset`, where they are fewer
    than the benchmark's. `with_problems`: the scorer with another file of the problems that its
    programs are tested with, where it has such.
    """

    model: str
    dataset: str
    load: Load
    prompt: Prompt
    generation: Generation
    scorer: Scorer
    reference: ReferenceAccuracy
    mean_tokens: float
    prompt_tokens: float
    shape: Mapping[str, object] = field(default_factory=dict)
    context: int | None = None
    select: Callable[[Samples], Samples] = lambda samples: samples
    reference_of: Callable[[int], ReferenceAccuracy] | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    ungated: str = ""
    own_samples: int | None = None
    with_problems: Callable[[Path], Scorer] | None = None

    def part(self, mode: str) -> Part:
        """What a mode runs on: the workload's own data and generation, unless it has others."""
        return self.parts.get(mode) or Part(self.load, self.generation, self.mean_tokens)

    def reference_for(self, samples: int) -> ReferenceAccuracy | None:
        """The reference of a run over the first `samples` samples; None where nobody knows it."""
        if samples == self.reference.answers:
            return self.reference
        if self.reference_of is None or samples > self.reference.answers:
            return None
        return self.reference_of(samples)

    def is_model(self, name: str, config: Mapping[str, object] | None) -> bool:
        """Whether a model is this workload's: by its name, or by the shape its config.json tells.

        `config`: that of a model of another name or in a folder; None where it cannot be read.
        """
        if name.casefold() == self.model.casefold():
            return True
        return bool(self.shape) and self.shape.items() <= dict(config or {}).items()


GEN_NUM = "gen_num"
COUNTED_IN_A_SENTENCE = "Total samples evaluated"
"""What most official scripts call the number of answers that they scored, and what the one does
that says it in a sentence, apart from the figures: such a sentence need not be in accuracy.txt."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark: `samples` is the size of its data and performance set.

    `required`: groups of scenarios; a closed submission has at least one of each group.
    `rounds`: those that offer it. `eos_token_ids`: the ids with which the model ends an answer.
    `reference`: the accuracy that a submission's logs are judged by. `workload`: what the suite
    runs under the official profile, None where it only judges logs; `smoke`: what it runs under
    the smoke profile. `aliases`: names that submissions use besides. `by_default`: whether it is
    run where no benchmark is named. `accuracy_samples`: of its accuracy data set, where that is
    another. `counted_as`: what accuracy.txt calls the number of answers that were scored.
    `audits`: those of a closed submission. `speculation`: the scenarios in which a draft
    model, or the model's own heads, may propose tokens.
    """

    id: str
    category: Category
    samples: int
    scenarios: tuple[Scenario, ...]
    required: tuple[tuple[str, ...], ...]
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
    speculation: tuple[str, ...] = ()

    def audit(self, mode: str) -> Audit | None:
        """The audit that a mode is a run of; None where the benchmark has no such audit."""
        return next((audit for audit in self.audits if audit.mode == mode), None)

    def samples_of(self, mode: str) -> int:
        """The samples of the official data set that a mode runs over."""
        audit = self.audit(mode)
        if audit is not None and audit.samples is not None:
            return audit.samples
        return (self.accuracy_samples if mode == "accuracy" else None) or self.samples

    def own_samples_of(self, mode: str) -> int | None:
        """As `samples_of`, of a mode that runs over other data than accuracy; else None."""
        found = self.samples_of(mode)
        return None if found == self.samples_of("accuracy") else found

    def offered_in(self, round_: str) -> tuple[Scenario, ...]:
        """The scenarios that a round offers; none where it does not offer the benchmark."""
        if round_ not in self.rounds:
            return ()
        return tuple(s for s in self.scenarios if not s.rounds or round_ in s.rounds)

    def scenario(self, name: str) -> Scenario:
        """The scenario of that name; raises KeyError where the benchmark has none."""
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        raise KeyError(f"{self.id} has no scenario {name}")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the figures that its accuracy is judged by."""
        return tuple(one.name for one in self.reference.expected)
