"""Converts between token ids and text, for servers that handle only text."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec


class TextCodec:
    """A model's tokenizer; `folder` holds its tokenizer.json."""

    def __init__(self, folder: str) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        # The server's own tokenizer puts this in front of every text.
        before = self._tokenizer.encode("").ids
        self._before = before[:1]
        self._end = self._end_id(Path(folder))

    def _end_id(self, folder: Path) -> int | None:
        with contextlib.suppress(OSError, msgspec.DecodeError, AttributeError):
            found = msgspec.json.decode((folder / "tokenizer_config.json").read_bytes())
            token = found.get("eos_token")
            content = token.get("content") if isinstance(token, dict) else token
            number: int | None = self._tokenizer.token_to_id(str(content))
            return number
        return None

    def prompt(self, token_ids: list[int]) -> str:
        own = token_ids[1:] if self._before and token_ids[:1] == self._before else token_ids
        text: str = self._tokenizer.decode(own, skip_special_tokens=False)
        return text

    def tokens(self, text: str) -> list[int]:
        """The tokens of the whole text; an answer that ended at once has only its end token."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids or ([] if self._end is None else [self._end])
