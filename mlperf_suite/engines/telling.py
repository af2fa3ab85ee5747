"""Groups what came for listeners at one moment, so that each listener is called once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlperf_suite.engines.protocol import Listener, Tokens


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
