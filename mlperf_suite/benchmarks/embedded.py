"""What the smoke profile runs instead of a benchmark: a small real model on the project's own
data."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

from mlperf_suite.benchmarks.definition import (
    UNKNOWN_IDENTITY,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    within,
)
from mlperf_suite.benchmarks.prompts import SUMMARIZE, TextPrompt
from mlperf_suite.datasets.news import load_news
from mlperf_suite.scorers.rouge import ROUGE_NAMES, RougeScorer
from mlperf_suite.scorers.scorer import GEN_LEN

EMBEDDED_REFERENCE_TABLE = Path(__file__).parent / "embedded_reference.csv"
_MEANS = {"rouge1": 39.0135, "rouge2": 22.4992, "rougeL": 31.8461, "rougeLsum": 36.5641}
_CHARACTERS, _ANSWERS = 41_681, 84
_SOURCE = "Hugging Face transformers 5.19, float32, greedy: scripts/measure_reference.py"
_SCATTER = {
    **{"rouge1": 0.14, "rouge2": 0.26, "rougeL": 0.16, "rougeLsum": 0.15},
    GEN_LEN: 0.12,
}
"""The standard deviation of one answer's score from the reference's in a correct engine, as a share
of the mean: bf16 changes the wording of three in four answers (docs/evidence/smoke-gate.md)."""
_SIGMAS, _STRICT_SIGMAS = 4.0, 3.0
"""Standard errors from the mean to the gate; the mean of n answers scatters by _SCATTER/sqrt(n). By
chance a score then fails less than once in 10,000 runs, with --high-accuracy once in 700."""
_LENGTH_TOLERANCE = 0.1
"""MLPerf's tolerance, unless the scatter requires more."""


def _reference(means: dict[str, float], characters: int, answers: int) -> ReferenceAccuracy:
    """A reference whose gates allow for the scatter of that many answers."""

    def share(name: str, sigmas: float) -> float:
        return 1 - sigmas * _SCATTER[name] / math.sqrt(answers)

    scores = (
        at_least(name, value, share(name, _SIGMAS), share(name, _STRICT_SIGMAS))
        for name, value in means.items()
    )
    tolerance = max(_LENGTH_TOLERANCE, 1 - share(GEN_LEN, _SIGMAS))
    length = within(GEN_LEN, "characters", characters, tolerance)
    return ReferenceAccuracy((*scores, length), answers, _SOURCE)


def reference_of_first(answers: int) -> ReferenceAccuracy:
    """The reference for the first `answers` samples, from the scores of each."""
    with EMBEDDED_REFERENCE_TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))[:answers]
    means = {
        name: round(sum(float(row[name]) for row in rows) / answers * 100, 4)
        for name in ROUGE_NAMES
    }
    return _reference(means, sum(int(row["characters"]) for row in rows), answers)


EMBEDDED = Workload(
    model="embedded",
    dataset="embedded",
    load=load_news,
    # This model loops on the official raw prompt.
    prompt=TextPrompt(SUMMARIZE, chat=True),
    generation=Generation(),
    scorer=RougeScorer(),
    reference=_reference(_MEANS, _CHARACTERS, _ANSWERS),
    mean_tokens=118,
    prompt_tokens=365,
    cleans_up_spaces=True,
    context=8192,
    reference_of=reference_of_first,
    own_samples=_ANSWERS,
)

_SMOKE_TOKENS = 48
"""Maximum answer length of the smoke form: it tests the pipeline, not the model's knowledge."""


def smoke_form(official: Workload, samples: int) -> Workload:
    """What the smoke profile runs: the embedded model on a few samples in the benchmark's format.

    `samples`: how many the package has. Prompts are text, since the embedded model has another
    tokenizer; scorer, audits and sampling settings are the benchmark's; answers are shorter.
    """

    def cut(generation: Generation) -> Generation:
        shortest = min(_SMOKE_TOKENS, generation.max_new_tokens)
        return replace(generation, max_new_tokens=shortest)

    return replace(
        official,
        model="embedded",
        model_identity=UNKNOWN_IDENTITY,
        dataset="embedded",
        prompt=TextPrompt("{input}", chat=True),
        generation=cut(official.generation),
        mean_tokens=_SMOKE_TOKENS,
        prompt_tokens=100,
        context=4096,
        parts={
            mode: replace(part, generation=cut(part.generation), mean_tokens=_SMOKE_TOKENS)
            for mode, part in official.parts.items()
        },
        ungated="a small model on samples of this project has no accuracy requirement",
        own_samples=samples,
    )
