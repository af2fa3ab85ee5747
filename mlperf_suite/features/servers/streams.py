"""How the answers of a run arrived: as they were made, held back, or from memory."""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter

from mlperf_suite.benchmarks.request_times import percentile
from mlperf_suite.engines.messages import ServerAnswer
from mlperf_suite.engines.protocol import SHORT, StreamFigures
from mlperf_suite.engines.routing import percentiles_ms

MIN_TPOT_S = 1e-4
"""No model makes the tokens of one answer faster, in s: what comes at more than 10,000 tokens/s was
made before. The fastest public service of a small model has about a quarter of that."""
MEMORY_SHARE = 0.1
"""A repeated answer that took less than this share of the first one's time may be from memory."""
_TOKEN_BYTES = 4
_NEAR = 8
"""How many answers before it a sample's first one may be, for a repeated one to be compared."""


class Arrivals:
    """Of one answer, how much came at a time: in tokens, or in characters where it is text.
    `first`: how much came with the first token."""

    __slots__ = ("_at", "_began", "_size", "first", "parts")

    def __init__(self) -> None:
        self.parts: list[int] = []
        self.first = self._size = 0
        self._began = self._at = 0.0

    def came(self, size: int, pieces: int, arrived: float) -> None:
        """Note that so much of it is there now, of at least so many tokens. What arrives together
        is one part, however many events it is."""
        new = size - self._size
        if new <= 0:
            return
        self._size = size
        if arrived == self._at:
            self.parts[-1] += new
        else:
            self.parts.append(new)
            self._began, self._at = self._began or arrived, arrived
        if arrived - self._began <= (pieces - 1) * MIN_TPOT_S:
            self.first = size

    def in_tokens(self, tokens: int) -> list[int]:
        """The parts of an answer of so many tokens, by their share of it."""
        return [max(1, round(tokens * part / self._size)) for part in self.parts]


class StreamAccount:
    """The streamed answers of a run; times in s, 8 bytes each."""

    def __init__(self) -> None:
        self.events: Counter[int] = Counter()
        """How often so many tokens came at a time."""
        self._first = array("i")
        self._tpot, self._later = array("d"), array("d")
        self._at_once = 0
        self._repeats = RepeatAccount()

    def add(self, answer: ServerAnswer, sample: int | None) -> None:
        """Count an answer to this sample, None if that is not known.

        LoadGen's TPOT is the time after the first token, divided by all others: if some of those
        came with the first, their time is missing. The time divided by the tokens that came later
        has none missing; of an answer that came at once it is not known, and counts as infinite.
        """
        tokens = len(answer.tokens) // _TOKEN_BYTES
        at_once = self.count(tokens, answer.first_tokens, answer.arrived - answer.first)
        if sample is not None:
            self._repeats.add(answer, sample, at_once=at_once)

    def count(self, tokens: int, first: int, spent_s: float) -> bool:
        """The same of an answer of so many tokens, `first` of them in its first event, that ended
        `spent_s` after it; whether it came at once."""
        at_once = first >= tokens > SHORT
        tpot_s = spent_s / max(1, tokens - 1)
        self._first.append(first)
        self._at_once += at_once
        self._tpot.append(tpot_s)
        later_s = spent_s / (tokens - first) if first < tokens else tpot_s
        self._later.append(math.inf if at_once else later_s)
        return at_once

    def figures(self) -> StreamFigures | None:
        """None if no answer was streamed."""
        if not self._first:
            return None
        first = sorted(self._first)
        later_ms = percentiles_ms(self._later, 50, 99)
        repeats = self._repeats
        return StreamFigures(
            len(first),
            {name: int(percentile(first, share)) for name, share in (("p50", 0.5), ("p99", 0.99))},
            _percentiles(self.events),
            self._at_once,
            percentiles_ms(self._tpot, 50, 99),
            {name: ms for name, ms in later_ms.items() if ms < math.inf},
            repeats.count,
            repeats.from_memory,
            repeats.ttft_ratio(),
        )


class RepeatAccount:
    """A sample's first answer, and its later ones. `from_memory`: those that came at once, are the
    same tokens, and took less than `MEMORY_SHARE` of the first one's time."""

    def __init__(self) -> None:
        self.count = self.from_memory = 0
        self._seen: dict[int, tuple[float, int]] = {}
        self._answers = self._first_at = 0
        self._first_ttft_s = 0.0
        self._ratios = array("d")

    def add(self, answer: ServerAnswer, sample: int, *, at_once: bool) -> None:
        latency_s, ttft_s = answer.arrived - answer.sent, answer.first - answer.sent
        digest = hash(answer.tokens)
        self._answers += 1
        if sample not in self._seen:
            self._seen[sample] = latency_s, digest
            self._first_at, self._first_ttft_s = self._answers, ttft_s
            return
        first_s, first_digest = self._seen[sample]
        self.count += 1
        is_quick = latency_s < MEMORY_SHARE * first_s
        self.from_memory += at_once and is_quick and digest == first_digest
        # Only with one of nearly the same moment, when the server had as much to do.
        if self._answers - self._first_at <= _NEAR and self._first_ttft_s > 0:
            self._ratios.append(ttft_s / self._first_ttft_s)

    def ttft_ratio(self) -> tuple[float, int] | None:
        """The median TTFT of a repeated sample, as a share of that of a new one nearby, and the
        number of pairs; None without one."""
        if not self._ratios:
            return None
        return round(percentile(sorted(self._ratios), 0.5), 4), len(self._ratios)


def _percentiles(counts: Counter[int]) -> dict[str, int]:
    """The median and the 99th percentile of values that came so often each."""
    total = counts.total()
    return {
        name: _value_at(counts, int(total * share))
        for name, share in (("p50", 0.5), ("p99", 0.99))
        if total
    }


def _value_at(counts: Counter[int], place: int) -> int:
    """The value at this place of the sorted ones."""
    values = sorted(counts)
    totals = itertools.accumulate(counts[value] for value in values)
    return next(value for value, total in zip(values, totals, strict=True) if total > place)
