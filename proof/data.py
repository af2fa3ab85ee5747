"""A data set as large as the official one, of made-up news, with a model folder and answers.

The news are words of our own at random, the same at every call. An answer shares with its
reference summary exactly as many words, pairs of words and sequences as the official references'
ROUGE asks for, a little above them, and is as long; no official file is needed or copied.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from mlperf_suite.benchmarks.llama3_1_8b import BENCHMARKS, LLAMA3_1_8B, LLAMA3_1_8B_EDGE, OFFICIAL
from mlperf_suite.benchmarks.prompts import SUMMARIZE
from mlperf_suite.datasets.samples import Sample, Samples

WORDS = tuple((Path(__file__).parent / "words.txt").read_text().split())
"""No two have the same stem, so that ROUGE tells them apart."""
SAMPLES = LLAMA3_1_8B.samples
DATASETS = {LLAMA3_1_8B.id: "cnn_eval.json", LLAMA3_1_8B_EDGE.id: "sample_cnn_eval_5000.json"}
"""File name by benchmark, as the official preparation calls them."""
MODEL, ANSWERS = "model", "answers.json"

_VOCABULARY = 128_000
"""As many ids stand before the special ones as in Llama 3.1, so that those have its own ids."""
_TRAINED_VOCABULARY = 2_000
_SPECIAL = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    *(f"<|reserved_{number}|>" for number in range(6)),
    "<|eom_id|>",
    "<|eot_id|>",
)
_BOS, _EOS = _SPECIAL[0], _SPECIAL[-1]

_SEED = 20_261_120
_SENTENCES = 4
_REFERENCE_WORDS = (50, 58)
_ANSWER_WORDS = (83, 94)
# Means by which an answer's F-measures come out about 1% above the edge reference, the higher one.
_ROUGE1, _ROUGE2 = 0.3945, 0.163
_ROUGE1_SPREAD = 0.05
_OUT_OF_ORDER = 0.30
"""How often a sentence's last run of shared words stands first: lowers ROUGE-Lsum alone."""
_ORDERS = (((1, 2, 3, 0), 0.62), ((1, 0, 3, 2), 0.38))
"""The answer's order of the reference's sentences, and how often: lowers ROUGE-L."""


@dataclass(frozen=True, slots=True)
class MadeSample:
    """One made-up item and the answer prepared for it, with the space that follows the prompt."""

    item: Sample
    answer: str


def make_samples(count: int = SAMPLES) -> list[MadeSample]:
    """The first `count` made-up samples."""
    rng = random.Random(_SEED)
    return [_sample(rng) for _ in range(count)]


def _sample(rng: random.Random) -> MadeSample:
    # No word twice: what an answer shares with its reference is what was put there.
    words = rng.sample(WORDS, 190)
    reference_length, answer_length = rng.randint(*_REFERENCE_WORDS), rng.randint(*_ANSWER_WORDS)
    both = reference_length + answer_length
    shared = round(rng.gauss(_ROUGE1, _ROUGE1_SPREAD) * both / 2)
    shared = min(max(shared, 2 * _SENTENCES), reference_length - 2 * _SENTENCES)
    runs = shared - round(_ROUGE2 / _ROUGE1 * shared * (both - 2) / both)
    reference = _split([words.pop() for _ in range(reference_length)], _SENTENCES)
    other = _split([words.pop() for _ in range(answer_length - shared)], _SENTENCES)
    parts = zip(
        reference, other, _shares(shared, _SENTENCES), _shares(runs, _SENTENCES), strict=True
    )
    answered = [_answered(rng, *part) for part in parts]
    (order,) = rng.choices(
        [order for order, _ in _ORDERS], weights=[weight for _, weight in _ORDERS]
    )
    further = _split([words.pop() for _ in range(rng.randint(20, 50))], 3)
    article = [*reference, *further]
    rng.shuffle(article)
    return MadeSample(
        Sample(_text(article), _text(reference, "\n")),
        " " + _text([answered[index] for index in order]),
    )


def _answered(
    rng: random.Random, sentence: Sequence[str], other: Sequence[str], shared: int, runs: int
) -> list[str]:
    """A sentence with `shared` words of another in `runs` runs, and between them `other` words."""
    lengths = _shares(shared, runs)
    rng.shuffle(lengths)
    gaps = [0, *[1] * (runs - 1)]
    for _ in range(len(sentence) - shared - (runs - 1)):
        # What no run skips stays behind the last one.
        gap = rng.randint(0, runs)
        if gap < runs:
            gaps[gap] += 1
    taken, at = [], 0
    for gap, length in zip(gaps, lengths, strict=True):
        taken.append(list(sentence[at + gap : at + gap + length]))
        at += gap + length
    if rng.random() < _OUT_OF_ORDER:
        taken.insert(0, taken.pop())
    places = sorted(rng.sample(range(len(other) + 1), runs))
    answered, done = [], 0
    for place, run in zip(places, taken, strict=True):
        answered += [*other[done:place], *run]
        done = place
    return answered + list(other[done:])


def _shares(total: int, parts: int) -> list[int]:
    """`total` in as equal whole parts as there can be."""
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]


def _split(words: Sequence[str], parts: int) -> list[list[str]]:
    found, at = [], 0
    for length in _shares(len(words), parts):
        found.append(list(words[at : at + length]))
        at += length
    return found


def _text(sentences: Sequence[Sequence[str]], between: str = " ") -> str:
    return between.join(" ".join(words).capitalize() + "." for words in sentences)


def write_data(folder: Path, samples: Sequence[MadeSample]) -> None:
    """Write both data sets, the model folder and the prepared answers.

    The edge data are those that the official preparation would draw; answers.json maps each
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
        _write(folder / DATASETS[benchmark.id], rows)
    write_model(folder / MODEL)
    # Last, so that where it is, all is.
    _write(folder / ANSWERS, {sample.item.input: sample.answer for sample in samples})


def write_model(folder: Path) -> None:
    """Write a model folder without weights: a tokenizer trained on the words, Llama's config."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "tokenizer.json", _trained_tokenizer())
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": _BOS,
            "eos_token": _EOS,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 131_072,
        },
    )
    ids = {"bos_token_id": _VOCABULARY, "eos_token_id": list(LLAMA3_1_8B.eos_token_ids)}
    _write(folder / "generation_config.json", ids)
    _write(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            # What the suite knows the official model by, so that its accuracy is judged.
            **OFFICIAL.shape,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131_072,
            # Without it transformers warns of a flaw in the tokenizers of older versions.
            "transformers_version": "5.0.0",
            **ids,
        },
    )


def _trained_tokenizer() -> dict[str, Any]:
    """tokenizer.json: byte-level BPE that knows our words, filled up to Llama's ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_TRAINED_VOCABULARY,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = [f" {word} {word.capitalize()} {word}." for word in WORDS]
    tokenizer.train_from_iterator([*texts, SUMMARIZE], trainer)
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    vocabulary = content["model"]["vocab"]
    vocabulary |= {f"<|unused_{i}|>": i for i in range(len(vocabulary), _VOCABULARY)}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    content["added_tokens"] = [
        {"id": _VOCABULARY + i, "content": token, "special": True, **plain}
        for i, token in enumerate(_SPECIAL)
    ]
    begin = processors.TemplateProcessing(
        single=f"{_BOS} $A", pair=f"{_BOS} $A $B", special_tokens=[(_BOS, _VOCABULARY)]
    )
    tokenizer.post_processor = begin
    content["post_processor"] = json.loads(tokenizer.to_str())["post_processor"]
    return content


def _write(path: Path, content: object) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content) + "\n")
    part.replace(path)
