"""The performance run of events.jsonl in super-passes: requests by the order of their issue.

Source: endpoints_rules.md §4.4 of github.com/mlcommons/endpoints_policies, and the client's
metrics/steady_state_diagnostics.py for which text a TPOT counts. All times are in ns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from mlperf_suite.features.endpoints.official_client_results.event_lines import (
    TEXTS_AT_ONCE,
    Event,
    TokenCounts,
    answer_text,
    events_in,
)


@dataclass(slots=True)
class SuperPass:
    """Consecutive requests, each sample of the data set equally often.

    `first_ns` and `last_ns`: its first and last issue. `tpot`: of the completed requests whose
    answer goes on after its first chunk.
    """

    issued: int = 0
    first_ns: int = 0
    last_ns: int = 0
    latency: list[int] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)


@dataclass(slots=True)
class WarmupEvents:
    """The requests before the measurement, whose ends the client does not write, only errors.

    `first_ns` and `start_ns`: the first of them, and the start of the measurement.
    """

    issued: int = 0
    failed: int = 0
    first_ns: int = 0
    start_ns: int = 0

    @property
    def duration_s(self) -> float:
        return (self.start_ns - self.first_ns) / 1e9 if self.issued else 0.0


def super_pass_size(samples: int, concurrency: int) -> int:
    """Requests of a super-pass: whole passes over the data set, at least as many requests as are
    under way (§4.4)."""
    return math.ceil(concurrency / samples) * samples


class _Reader:
    """Takes events in the order of the file."""

    def __init__(self, size: int, count_tokens: TokenCounts | None) -> None:
        self.passes: list[SuperPass] = []
        self.warmup = WarmupEvents()
        self._size, self._count_tokens = size, count_tokens
        self._tracking = self._started = False
        self._number = 0
        self._open: dict[str, tuple[SuperPass, int, int | None]] = {}
        self._before: set[str] = set()
        self._texts: list[tuple[SuperPass, int, str]] = []

    def take(self, event: Event) -> None:
        kind, uuid, now = event.event_type, event.sample_uuid, event.timestamp_ns
        if kind == "session.start_performance_tracking":
            if not self._started:
                self.warmup.start_ns = now
            self._tracking = self._started = True
        elif kind == "session.stop_performance_tracking":
            self._tracking = False
        elif kind == "sample.issued" and self._tracking:
            self._issue(uuid, now)
        elif uuid in self._open:
            self._answer(event)
        elif not self._started or uuid in self._before:
            self._on_warmup(kind, uuid, now)

    def _issue(self, uuid: str, now: int) -> None:
        if self._number % self._size == 0:
            self.passes.append(SuperPass(first_ns=now))
        self._number += 1
        of_request = self.passes[-1]
        of_request.issued += 1
        of_request.last_ns = now
        self._open[uuid] = of_request, now, None

    def _answer(self, event: Event) -> None:
        of_request, issued_ns, first_ns = self._open[event.sample_uuid]
        if event.event_type == "sample.recv_first" and first_ns is None:
            self._open[event.sample_uuid] = of_request, issued_ns, event.timestamp_ns
        elif event.event_type == "sample.complete":
            del self._open[event.sample_uuid]
            of_request.latency.append(event.timestamp_ns - issued_ns)
            if first_ns is not None and self._count_tokens is not None:
                text = answer_text(event.data).later
                self._texts.append((of_request, event.timestamp_ns - first_ns, text))
                if len(self._texts) >= TEXTS_AT_ONCE:
                    self.count()

    def _on_warmup(self, kind: str, uuid: str, now: int) -> None:
        warmup = self.warmup
        if kind == "sample.issued" and uuid:
            warmup.first_ns = warmup.first_ns if warmup.issued else now
            warmup.issued += 1
            self._before.add(uuid)
        elif kind.startswith("error.") and uuid in self._before:
            self._before.discard(uuid)
            warmup.failed += 1

    def count(self) -> None:
        """Count the tokens of the texts that wait for it."""
        waiting = [row for row in self._texts if row[2]]
        self._texts.clear()
        if not waiting or self._count_tokens is None:
            return
        counts = self._count_tokens([text for _, _, text in waiting])
        for (of_request, time_ns, _), tokens in zip(waiting, counts, strict=True):
            if tokens > 0:
                of_request.tpot.append(time_ns / tokens)


def read_super_passes(
    path: Path, size: int, count_tokens: TokenCounts | None = None
) -> tuple[list[SuperPass], WarmupEvents]:
    """The super-passes of `size` requests and the warm-up in events.jsonl; the last may be shorter.

    Without `count_tokens` no pass has a TPOT. Raises ValueError with one line for another line than
    an event, OSError for what cannot be read.
    """
    reader = _Reader(size, count_tokens)
    for event in events_in(path):
        reader.take(event)
    reader.count()
    return reader.passes, reader.warmup
