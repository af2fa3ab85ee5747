"""Makes a data set of official size from made-up news, with a model folder and answers.

The news consist of random words of the suite's own list, the same in every call. An answer is as
long as its reference summary and shares as many words, word pairs and sequences with it as a score
slightly above the official ROUGE reference requires. No official file is needed or copied.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence.submission.model import WORDS, ModelTokens, write_json, write_model
from mlperf_suite.benchmarks.llama3_1_8b import BENCHMARKS, LLAMA3_1_8B, LLAMA3_1_8B_EDGE, OFFICIAL
from mlperf_suite.benchmarks.prompts import SUMMARIZE
from mlperf_suite.datasets.samples import Sample, Samples

SAMPLES = LLAMA3_1_8B.samples
DATASETS = {LLAMA3_1_8B.id: "cnn_eval.json", LLAMA3_1_8B_EDGE.id: "sample_cnn_eval_5000.json"}
"""File names by benchmark, as in the official preparation."""
MODEL, ANSWERS = "model", "answers.json"
TOKENS = ModelTokens(
    {"<|begin_of_text|>": 128_000, "<|end_of_text|>": 128_001}
    | {"<|eom_id|>": 128_008, "<|eot_id|>": 128_009},
    begin="<|begin_of_text|>",
    end="<|eot_id|>",
)
"""Llama 3.1's special tokens."""

_SEED = 20_261_120
_SENTENCES = 4
_REFERENCE_WORDS = (50, 58)
_ANSWER_WORDS = (83, 94)
# With these means, the answers' F-measures are about 1% above the edge reference, the higher one.
_ROUGE1, _ROUGE2 = 0.3945, 0.163
_ROUGE1_SPREAD = 0.05
_OUT_OF_ORDER = 0.30
"""How often a sentence's last run of shared words comes first; this only lowers ROUGE-Lsum."""
_ORDERS = (((1, 2, 3, 0), 0.62), ((1, 0, 3, 2), 0.38))
"""Orders of the reference's sentences in the answer, and how often each; this lowers ROUGE-L."""


@dataclass(frozen=True, slots=True)
class MadeSample:
    """One made-up item and its prepared answer, with the space that follows the prompt."""

    item: Sample
    answer: str


def make_samples(count: int = SAMPLES) -> list[MadeSample]:
    """The first `count` made-up samples."""
    rng = random.Random(_SEED)
    return [_sample(rng) for _ in range(count)]


def _sample(rng: random.Random) -> MadeSample:
    # No word occurs twice, so an answer shares exactly what was put there with its reference.
    words = rng.sample(WORDS, 190)
    reference_length, answer_length = rng.randint(*_REFERENCE_WORDS), rng.randint(*_ANSWER_WORDS)
    total = reference_length + answer_length
    shared = round(rng.gauss(_ROUGE1, _ROUGE1_SPREAD) * total / 2)
    shared = min(max(shared, 2 * _SENTENCES), reference_length - 2 * _SENTENCES)
    runs = shared - round(_ROUGE2 / _ROUGE1 * shared * (total - 2) / total)
    reference = _split([words.pop() for _ in range(reference_length)], _SENTENCES)
    fillers = _split([words.pop() for _ in range(answer_length - shared)], _SENTENCES)
    parts = zip(
        reference, fillers, _shares(shared, _SENTENCES), _shares(runs, _SENTENCES), strict=True
    )
    sentences = [_answer_sentence(rng, *part) for part in parts]
    (order,) = rng.choices(
        [order for order, _ in _ORDERS], weights=[weight for _, weight in _ORDERS]
    )
    further = _split([words.pop() for _ in range(rng.randint(20, 50))], 3)
    article = [*reference, *further]
    rng.shuffle(article)
    return MadeSample(
        Sample(_text(article), _text(reference, "\n")),
        " " + _text([sentences[index] for index in order]),
    )


def _answer_sentence(
    rng: random.Random, sentence: Sequence[str], filler: Sequence[str], shared: int, runs: int
) -> list[str]:
    """`shared` words of a sentence in `runs` runs, with `other` words before, between and after."""
    lengths = _shares(shared, runs)
    rng.shuffle(lengths)
    gaps = [0, *[1] * (runs - 1)]
    for _ in range(len(sentence) - shared - (runs - 1)):
        # Words that no run skips stay after the last run.
        gap = rng.randint(0, runs)
        if gap < runs:
            gaps[gap] += 1
    chunks, at = [], 0
    for gap, length in zip(gaps, lengths, strict=True):
        chunks.append(list(sentence[at + gap : at + gap + length]))
        at += gap + length
    if rng.random() < _OUT_OF_ORDER:
        chunks.insert(0, chunks.pop())
    places = sorted(rng.sample(range(len(filler) + 1), runs))
    words, end = [], 0
    for place, run in zip(places, chunks, strict=True):
        words += [*filler[end:place], *run]
        end = place
    return words + list(filler[end:])


def _shares(total: int, parts: int) -> list[int]:
    """Split `total` into whole parts that are as equal as possible."""
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]


def _split(words: Sequence[str], parts: int) -> list[list[str]]:
    chunks, at = [], 0
    for length in _shares(len(words), parts):
        chunks.append(list(words[at : at + length]))
        at += length
    return chunks


def _text(sentences: Sequence[Sequence[str]], between: str = " ") -> str:
    return between.join(" ".join(words).capitalize() + "." for words in sentences)


def write_data(folder: Path, samples: Sequence[MadeSample]) -> None:
    """Write both data sets, the model folder and the prepared answers.

    The edge data are the samples that the official preparation would draw; answers.json maps each
    article to its answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    news = Samples("made up", tuple(sample.item for sample in samples))
    for benchmark in BENCHMARKS:
        assert benchmark.workload is not None
        rows = [
            {"instruction": SUMMARIZE, "input": item.input, "output": item.reference}
            for item in benchmark.workload.select(news).items
        ]
        write_json(folder / DATASETS[benchmark.id], rows)
    write_model(folder / MODEL, OFFICIAL.model_identity.shape, LLAMA3_1_8B.eos_token_ids, TOKENS)
    # Last, so that if it exists, everything does.
    write_json(folder / ANSWERS, {sample.item.input: sample.answer for sample in samples})
