"""What the prompts in events.jsonl say of a salt: a text of its own in each request.

MLPerf Endpoints asks for one of at least 64 bits between the system prompt and the user's text
where a server reuses its KV cache between requests (endpoints_rules.md §2.9.5.1). The form is the
client's: "[<hex>] " before the prompt, "[salt: <hex>]" in messages. Prompts of token ids are read
as text where the model's tokenizer is at hand, else by what the streams have in common.

A replay of conversations has two salts in the system prompt instead, one of the pass before it and
one of the conversation behind it (agentic_inference_strategy.py of the client).
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, takewhile, zip_longest
from operator import eq
from statistics import median
from typing import Any

from msgspec import DecodeError, Raw, json

Decoding = Callable[[Sequence[int]], str]
"""From token ids to their text."""
MIN_SALT_BITS = 64
_SALT = re.compile(r"\[(?:salt: ?([0-9a-fA-F]{1,256})|(?![0-9]{8,15}\])([0-9a-fA-F]{8,256}))\]")
"""A decimal number in brackets is one of the data set, as in the examples of a program's input; it
may be a salt of 64 bits, which has 16 digits."""
_OF_TURNS = re.compile(r"\[salt: ([0-9a-f]{4})\]\n\n.*\n\n\[salt: ([0-9a-f]{4})\]", re.DOTALL)
_DIFFERENT = 0.9
"""Of the conversations, which have a pair of salts of their own: two of 16 bits may be the same."""
_MAX_PROMPTS = 2**22
"""Different prompts that are distinguished, more than any data set has."""
_MIN_SALTS, _MAX_SALTS = 100, 4096
"""Salts from which their variation is estimated."""
_SHARE = 0.9
"""Of the bits, which drawn salts vary in: the estimate is a little low, the more so of few."""


# Prompts of token ids without their texts: what they have in common
#
# Requests of one sample end alike. Where they differ, and all differ after the same start, a salt
# stands between that start, the system prompt, and the user's text (endpoints_rules.md §2.9.5.1:
# "the token stream actually seen").

_TAIL = 32
"""Tokens by whose sameness two requests may be of one sample."""
_MAX_SALT_TOKENS = 80
"""Tokens that requests of one sample differ by at most: a salt of 256 bits by its digits. Others
are of two samples that end alike, as problems of programs do."""
_MAX_KEPT_TOKENS = 2**22
"""Token ids that are kept: of whole samples, fewer and fewer of them."""
_CHANCE = 16
"""Tokens that two salts may begin with alike: half of a million drawn ones share no ten digits."""
_MIN_SALT_TOKENS = 4
"""Of a salt of 64 bits, if a token has at most 18."""
_MIN_STREAM_SALTS, _MIN_STREAM_BITS = 1000, 32.0
"""Salts of which their variation is estimated, which is less than drawn ones of 64 bits have: how
a tokenizer cuts them makes some tokens likelier."""


@dataclass(slots=True)
class _StreamSalts:
    """Between what all prompts, and what those of a sample, have in common. `extra`: tokens that
    two prompts of a sample begin with alike beyond all."""

    salts: list[Sequence[int]]
    extra: list[int]


@dataclass
class TokenStreams:
    """Prompts of token ids, counted. `repeated`: those that an earlier request had."""

    count: int = 0
    repeated: int = 0
    _seen: set[int] = field(default_factory=set)
    _by_tail: dict[int, list[array[int]]] = field(default_factory=lambda: defaultdict(list))
    _kept: int = 0
    _share: int = 1

    def add(self, token_ids: Sequence[int]) -> None:
        """Count one prompt; each id is at least 0 and less than 2**31."""
        stream = array("i", token_ids)
        self.count += 1
        whole = hash(stream.tobytes())
        self.repeated += whole in self._seen
        self._seen.add(whole)
        tail = hash(stream[-_TAIL:].tobytes())
        if tail % self._share == 0:
            self._by_tail[tail].append(stream)
            self._kept += len(stream)
        while self._kept > _MAX_KEPT_TOKENS and len(self._by_tail) > 1:
            self._keep_fewer()

    def _keep_fewer(self) -> None:
        self._share *= 2
        self._by_tail = defaultdict(
            list, {t: rows for t, rows in self._by_tail.items() if t % self._share == 0}
        )
        self._kept = sum(len(row) for rows in self._by_tail.values() for row in rows)

    @property
    def is_salted(self) -> bool | None:
        """Whether prompts of one sample differ; None if no two of a sample were sent."""
        sent_twice = False
        for rows in self._by_tail.values():
            # Those of a sample are neighbours, by their ends or, with a salt there, their starts.
            for ordered in (sorted(rows, key=lambda row: row[::-1]), sorted(rows)):
                for one, other in pairwise(ordered):
                    if one == other:
                        sent_twice = True
                    elif _are_of_one_sample(one, other):
                        return True
        return False if sent_twice else None

    @property
    def faults(self) -> Iterator[str]:
        """What is wrong with the salts, where there are any."""
        if not self.is_salted:
            return
        if self.repeated:
            yield f"{self.repeated:,} prompts of token ids sent before"
        of_samples = self._salts
        if max(of_samples.extra) > _CHANCE:
            yield f"salts behind {max(of_samples.extra):,} tokens of the user's text"
        elif (size := median(map(len, of_samples.salts))) < _MIN_SALT_TOKENS:
            yield f"salts of {size:g} tokens"
        elif len(of_samples.salts) >= _MIN_STREAM_SALTS:
            bits = _varying_bits(of_samples.salts)
            if bits < _MIN_STREAM_BITS:
                yield f"salts of token ids that vary in {bits:.0f} bits"

    @cached_property
    def _salts(self) -> _StreamSalts:
        streams = sorted(row for rows in self._by_tail.values() for row in rows)
        start = _alike(streams[0], streams[-1])
        found = _StreamSalts([], [0])
        for rows in self._by_tail.values():
            ordered = sorted({row.tobytes(): row for row in rows}.values())
            if len(ordered) < 2:
                continue
            found.extra += [_alike(*pair) - start for pair in pairwise(ordered)]
            mirrored = sorted(row[::-1] for row in ordered)
            end = _alike(mirrored[0], mirrored[-1])
            found.salts += [row[start : len(row) - end] for row in ordered]
        return found


def _are_of_one_sample(one: array[int], other: array[int]) -> bool:
    alike = _alike(one, other) + _alike(one[::-1], other[::-1])
    return max(len(one), len(other)) - alike <= _MAX_SALT_TOKENS


def _alike(first: Sequence[int], second: Sequence[int]) -> int:
    """With how many of the same tokens two streams begin."""
    return sum(takewhile(bool, map(eq, first, second)))


def _varying_bits(salts: Sequence[Sequence[int]]) -> float:
    """The entropy of salts, token by token, by how often two have the same (Renyi's, of order 2).

    A token that no two have alike has as many bits as their pairs can show.
    """
    pairs = len(salts) * (len(salts) - 1)
    columns = (Counter(column).values() for column in zip_longest(*salts, fillvalue=-1))
    alike = (sum(n * (n - 1) for n in counts) for counts in columns)
    return sum(math.log2(pairs / max(count, 1)) for count in alike)


# What requests sent


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """What one request sent: token ids, else a text, else messages. `text`, `chat`: untrusted
    values; `chat`: messages, tools, arguments of the template, a template of its own, and which
    tool to call, each None if there is none; without messages it is empty."""

    text: Any
    token_ids: Sequence[int] | None
    chat: Sequence[Any]


@dataclass(slots=True)
class SentPrompts:
    """The prompts of requests, counted. `readable`: those that are a text or messages, or token ids
    that `decode` makes a text of; `streams`: the other token ids.

    `misplaced`: those whose salt has the user's text before it, or the system prompt behind it.
    `least_bits`: of the shortest salt. `repeated`: salts that an earlier request had.
    `of_turns`: those with the two salts of a conversation; `changed`: those with others than the
    conversation had before.
    """

    decode: Decoding | None = None
    readable: int = 0
    streams: TokenStreams = field(default_factory=TokenStreams)
    of_turns: int = 0
    changed: int = 0
    salted: int = 0
    misplaced: int = 0
    repeated: int = 0
    least_bits: int = 0
    _salts: set[str] = field(default_factory=set)
    _some: list[str] = field(default_factory=list)
    _before: set[int] = field(default_factory=set)
    _different: set[int] = field(default_factory=set)
    _conversations: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.readable + self.streams.count

    @property
    def is_salted(self) -> bool | None:
        """Whether any request has a salt; None if token ids do not show it."""
        return True if self.salted else self.streams.is_salted if self.streams.count else False

    @property
    def different(self) -> int:
        """How many different prompts there are, up to a number that no data set has."""
        return len(self._different)

    def repeats_of(self, earlier: SentPrompts) -> int:
        """How many of the different prompts were among these."""
        return len(self._different & earlier._different)

    def add(self, data: Raw, conversation: str = "") -> SentPrompt:
        """Count the prompt of one request, the data of its event; returns the prompt."""
        parts = _parts(data)
        texts, token_ids = _texts(parts), _token_ids(parts)
        prompt = SentPrompt(parts[0], token_ids, parts[2:] if parts[2] else ())
        if token_ids is not None:
            text = self._decoded(token_ids)
            texts = None if text is None else ("", text)
            if texts is None:
                self.streams.add(token_ids)
        if texts is not None:
            self._add_texts(*texts, conversation)
        elif token_ids is None:
            return prompt
        if len(self._different) < _MAX_PROMPTS:
            self._different.add(hash(bytes(data)))
        return prompt

    def _decoded(self, token_ids: Sequence[int]) -> str | None:
        try:
            return self.decode(token_ids) if self.decode is not None else None
        # OverflowError: an id that the library cannot take.
        except (OverflowError, TypeError, ValueError):
            return None

    def _add_texts(self, system: str, user: str, conversation: str) -> None:
        self.readable += 1
        if (salts := _OF_TURNS.fullmatch(system)) is not None:
            self.of_turns += 1
            pair = salts[1], salts[2]
            self.changed += self._conversations.setdefault(conversation, pair) != pair
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
        if len(self._some) < _MAX_SALTS:
            self._some.append(salt)

    @property
    def varying_bits(self) -> float:
        """The entropy of the salts, digit by digit, as estimated from some of them."""
        columns = zip(*(salt.lower() for salt in self._some), strict=False)
        return sum(_entropy(column) for column in columns)

    @property
    def faults_of_turns(self) -> Iterator[str]:
        """What is wrong with the salts of conversations, which each request must have."""
        if self.of_turns < self.count:
            yield f"{self.of_turns:,} of {self.count:,} requests with the salts of a conversation"
        if self.changed:
            yield f"{self.changed:,} requests with other salts than their conversation"
        pairs, conversations = set(self._conversations.values()), len(self._conversations)
        if len(pairs) < _DIFFERENT * conversations:
            yield f"{len(pairs):,} pairs of salts in {conversations:,} conversations"

    @property
    def faults(self) -> Iterator[str]:
        """What is wrong with the salts, where there are any."""
        yield from self.streams.faults
        if 0 < self.salted < self.readable:
            yield f"{self.salted:,} of {self.readable:,} requests with a salt"
        if 0 < self.least_bits < MIN_SALT_BITS:
            yield f"a salt of {self.least_bits} bits"
        if self.repeated:
            yield f"{self.repeated:,} salts sent before"
        if self.misplaced:
            yield f"{self.misplaced:,} salts not between system prompt and user's text"
        drawn = len(self._some) < _MIN_SALTS or self.varying_bits >= _SHARE * MIN_SALT_BITS
        if self.least_bits >= MIN_SALT_BITS and not drawn:
            yield f"salts that vary in {self.varying_bits:.0f} bits"


def _entropy(values: tuple[str, ...]) -> float:
    counts = Counter(values).values()
    total = sum(counts)
    return -sum(count / total * math.log2(count / total) for count in counts)


def _parts(data: Raw) -> list[Any]:
    """Text, token ids, messages and their companions, each None if a prompt has none.

    The client writes its name before them, and leaves out the last ones if they are empty.
    """
    try:
        parts: Any = json.decode(data)
    except (DecodeError, ValueError, RecursionError):
        parts = None
    return [*(parts[1:8] if isinstance(parts, list) else []), *[None] * 7][:7]


def _token_ids(parts: list[Any]) -> list[int] | None:
    """Those that were sent, which count before a text."""
    ids = parts[1]
    if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < 2**31 for i in ids):
        return None
    return ids


def _texts(parts: list[Any]) -> tuple[str, str] | None:
    """The system's and the user's text of a prompt; None if it has neither."""
    text, _, messages, *_ = parts
    if isinstance(text, str):
        return "", text
    return _system_and_first(messages) if isinstance(messages, list) else None


def _system_and_first(messages: list[Any]) -> tuple[str, str] | None:
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
