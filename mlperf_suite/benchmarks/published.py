"""Shared by the benchmarks on published, tokenized data: their prompts, and the smoke form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlperf_suite.benchmarks.definition import Generation, Load, Workload
from mlperf_suite.benchmarks.prompts import TextPrompt
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.errors import DatasetError

OFFICIAL_DATA = "official"
"""The default of --dataset: data that the suite cannot fetch, so the user must name a file."""
_SMOKE_TOKENS = 48
"""Maximum answer length of the smoke form: it tests the pipeline, not the model's knowledge."""
_UNGATED = "a small model on samples of this project has no accuracy requirement"


@dataclass(frozen=True, slots=True)
class PublishedTokens:
    """Prompts published as token ids, used unchanged."""

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise DatasetError for a sample without tokens."""
        for index, sample in enumerate(samples):
            if sample.token_ids is None:
                raise DatasetError(
                    f"--dataset: sample {index} has no token ids: this benchmark's data is "
                    "published tokenized, and text is not tokenized again"
                )

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> Sequence[Sequence[int]]:
        """Each sample's prompt. Raises DatasetError for a sample without tokens."""
        self.check(samples)
        return [sample.token_ids or () for sample in samples]

    def as_json(self) -> dict[str, object]:
        return {"prompt": "token ids as published", "chat_template": False}


def from_a_file(file: str, load: Load) -> Load:
    """A loader that asks for the official file by name if no data was named."""

    def load_named(source: str, token: str | None = None) -> Samples:
        if source == OFFICIAL_DATA:
            raise DatasetError(
                f"--dataset: name the benchmark's official data, {file}; a pickle is turned into "
                "parquet with `python -m mlperf_suite convert`"
            )
        return load(source, token)

    return load_named


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
        shape={},
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
        ungated=_UNGATED,
        own_samples=samples,
    )
