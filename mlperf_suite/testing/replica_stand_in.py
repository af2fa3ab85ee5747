"""Stand-in engines for replicas: made by name in the processes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mlperf_suite.engines.stand_in import Delays, StandInEngine
from mlperf_suite.errors import EngineError

_HUNDRED = list(range(100))


def echo(prompt: Sequence[int]) -> Sequence[int]:
    """The prompt as its answer."""
    return prompt


def a_hundred(prompt: Sequence[int]) -> Sequence[int]:
    """A hundred tokens, whatever was asked."""
    return _HUNDRED


def answering(
    answer: Callable[[Sequence[int]], Sequence[int]],
    first_token_s: float,
    rest_s: float,
    folder: Path,
) -> StandInEngine:
    """An engine of these delays, with no limit of its own."""
    return StandInEngine(Delays(first_token_s, rest_s), answer)


def failing(folder: Path) -> StandInEngine:
    """An engine that does not load."""
    raise EngineError("the stand-in engine does not load, as it was told to")


def dying(requests: int, folder: Path) -> StandInEngine:
    """An engine that dies after so many requests."""
    return StandInEngine(Delays(), echo, fail_after=requests)
