"""The state of each place, a replica or a server: the outstanding work, from which the place
for the next request is chosen, and the answers. Pure."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from typing import Literal, get_args

from mlperf_suite.benchmarks.request_times import percentile

ReplicaRouting = Literal["tokens", "round-robin"]
REPLICA_ROUTINGS: tuple[ReplicaRouting, ...] = get_args(ReplicaRouting)
"""tokens: the replica that would finish its outstanding tokens first, at its own speed."""
EndpointRouting = Literal["fewest-tokens", "round-robin"]
ENDPOINT_ROUTINGS: tuple[EndpointRouting, ...] = get_args(EndpointRouting)
"""fewest-tokens: the endpoint with the fewest outstanding prompt and expected answer tokens."""


class Router:
    """Tracks the outstanding work of each place.

    `batches`: the requests that each place works on at once. With `spare`, it gets a quarter more,
    so that the next request waits there when one ends; the rest stays with the driver, which knows
    better where to send it. `speeds`: of each, in any common unit; all alike by default.
    """

    def __init__(
        self,
        batches: Sequence[int],
        routing: ReplicaRouting | EndpointRouting = "tokens",
        speeds: Sequence[float] | None = None,
        *,
        spare: bool = True,
    ) -> None:
        self._batches = list(batches)
        self._spares = [max(_MIN_SPARE_REQUESTS, batch // 4) if spare else 0 for batch in batches]
        self._spare = sum(self._spares)
        self._routing = routing
        self._turn = 0
        self.requests = [0] * len(self._batches)
        """The outstanding requests of each place; `tokens` likewise."""
        self.tokens = [0] * len(self._batches)
        self._sizing = [1.0] * len(self._batches)
        self._alike = True
        self._order = _Order(self)
        if speeds is not None:
            self.weigh(speeds)

    def weigh(self, speeds: Sequence[float]) -> None:
        """Use these speeds, one above 0 for each place, from now on."""
        fastest = max(speeds)
        self._sizing = [fastest / speed for speed in speeds]
        self._alike = min(speeds) == fastest

    def take(self, tokens: int, queue_length: int = 1) -> int | None:
        """Choose the place for the next request; None if none has room.

        `tokens`: the request's weight, its prompt tokens and those expected of its answer.
        `queue_length`: the number of requests still to be handed out, including this one. If
        they are few, no request queues at one place while another is idle.
        """
        spared = queue_length > self._spare
        if self._routing == "round-robin":
            place = self._next_in_turn(spared=spared)
        elif self._alike:
            place = self._order.least(spared=spared)
        else:
            place = self._soonest(tokens, spared=spared)
        if place is not None:
            self._turn = place + 1
            self.give(place, tokens)
        return place

    def give(self, place: int, tokens: int) -> None:
        """Count a request given to this place, whether it has room or not."""
        self.requests[place] += 1
        self.tokens[place] += tokens
        self._order.note_request(place)

    def has_room(self, place: int, *, spared: bool) -> bool:
        """Whether this place can work on one more; `spared`: or one may wait there."""
        room = self._batches[place] + (self._spares[place] if spared else 0)
        return self.requests[place] < room

    def _next_in_turn(self, *, spared: bool) -> int | None:
        count = len(self._batches)
        for step in range(count):
            place = (self._turn + step) % count
            if self.has_room(place, spared=spared):
                return place
        return None

    def _soonest(self, tokens: int, *, spared: bool) -> int | None:
        # If places differ, check each: which would finish first also depends on the request. A
        # loop, since a generator and a key function take 1.5 times as long.
        soonest, least = None, 0.0
        count = len(self._batches)
        # Take turns among equals, so that an idle system does not always begin with the same one.
        for step in range(count):
            place = (self._turn + step) % count
            if not self.has_room(place, spared=spared):
                continue
            work = (self.tokens[place] + tokens) * self._sizing[place]
            if soonest is None or work < least:
                soonest, least = place, work
        return soonest

    def give_back(self, place: int, tokens: int) -> None:
        """Count the end of a request."""
        self.requests[place] -= 1
        self.tokens[place] -= tokens
        self._order.note_change(place)

    def clear(self) -> None:
        """Forget all outstanding requests."""
        self.requests = [0] * len(self._batches)
        self.tokens = [0] * len(self._batches)
        self._order = _Order(self)


class _Order:
    """The places of a router that have room, ordered by outstanding tokens, in heaps.

    With hundreds of places, checking each would take longer than all other work for a request.
    Each change pushes an entry (tokens, when last given, place), which is valid until the place is
    given another request. Requests that end only reduce the tokens, so the newest entry comes
    first. Among equals, the place that was given a request longest ago comes first.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._turn = 0
        self._last_turns = [0] * len(router.requests)
        self._working: list[tuple[int, int, int]] = []
        self._sparing: list[tuple[int, int, int]] = []
        """Places that can work on one more, and places where one more would wait."""
        for place in range(len(self._last_turns)):
            self.note_change(place)

    def note_request(self, place: int) -> None:
        """Note that the place was given a request."""
        self._turn += 1
        self._last_turns[place] = self._turn
        self.note_change(place)

    def note_change(self, place: int) -> None:
        """Note that the place's outstanding work changed."""
        heap = self._heap(place)
        if heap is None:
            return
        heapq.heappush(heap, self._newest(place))
        if len(heap) > _STALE * len(self._last_turns) + _STALE:
            # Of what ended since a place was given something, each left an entry that is true.
            heap[:] = [
                self._newest(p) for p in range(len(self._last_turns)) if self._heap(p) is heap
            ]
            heapq.heapify(heap)

    def least(self, *, spared: bool) -> int | None:
        """The place with the fewest outstanding tokens, None if none has room."""
        heaps = [self._working, self._sparing] if spared else [self._working]
        tops = [heap[0] for heap in heaps if self._clean(heap)]
        return min(tops)[2] if tops else None

    def _clean(self, heap: list[tuple[int, int, int]]) -> bool:
        """Drop invalid entries from the top; returns whether any entry is left."""
        while heap and heap[0][1] != self._last_turns[heap[0][2]]:
            heapq.heappop(heap)
        return bool(heap)

    def _newest(self, place: int) -> tuple[int, int, int]:
        return self._router.tokens[place], self._last_turns[place], place

    def _heap(self, place: int) -> list[tuple[int, int, int]] | None:
        if self._router.has_room(place, spared=False):
            return self._working
        return self._sparing if self._router.has_room(place, spared=True) else None


