"""Stand-in engines for replicas, made in their processes by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlperf_suite.engines.stand_in import Delays, StandInEngine

_ANSWER = list(range(100))


def _answer(prompt: Sequence[int]) -> Sequence[int]:
    return _ANSWER


def instant(first_token_s: float, rest_s: float, folder: Path) -> StandInEngine:
    """An engine that answers 100 tokens after these delays, with no limit of its own."""
    return StandInEngine(Delays(first_token_s, rest_s), _answer)
