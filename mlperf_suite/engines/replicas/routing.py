"""Which replica the next request goes to. Pure: it knows what is outstanding, and nothing else."""

from __future__ import annotations

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
        if speeds is not None:
            self.weigh(speeds)

    def weigh(self, speeds: Sequence[float]) -> None:
        """Take these speeds, one above 0 for each replica, from now on."""
        fastest = max(speeds)
        self._pace = [fastest / speed for speed in speeds]

    def take(self, tokens: int, waiting: int = 1) -> int | None:
        """The replica that is given a request of so many tokens, its prompt's and those expected of
        its answer; None where none has room.

        `waiting`: the requests that wait to be given, this one too. Where they are few, none is to
        wait behind others with one replica while another has nothing to do.
        """
        spared = waiting > self._spare
        if self._routing == "round-robin":
            found = self._in_turn(spared=spared)
        else:
            found = self._least(tokens, spared=spared)
        if found is not None:
            self.requests[found] += 1
            self.tokens[found] += tokens
        return found

    def _has_room(self, place: int, *, spared: bool) -> bool:
        room = self._batches[place] + (self._spares[place] if spared else 0)
        return self.requests[place] < room

    def _in_turn(self, *, spared: bool) -> int | None:
        count = len(self._batches)
        for step in range(count):
            place = (self._turn + step) % count
            if self._has_room(place, spared=spared):
                self._turn = place + 1
                return place
        return None

    def _least(self, tokens: int, *, spared: bool) -> int | None:
        found, least = None, 0.0
        count, turn = len(self._batches), self._turn
        # Among equals in turn, so that an idle system does not always begin with the same one.
        for step in range(count):
            place = (turn + step) % count
            if not self._has_room(place, spared=spared):
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

    def clear(self) -> None:
        """Nothing is outstanding any more."""
        self.requests = [0] * len(self._batches)
        self.tokens = [0] * len(self._batches)


def batch_of(max_num_seqs: object) -> int:
    """The requests that an engine works on at once, by what it says of itself."""
    told = isinstance(max_num_seqs, int) and max_num_seqs > 0
    return max_num_seqs if told else _UNTOLD  # type: ignore[return-value]


_UNTOLD = 1024
"""An engine that names no limit is given about what the largest batches hold."""
_LEAST_SPARE = 4
