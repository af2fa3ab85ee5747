"""What a replay of recorded conversations measured, as summary.json has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlperf_suite.results.schema import Percentiles

PART = "run.replay"
"""The name of the figures in summary.json."""


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """Times of the answered turns of a group, in ms by percentile (p50, p90, p99)."""

    turns: int = 0
    ttft_ms: Percentiles = field(default_factory=dict)
    tpot_ms: Percentiles = field(default_factory=dict)
    latency_ms: Percentiles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """A replay of recorded conversations, turn by turn.

    `missing`: turns without an answer. `score`: the mean similarity, from 0 to 1, of the programs
    that an answer and the recorded answer start, over the `scored` turns; `reference_score`: the
    score of the reference run. `cached_first`: prompt tokens of first turns that the server took
    from a cache, which another conversation filled; None if the server does not report cached
    tokens. `by_turn`, `by_context`: times by position in the conversation, and by prompt length in
    tokens.
    """

    conversations: int = 0
    turns: int = 0
    missing: int = 0
    score: float | None = None
    scored: int = 0
    reference_score: float | None = None
    cached_first: int | None = None
    by_turn: dict[str, TurnTimes] = field(default_factory=dict)
    by_context: dict[str, TurnTimes] = field(default_factory=dict)
