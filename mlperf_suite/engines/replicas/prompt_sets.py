"""The prompts that the nodes have: a node gets each list once, even for several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlperf_suite.engines.replicas.cluster import Cluster, Placed

_PATIENCE_S = 300.0


class PromptSets:
    """Lists of prompts by number. `current`: the list that sample indices refer to."""

    def __init__(self, cluster: Cluster, placed: Sequence[Placed]) -> None:
        self._cluster = cluster
        self._placed = placed
        self._known: list[Sequence[Sequence[int]]] = []
        self.current = -1

    def take(self, prompts: Sequence[Sequence[int]]) -> None:
        """Make these prompts current; they are sent unless they begin a list sent before.

        Raises EngineError if a replica does not take them.
        """
        for number, known in enumerate(self._known):
            if len(prompts) <= len(known) and all(map(_same, prompts, known)):
                self.current = number
                return
        number = len(self._known)
        self._send(number, prompts)
        self._known.append(prompts)
        self.current = number

    def _send(self, number: int, prompts: Sequence[Sequence[int]]) -> None:
        import numpy as np

        begins = np.zeros(len(prompts) + 1, np.int64)
        np.cumsum([len(prompt) for prompt in prompts], out=begins[1:])
        tokens = np.empty(int(begins[-1]), np.int32)
        for prompt, begin in zip(prompts, begins, strict=False):
            tokens[begin : begin + len(prompt)] = prompt
        # Ray sends each node one copy, which all its replicas map.
        sent = self._cluster.put(tokens), self._cluster.put(begins)
        asked = [one.actor.take_prompts.remote(number, *sent) for one in self._placed]
        self._cluster.wait(asked, [str(one.seat) for one in self._placed], _PATIENCE_S)


def _same(one: Sequence[int], other: Sequence[int]) -> bool:
    return one is other or (len(one) == len(other) and list(one) == list(other))
