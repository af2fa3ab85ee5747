"""Token ids of a model to make prompts of, which are the same tokens again when sent as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.errors import UsageError

_WORD = re.compile(r"[Ġ▁][A-Za-z]{2,}")
"""A whole word after a space, as tokenizers of bytes and of sentence pieces write it: neither joins
with its neighbours."""
_MIN_WORDS = 100


@dataclass(frozen=True, slots=True)
class WordTokens:
    """`prefix`: what the tokenizer puts in front of every text. `words`: ids of whole words.
    `vocabulary`: all ids of the tokenizer are below it."""

    prefix: tuple[int, ...]
    words: tuple[int, ...]
    vocabulary: int

    @classmethod
    def of(cls, folder: Path) -> WordTokens:
        """The tokens of the tokenizer.json in a folder. Raises UsageError."""
        from tokenizers import Tokenizer

        file = folder / "tokenizer.json"
        if not file.is_file():
            raise UsageError(
                f"--tokenizer: {folder} has no tokenizer.json, of which prompts are made"
            )
        try:
            tokenizer = Tokenizer.from_file(str(file))
        # The library raises nothing but Exception itself.
        except Exception as error:
            raise UsageError(f"--tokenizer: {file}: {error}") from error
        ids = tokenizer.get_vocab()
        words = sorted(number for text, number in ids.items() if _WORD.fullmatch(text))
        if len(words) < _MIN_WORDS:
            words = sorted(set(ids.values()) - set(tokenizer.get_added_tokens_decoder()))
        if len(words) < _MIN_WORDS:
            raise UsageError(f"--tokenizer: {file} has only {len(words)} tokens")
        return cls(tuple(tokenizer.encode("").ids[:1]), tuple(words), max(ids.values()) + 1)
