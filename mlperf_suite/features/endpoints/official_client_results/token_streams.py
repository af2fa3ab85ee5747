"""What prompts of token ids say of a salt without their texts: what they have in common.

Requests of one sample end alike. Where they differ, and all differ after the same start, a salt
stands between that start, the system prompt, and the user's text (endpoints_rules.md §2.9.5.1:
"the token stream actually seen").
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, takewhile, zip_longest
from operator import eq
from statistics import median

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
_MIN_SALTS, _MIN_BITS = 1000, 32.0
"""Salts of which their variation is estimated, which is less than drawn ones of 64 bits have: how
a tokenizer cuts them makes some tokens likelier."""


@dataclass(slots=True)
class _Salts:
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
        elif len(of_samples.salts) >= _MIN_SALTS:
            bits = _varying_bits(of_samples.salts)
            if bits < _MIN_BITS:
                yield f"salts of token ids that vary in {bits:.0f} bits"

    @cached_property
    def _salts(self) -> _Salts:
        streams = sorted(row for rows in self._by_tail.values() for row in rows)
        start = _alike(streams[0], streams[-1])
        found = _Salts([], [0])
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
