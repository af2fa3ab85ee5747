"""Which replica the next request goes to. Pure: it knows what is outstanding, and nothing else."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Literal, get_args

Routing = Literal["tokens", "round-robin"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)
"""tokens: the replica that would be done with its outstanding tokens first, by its own speed."""


class Router:
    """Keeps what each replica has to do.

    `batches`: of each, the requests that its engine works on at once; it is given a quarter more,
    so that what ends is followed by what waits there already, while the rest stays with the driver,
    who knows better where to send it. `speeds`: how fast each is, in any unit that all share; by
    default all alike.
    """

    def __init__(
        self,
        batches: Sequence[int],
        routing: Routing = "tokens",
        speeds: Sequence[float] | None = None,
    ) -> None:
        self._batches = list(batches)
        self._spares = [max(_LEAST_SPARE, batch // 4) for batch in batches]
        self._spare = sum(self._spares)
        self._routing = routing
        self._turn = 0
        self.requests = [0] * len(self._batches)
        """Outstanding, of each replica; `tokens` likewise."""
        self.tokens = [0] * len(self._batches)
        self._pace = [1.0] * len(self._batches)
        self._alike = True
        self._order = _Order(self)
        if speeds is not None:
            self.weigh(speeds)

    def weigh(self, speeds: Sequence[float]) -> None:
        """Take these speeds, one above 0 for each replica, from now on."""
        fastest = max(speeds)
        self._pace = [fastest / speed for speed in speeds]
        self._alike = min(speeds) == fastest

    def take(self, tokens: int, waiting: int = 1) -> int | None:
        """The replica that is given a request that counts for so many tokens, its prompt's and
        those expected of its answer; None where none has room.

        `waiting`: the requests that wait to be given, this one too. Where they are few, none is to
        wait behind others with one replica while another has nothing to do.
        """
        spared = waiting > self._spare
        if self._routing == "round-robin":
            found = self._in_turn(spared=spared)
        elif self._alike:
            found = self._order.least(spared=spared)
        else:
            found = self._soonest(tokens, spared=spared)
        if found is not None:
            self.give(found, tokens)
        return found

    def give(self, replica: int, tokens: int) -> None:
        """Count a request that this replica is given in any case."""
        self.requests[replica] += 1
        self.tokens[replica] += tokens
        self._order.given(replica)

    def has_room(self, place: int, *, spared: bool) -> bool:
        """Whether this replica's engine takes one more; `spared`: or one that waits there."""
        room = self._batches[place] + (self._spares[place] if spared else 0)
        return self.requests[place] < room

    def _in_turn(self, *, spared: bool) -> int | None:
        count = len(self._batches)
        for step in range(count):
            place = (self._turn + step) % count
            if self.has_room(place, spared=spared):
                self._turn = place + 1
                return place
        return None

    def _soonest(self, tokens: int, *, spared: bool) -> int | None:
        # Of replicas that are not alike, each is looked at: which would be done first depends on
        # the request as well.
        found, least = None, 0.0
        count, turn = len(self._batches), self._turn
        # Among equals in turn, so that an idle system does not always begin with the same one.
        for step in range(count):
            place = (turn + step) % count
            if not self.has_room(place, spared=spared):
                continue
            work = (self.tokens[place] + tokens) * self._pace[place]
            if found is None or work < least:
                found, least = place, work
        if found is not None:
            self._turn = found + 1
        return found

    def give_back(self, replica: int, tokens: int) -> None:
        """A request that was taken ended."""
        self.requests[replica] -= 1
        self.tokens[replica] -= tokens
        self._order.changed(replica)

    def clear(self) -> None:
        """Nothing is outstanding any more."""
        self.requests = [0] * len(self._batches)
        self.tokens = [0] * len(self._batches)
        self._order = _Order(self)


class _Order:
    """The replicas of a router that have room, by their outstanding tokens, in heaps.

    With hundreds of replicas a look at each takes longer than all else that is done for a request.
    An entry (tokens, when last given, place) is pushed at each change, and true until that place is
    given something: what ends only makes the tokens fewer, so that the newest entry comes first.
    Among equals the one that was given longest ago does.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._turn = 0
        self._given = [0] * len(router.requests)
        self._working: list[tuple[int, int, int]] = []
        self._sparing: list[tuple[int, int, int]] = []
        """Of those whose engine takes one more, and of those where one more would wait."""
        for place in range(len(self._given)):
            self.changed(place)

    def given(self, place: int) -> None:
        """It was given a request."""
        self._turn += 1
        self._given[place] = self._turn
        self.changed(place)

    def changed(self, place: int) -> None:
        """What it has to do is more or less than it was."""
        heap = self._heap(place)
        if heap is None:
            return
        heapq.heappush(heap, self._newest(place))
        if len(heap) > _STALE * len(self._given) + _STALE:
            # Of what ended since a place was given something, each left an entry that is true.
            heap[:] = [self._newest(p) for p in range(len(self._given)) if self._heap(p) is heap]
            heapq.heapify(heap)

    def least(self, *, spared: bool) -> int | None:
        """The place with the fewest outstanding tokens, None where none has room."""
        heaps = [self._working, self._sparing] if spared else [self._working]
        tops = [heap[0] for heap in heaps if self._clean(heap)]
        return min(tops)[2] if tops else None

    def _clean(self, heap: list[tuple[int, int, int]]) -> bool:
        """Drop what is no longer true from the top; whether anything is left."""
        while heap and not self._is_true(heap[0]):
            heapq.heappop(heap)
        return bool(heap)

    def _newest(self, place: int) -> tuple[int, int, int]:
        return self._router.tokens[place], self._given[place], place

    def _is_true(self, entry: tuple[int, int, int]) -> bool:
        return entry[1] == self._given[entry[2]]

    def _heap(self, place: int) -> list[tuple[int, int, int]] | None:
        if self._router.has_room(place, spared=False):
            return self._working
        return self._sparing if self._router.has_room(place, spared=True) else None


def batch_of(max_num_seqs: object) -> int:
    """The requests that an engine works on at once, by what it says of itself."""
    told = isinstance(max_num_seqs, int) and max_num_seqs > 0
    return max_num_seqs if told else _UNTOLD  # type: ignore[return-value]


_UNTOLD = 1024
"""An engine that names no limit is given about what the largest batches hold."""
_LEAST_SPARE = 4
_STALE = 8
"""Entries for each replica, of which only the newest matters, beyond which a heap is made anew."""
