"""A made-up benchmark, added as anybody would: this file, with its data and its scorer.

Its prompts are published tokenized, its grader compares the last token, and its audits are none.
`meta_tests.added_benchmark_plugin` puts this folder beside the package's own benchmarks.
"""

from collections.abc import Sequence
from typing import Any

from mlperf_suite.benchmarks.definition import (
    ALL_ROUNDS,
    Benchmark,
    ExpectedScore,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    offline,
)
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.scorers.scorer import Answer, Score, Scores

SAMPLES = 20


def load_numbers(source: str, token: str | None = None) -> Samples:
    """Sample i is the prompt (5, 6, 7 + i), and 7 + i is what its answer must end with."""
    items = (
        Sample("", str(7 + i), token_ids=(5, 6, 7 + i), kind="even" if i % 2 == 0 else "odd")
        for i in range(SAMPLES)
    )
    return Samples(source, tuple(items))


class TokenPrompt:
    """Prompts that are published as tokens."""

    def check(self, samples: Sequence[Sample]) -> None:
        """Every sample has its tokens."""

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> list[list[int]]:
        return [list(sample.token_ids or ()) for sample in samples]

    def as_json(self) -> dict[str, object]:
        return {"prompt": "as published"}


class LastTokenScorer:
    """Of each kind, the share of answers whose last token is the reference, in percent."""

    name = "last_token"

    def check(self) -> None:
        """Nothing is needed."""

    def score(self, answers: Sequence[Answer]) -> Scores:
        right = [100.0 * (str(a.token_ids[-1]) == a.sample.reference) for a in answers]
        kinds: dict[str, list[float]] = {kind: [] for kind in ("even", "odd")}
        for answer, value in zip(answers, right, strict=True):
            kinds[answer.sample.kind].append(value)
        means = (Score(k, sum(v) / len(v), "%") for k, v in kinds.items() if v)
        length = Score(
            "mean_tokens", sum(len(a.token_ids) for a in answers) / len(answers), "tokens"
        )
        return Scores((*means, length), {"even": tuple(kinds["even"])})


REFERENCE = ReferenceAccuracy(
    (
        at_least("even", 100.0),
        at_least("odd", 50.0),
        ExpectedScore("mean_tokens", "tokens", 2.0, 0.5, 0.5, 4.0),
    ),
    SAMPLES,
    "counted",
)
WORKLOAD = Workload(
    model="embedded",
    dataset="numbers",
    load=load_numbers,
    prompt=TokenPrompt(),
    generation=Generation(max_new_tokens=8),
    scorer=LastTokenScorer(),
    reference=REFERENCE,
    mean_tokens=2,
    prompt_tokens=3,
)
NUMBERS_1B = Benchmark(
    "numbers-1b",
    "datacenter",
    # LoadGen's own count under the name of the model that it knows.
    13_368,
    (offline("llama3_1-8b"),),
    ALL_ROUNDS,
    (2,),
    REFERENCE,
    required=(("Offline",),),
    workload=WORKLOAD,
    smoke=WORKLOAD,
)
BENCHMARKS = (NUMBERS_1B,)
