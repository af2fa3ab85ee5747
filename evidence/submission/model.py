"""Writes a model folder without tensors: a tokenizer for the made-up words, an official config."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from mlperf_suite.benchmarks.prompts import SUMMARIZE

WORDS = tuple((Path(__file__).parent / "words.txt").read_text().split())
"""The words of made-up data. No two have the same stem, so that ROUGE distinguishes them."""
FILLER = "="
"""One token in each of these tokenizers, but not a word: filler for unscored reasoning."""
_TRAINED_VOCABULARY = 2_000
_CONTEXT = 131_072
_NO_WEIGHTS = b"\2\0\0\0\0\0\0\0{}"
"""A whole safetensors file without tensors: a session refuses a folder without weights."""


@dataclass(frozen=True, slots=True)
class ModelTokens:
    """The special tokens of a model with their ids.

    `begin`: the token before every text, empty for none. `end`: the EOS that ends a prepared
    answer. `vocabulary`: its size, if config.json does not have it at its top.
    """

    special: Mapping[str, int]
    end: str
    begin: str = ""
    chat_template: str = ""
    vocabulary: int = 0


def write_model(
    folder: Path, shape: Mapping[str, object], eos: Sequence[int], tokens: ModelTokens
) -> None:
    """Write the folder. `shape`: the entries of config.json that identify the model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(_NO_WEIGHTS)
    size = shape.get("vocab_size", tokens.vocabulary)
    assert isinstance(size, int)
    write_json(folder / "tokenizer.json", _trained_tokenizer(size, tokens))
    content: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": tokens.end,
        "clean_up_tokenization_spaces": False,
        "model_max_length": _CONTEXT,
    }
    if tokens.begin:
        content["bos_token"] = tokens.begin
    if tokens.chat_template:
        content["chat_template"] = tokens.chat_template
    write_json(folder / "tokenizer_config.json", content)
    ids: dict[str, object] = {"eos_token_id": list(eos)}
    if tokens.begin:
        ids["bos_token_id"] = tokens.special[tokens.begin]
    write_json(folder / "generation_config.json", ids)
    write_json(
        folder / "config.json",
        {
            # These identify the official model, so that its accuracy is judged.
            **shape,
            "num_key_value_heads": 8,
            "max_position_embeddings": _CONTEXT,
            # Without this, transformers warns about a flaw in the tokenizers of older versions.
            "transformers_version": "5.0.0",
            **ids,
        },
    )


def _trained_tokenizer(size: int, tokens: ModelTokens) -> dict[str, Any]:
    """tokenizer.json: byte-level BPE trained on the words, filled up to the model's vocabulary."""
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
    special = dict(tokens.special)
    numbers = set(special.values())
    free = (i for i in range(size) if i not in numbers)
    trained = sorted(content["model"]["vocab"], key=content["model"]["vocab"].__getitem__)
    vocabulary = {token: next(free) for token in trained}
    vocabulary |= {f"<|unused_{i}|>": i for i in free}
    content["model"]["vocab"] = vocabulary | special
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    content["added_tokens"] = [
        {"id": number, "content": token, "special": True, **plain}
        for token, number in sorted(special.items(), key=lambda item: item[1])
    ]
    if tokens.begin:
        begin = [(tokens.begin, special[tokens.begin])]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{tokens.begin} $A", pair=f"{tokens.begin} $A $B", special_tokens=begin
        )
        content["post_processor"] = json.loads(tokenizer.to_str())["post_processor"]
    return content


def write_json(path: Path, content: object) -> None:
    """Write a JSON file completely or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content) + "\n")
    part.replace(path)
