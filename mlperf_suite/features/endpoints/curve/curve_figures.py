"""The figures of a curve: what one server does at each of several fixed concurrencies.

MLPerf Endpoints draws system tokens/s over tokens/s per user (endpoints_rules.md §5 of
github.com/mlcommons/endpoints_policies). A curve that the suite's own client measured is a
curve like it, which is not a result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

from mlperf_suite.engines.protocol import ServerView
from mlperf_suite.results.schema import Summary

PART = "curve"
"""The name of the figures in summary.json."""
NO_ENDPOINTS_RESULT = "not an MLPerf Endpoints result"
"""The mark on every output of a curve that the official client did not measure."""
SCORED_FOLDER = "scored"
"""Begins the name of the folder, in a point's, of its accuracy run, with the client's `report`."""
PointOutcome = Literal["planned", "measured", "over-saturated", "failed", "not run"]
"""Of a point: "over-saturated" was ended early, as its queue and latency grew without end; "not
run" could not matter any more."""


@dataclass(frozen=True, slots=True)
class CurveBlock:
    """One of the blocks of equal length from which a point's intervals are computed.

    `tokens_per_sec`: of the whole system. Times are None if no request of the block has one.
    `interactivity`: as for a point.
    """

    tokens_per_sec: float
    tpot_p90_ms: float | None = None
    ttft_p90_ms: float | None = None
    interactivity: float | None = None

    @property
    def tps_per_user(self) -> float:
        """As a point's."""
        return _user_rate(self.interactivity, self.tpot_p90_ms)


def _user_rate(interactivity: float | None, tpot_p90_ms: float | None) -> float:
    if interactivity is not None:
        return interactivity
    return 1000 / tpot_p90_ms if tpot_p90_ms else 0.0


@dataclass(frozen=True, slots=True)
class PointAccuracy:
    """The scores of the answers at a point. `samples`: the number of answers. `passed`: whether
    every gate is met, None without a reference. `not_submittable`: why the official client's file
    has no score that can be submitted, in one line. `reason`: why there are no scores."""

    samples: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    passed: bool | None = None
    not_submittable: str = ""
    reason: str = ""

    @property
    def words(self) -> str:
        """The verdict, and the first of the scores."""
        if self.reason:
            return f"failed: {self.reason}"
        word = {True: "passed", False: "failed", None: "no reference"}[self.passed]
        return ", ".join([word, *(f"{n} {v:,.2f}" for n, v in [*self.scores.items()][:1])])


@dataclass(frozen=True, slots=True)
class PointTurns:
    """The turns at a point of an agentic benchmark. `missing`: turns without an answer.
    `inline_score`: in percent, None if no recorded answer starts a program that is scored.
    `tokens_a_turn`: the mean. `cached_within`, `cached_first`: prompt tokens that the server took
    from its cache in later and in first turns; None if it does not report them."""

    turns: int
    missing: int = 0
    inline_score: float | None = None
    tokens_a_turn: float | None = None
    cached_within: int | None = None
    cached_first: int | None = None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A fixed concurrency and its figures, which are None or empty if it was not measured.

    `regions`: the mandatory regions that the point counts for. `folder`: the folder of its files,
    relative to the run's folder. `reason`: why it failed, was stopped early or was not run.
    `output_tokens`: counted by the model's tokenizer in the window of `duration_s`.
    Times are over the completed requests. `servers`: the metrics of each server that has some, or
    of the engine in this process. `interactivity`: for agentic benchmarks, the tokens of all turns
    ÷ the sum of their times in s (Endpoints rules, §4.1); otherwise None. `accuracy`: None where
    it is not scored. `turns`: only for agentic benchmarks.
    """

    concurrency: int
    outcome: PointOutcome = "planned"
    regions: tuple[str, ...] = ()
    reason: str = ""
    folder: str = ""
    duration_s: float = 0.0
    completed: int = 0
    failed: int = 0
    output_tokens: int = 0
    tpot_p50_ms: float | None = None
    tpot_p90_ms: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p90_ms: float | None = None
    blocks: tuple[CurveBlock, ...] = ()
    servers: tuple[ServerView, ...] = ()
    interactivity: float | None = None
    accuracy: PointAccuracy | None = None
    turns: PointTurns | None = None

    @property
    def system_tps(self) -> float:
        """Output tokens/s of the whole system; 0 if nothing was measured."""
        return self.output_tokens / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def tps_per_user(self) -> float:
        """Output tokens/s of a user: 1000 / TPOT p90 in ms, of agents the interactivity; 0 if
        nothing was measured."""
        return _user_rate(self.interactivity, self.tpot_p90_ms)


@dataclass(frozen=True, slots=True)
class CurveFigures:
    """A curve. `client`: the load generator's name and version. `rehearsal`: whether the load
    generator is not the official client. `cohort`: the cohort of MLPerf Endpoints whose seeds were
    used, empty if none. `c_max`: the concurrency of the highest throughput, None if not found."""

    client: str
    rehearsal: bool = True
    cohort: str = ""
    c_min: int = 1
    c_max: int | None = None
    points: tuple[CurvePoint, ...] = ()

    @property
    def no_result(self) -> str:
        """Why it is not a result, in words; empty if there is no reason."""
        return NO_ENDPOINTS_RESULT if self.rehearsal else ""

    @property
    def measured(self) -> tuple[CurvePoint, ...]:
        """The points that have figures, by concurrency."""
        points = (point for point in self.points if point.outcome == "measured")
        return tuple(sorted(points, key=lambda point: point.concurrency))


@dataclass(slots=True)
class CurveRecord:
    """A curve as far as it was measured, and why it failed or is not complete; None so far."""

    figures: CurveFigures = field(default_factory=partial(CurveFigures, ""))
    failure: str | None = None
    optional: ClassVar[bool] = False
    complete: bool = False

    @property
    def spoiled(self) -> bool:
        return any(
            point.outcome == "failed"
            or (point.accuracy and (point.accuracy.reason or point.accuracy.passed is False))
            for point in self.figures.points
        )

    def summed_up(self, summary: Summary) -> Summary:
        return replace(summary, parts={**summary.parts, PART: self.figures})


def curve_of(summary: Summary) -> CurveFigures | None:
    """The curve of a summary; None if it has none."""
    curve: CurveFigures | None = summary.parts.get(PART)
    return curve