UNKNOWN_BATCH = 1024
"""Used for an engine that names no limit: about the size of the largest batches."""
_MIN_SPARE_REQUESTS = 4
_STALE = 8
"""Entries per place, of which only the newest matters, beyond which a heap is rebuilt."""


class AnswerAccount:
    """Answers of one place; times in s of time.monotonic, 8 bytes each."""

    def __init__(self) -> None:
        self._ttft = array("d")
        self._latency = array("d")
        self._last = 0.0
        self.tokens = 0
        """The tokens of the answers."""

    def _add(self, submitted: float, first: float | None, last: float, tokens: int) -> None:
        """Count an answer. `first`: when its first token came, None if it was not streamed."""
        self._latency.append(last - submitted)
        if last > self._last:  # noqa: PLR1730 - max() would cost a call for each answer
            self._last = last
        self.tokens += tokens
        if first is not None:
            self._ttft.append(first - submitted)

    def _ended_s(self, began: float) -> float | None:
        """When the last answer came, in s since `began`; None if none did."""
        return round(self._last - began, 3) if self._latency else None


def percentiles_ms(seconds: Sequence[float], *percents: int) -> dict[str, float]:
    """These percentiles in ms, by names such as p99; empty without values."""
    values = sorted(seconds)
    if not values:
        return {}
    return {f"p{p}": round(percentile(values, p / 100) * 1000, 3) for p in percents}
