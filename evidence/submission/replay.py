"""Plays prepared answers back at a set pace.

A submission tree can be built and checked at full size only from full-size runs, and a replay
produces them on any machine, in MLPerf's own time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.datasets.media import identity_of
from mlperf_suite.engines.protocol import REPLAY, SPECULATIVE, EngineDescription
from mlperf_suite.errors import EngineError


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


class ReplayEngine(StandInEngine):
    """Answers each prompt with the tokens prepared for it.

    `answers`: output token ids by `identity_of` a prompt; any other prompt, such as a warm-up's, is
    answered with one token. `paces`: how fast a run is played back, by mode; requests before the
    first run are answered at once.
    """

    def __init__(
        self,
        answers: Mapping[tuple[int, ...], Sequence[int]],
        paces: Mapping[str, Pace],
        model: str,
    ) -> None:
        super().__init__(
            Delays(), lambda prompt: answers.get(identity_of(prompt), (0,)), model=model
        )
        self._model = model
        self._paces = paces
        self._sizing = Pace(math.inf)
        self._last_end = 0.0

    @property
    def description(self) -> EngineDescription:
        room = super().description.max_model_len
        return EngineDescription(REPLAY, "1", self._model, True, room, {SPECULATIVE: None})

    def run_begins(self, name: str, mode: str) -> None:
        """Play back at this mode's pace from now on. Raises EngineError if it has none."""
        if mode not in self._paces:
            raise EngineError(f"{name}: the replay has no pace for {mode} runs")
        self._sizing = self._paces[mode]

    def _times(self, now: float, tokens: int) -> tuple[float, float]:
        # One after another, none sooner than its request allows.
        first_at = now + self._sizing.first_token_s
        turn = max(now, self._last_end) + 1 / self._sizing.samples_per_s
        self._last_end = max(first_at + (tokens - 1) * self._sizing.token_s, turn)
        return first_at, self._last_end
