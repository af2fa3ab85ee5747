"""Groups what came for listeners at one moment, so that each listener is called once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from mlperf_suite.engines.protocol import Listener, Tokens

_First = TypeVar("_First")
_Answer = TypeVar("_Answer")


class Collected(Generic[_First, _Answer]):
    """The messages of one look at an engine's connections, until they are passed on together.

    With many engines, each call of LoadGen, in which Python's lock changes hands, costs more than
    everything else (docs/driver-limit.md).
    """

    def __init__(
        self,
        tell_firsts: Callable[[Sequence[_First]], None],
        tell_answers: Callable[[Sequence[_Answer]], None],
    ) -> None:
        self.firsts: list[_First] = []
        self.answers: list[_Answer] = []
        self._tell_firsts = tell_firsts
        self._tell_answers = tell_answers

    def tell(self) -> None:
        """Pass on what was collected, first tokens before answers."""
        firsts, self.firsts = self.firsts, []
        if firsts:
            self._tell_firsts(firsts)
        answers, self.answers = self.answers, []
        if answers:
            self._tell_answers(answers)


def by_listener(
    told: Iterable[tuple[Listener, int, Sequence[int]]],
) -> list[tuple[Listener, list[Tokens]]]:
    """Each listener with its (tag, ids) pairs in order, from (listener, tag, ids) triples."""
    found: dict[int, tuple[Listener, list[Tokens]]] = {}
    for listener, tag, token_ids in told:
        one = found.get(id(listener))
        if one is None:
            one = found[id(listener)] = listener, []
        one[1].append((tag, token_ids))
    return list(found.values())
