"""An engine that plays back prepared answers at a set pace, to test what follows a run.

A submission tree can be built and checked at full size only from full-size runs. This engine
produces them on any machine, in MLPerf's own time. Results made with it measure nothing, and its
description says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlperf_suite.engines.protocol import EngineDescription
from mlperf_suite.engines.stand_in import Delays, StandInEngine
from mlperf_suite.errors import EngineError

REPLAY = "replay of prepared answers"
"""The engine's name in every description."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast answers are played back.

    `samples_per_s`: how many answers end per second, over all requests, in order of arrival.
    `first_token_s`: the shortest time from a request to its first token. `token_s`: the shortest
    time between two of its tokens.
    """

    samples_per_s: float
    first_token_s: float = 0.0
    token_s: float = 0.0


class Turns:
    """When answers are due: one after another, none sooner than its request allows."""

    def __init__(self) -> None:
        self._last_end = 0.0

    def take(self, pace: Pace, now: float, tokens: int) -> tuple[float, float]:
        """When the next request's first and last token are due, in the seconds that `now` counts.

        `now`: when the request came. `tokens`: the length of its answer.
        """
        first_at = now + pace.first_token_s
        turn = max(now, self._last_end) + 1 / pace.samples_per_s
        self._last_end = max(first_at + (tokens - 1) * pace.token_s, turn)
        return first_at, self._last_end


class ReplayEngine(StandInEngine):
    """Answers each prompt with the tokens prepared for it.

    `answers`: output token ids by prompt token ids; any other prompt, such as a warm-up's, is
    answered with one token. `paces`: how fast a run is played back, by mode; requests before the
    first run are answered at once.
    """

    def __init__(
        self,
        answers: Mapping[tuple[int, ...], Sequence[int]],
        paces: Mapping[str, Pace],
        model: str,
    ) -> None:
        super().__init__(Delays(), lambda prompt: answers.get(tuple(prompt), (0,)), model=model)
        self._model = model
        self._paces = paces
        self._pace = Pace(math.inf)
        self._turns = Turns()

    @property
    def description(self) -> EngineDescription:
        room = super().description.max_model_len
        return EngineDescription(REPLAY, "1", self._model, True, room)

    def run_begins(self, name: str, mode: str) -> None:
        """Play back at this mode's pace from now on. Raises EngineError if it has none."""
        if mode not in self._paces:
            raise EngineError(f"{name}: the replay has no pace for {mode} runs")
        self._pace = self._paces[mode]

    def _times(self, now: float, tokens: int) -> tuple[float, float]:
        return self._turns.take(self._pace, now, tokens)
