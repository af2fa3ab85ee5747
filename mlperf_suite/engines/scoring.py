"""Scoring: how likely an engine finds given continuations of a prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A prompt and its possible continuations. `tag` is the caller's own number."""

    tag: int
    prompt_token_ids: Sequence[int]
    continuations: Sequence[Sequence[int]]

    @property
    def tokens(self) -> int:
        """The longest sequence that the engine receives, in tokens."""
        longest = max(map(len, self.continuations))
        return len(self.prompt_token_ids) + (longest if longest > 1 else 0)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A continuation's log-probability (natural), and whether greedy decoding would make it."""

    logprob: float
    greedy: bool


@dataclass(frozen=True, slots=True)
class Score:
    """The engine's answer to one request.

    `latency_ms`: from handing the request to the engine to its last answer, including time in the
    engine's queue. `tokens`: prompt tokens given to the engine, summed over all requests the score
    took; `cached_tokens` of them came from its prefix cache.
    """

    likelihoods: tuple[Likelihood, ...]
    latency_ms: float
    tokens: int
    cached_tokens: int


@runtime_checkable
class ScoringEngine(Protocol):
    """An engine that can score."""

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        """Yield each request's tag and score as they come.

        Takes from `requests` only as fast as the engine answers. Raises EngineError if the engine
        refuses a request or dies.
        """
