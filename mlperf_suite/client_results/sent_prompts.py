"""What the prompts in events.jsonl say of a salt: a text of its own in each request.

MLPerf Endpoints asks for one of at least 64 bits between the system prompt and the user's text
where a server reuses its KV cache between requests (endpoints_rules.md §2.9.5.1). The form is the
client's: "[<hex>] " before the prompt, "[salt: <hex>]" in messages.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import DecodeError, Raw, json

LEAST_BITS = 64
_SALT = re.compile(r"\[(?:salt: ?([0-9a-fA-F]{1,256})|([0-9a-fA-F]{8,256}))\]")
_FEWEST, _MOST = 100, 4096
"""Salts from which their variation is estimated."""
_SHARE = 0.9
"""Of the bits, which drawn salts vary in: the estimate is a little low, the more so of few."""


@dataclass(slots=True)
class SentPrompts:
    """The prompts of requests, counted. `readable`: those that are a text or messages.

    `misplaced`: those whose salt has the user's text before it, or the system prompt behind it.
    `least_bits`: of the shortest salt. `repeated`: salts that an earlier request had.
    """

    readable: int = 0
    salted: int = 0
    misplaced: int = 0
    repeated: int = 0
    least_bits: int = 0
    _salts: set[str] = field(default_factory=set)
    _some: list[str] = field(default_factory=list)
    _before: set[int] = field(default_factory=set)

    def add(self, data: Raw) -> None:
        """Count the prompt of one request, the data of its event."""
        if (texts := _texts(data)) is None:
            return
        self.readable += 1
        system, user = texts
        text = system + user
        if (match := _SALT.search(text)) is None:
            return
        salt, rest_of_system = match[1] or match[2], system[match.end() :]
        self.salted += 1
        # One text before all salts is the system prompt; others have the user's text in them.
        self._before.add(hash(text[: match.start()]))
        self.misplaced += len(self._before) > 1 or bool(rest_of_system.strip())
        self.repeated += salt in self._salts
        self._salts.add(salt)
        self.least_bits = min(self.least_bits or 4 * len(salt), 4 * len(salt))
        if len(self._some) < _MOST:
            self._some.append(salt)

    @property
    def varying_bits(self) -> float:
        """The entropy of the salts, digit by digit, as estimated from some of them."""
        columns = zip(*(salt.lower() for salt in self._some), strict=False)
        return sum(_entropy(column) for column in columns)

    @property
    def faults(self) -> Iterator[str]:
        """What is wrong with the salts, where there are any."""
        if 0 < self.salted < self.readable:
            yield f"{self.salted:,} of {self.readable:,} requests with a salt"
        if 0 < self.least_bits < LEAST_BITS:
            yield f"a salt of {self.least_bits} bits"
        if self.repeated:
            yield f"{self.repeated:,} salts sent before"
        if self.misplaced:
            yield f"{self.misplaced:,} salts not between system prompt and user's text"
        drawn = len(self._some) < _FEWEST or self.varying_bits >= _SHARE * LEAST_BITS
        if self.least_bits >= LEAST_BITS and not drawn:
            yield f"salts that vary in {self.varying_bits:.0f} bits"


def _entropy(values: tuple[str, ...]) -> float:
    counts = Counter(values).values()
    total = sum(counts)
    return -sum(count / total * math.log2(count / total) for count in counts)


def _texts(data: Raw) -> tuple[str, str] | None:
    """The system's and the user's text of a prompt; None if it has neither.

    The client writes [name, text, token ids, messages, ...], the last ones left out if empty.
    """
    try:
        parts: Any = json.decode(data)
    except (DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(parts, list):
        return None
    text, _, messages = (*parts[1:4], None, None, None)[:3]
    if isinstance(text, str):
        return "", text
    return _of_messages(messages) if isinstance(messages, list) else None


def _of_messages(messages: list[Any]) -> tuple[str, str] | None:
    """The texts of the system's messages, and the first text after them."""
    system: list[str] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            return None
        if message.get("role") != "system":
            return "".join(system), content
        system.append(content)
    return None
