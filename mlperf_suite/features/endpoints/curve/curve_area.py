"""Curves as step functions: their area and knee, and where one of them is above another.

The curve is the Endpoints rules' (endpoints_rules.md, §5.2 of
github.com/mlcommons/endpoints_policies): a step function without interpolation. Its value at x is
the highest system tokens/s of the points that give each user at least x tokens/s.

Intervals are from draws: each takes one block of each point, so a run is taken to vary as its
blocks do, as in the regression gate. A draw's distance from the mean is widened as Student's t is,
as few blocks show too little. What all points of a session have in common shows in no block.

The regression gate compares the areas of two curves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mlperf_suite.features.endpoints.curve.curve_figures import CurveFigures, CurvePoint, curve_of
from mlperf_suite.results.regression import (
    KNOWN_DF,
    FeatureGate,
    Metric,
    MetricSamples,
    Noise,
    Pair,
    lost,
)
from mlperf_suite.results.schema import ChangeFigures, Summary

Figures = npt.NDArray[np.float64]
Interval = tuple[float, float]
_DRAWS = 4000
_SEED = 1
_CONFIDENCE = 0.95
_MAX_DISTANCE = 5.0
"""The largest distance of a draw, as a logarithm."""
_NORMAL = 1.96
"""Standard errors in half of a 95% interval."""
MIN_POINTS = 3
"""From which a curve has a knee, and two curves are compared."""
_MIN_OVERLAP = 0.5
"""Of the narrower curve's range, which two curves must have in common to be compared."""


def interval_words(interval: Interval | None) -> str:
    """An interval of relative changes in percent."""
    if interval is None:
        return "[noise not measured]"
    return "[" + ", ".join(f"{end * 100:+.1f}%" for end in interval) + "]"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the common range of two curves, in tokens/s per user.

    `change`: how far the second curve's area is above the first's, relative. `interval`: of it,
    None if a point has fewer than two blocks. `above`: 1 if the second is above, -1 if the first
    is, 0 if that is undecided.
    """

    low: float
    high: float
    change: float
    interval: Interval | None
    above: int

    def words(self, first: str, second: str) -> str:
        """Which curve is above, and by how much."""
        place = f"from {self.low:,.4g} to {self.high:,.4g} tokens/s per user"
        if not self.above:
            return (
                f"{place}, cannot tell: {second} {self.change * 100:+.1f}% "
                f"{interval_words(self.interval)} against {first}"
            )
        upper, lower = (second, first) if self.above > 0 else (first, second)
        change, interval = self.change, self.interval
        if self.above < 0:
            change = 1 / (1 + change) - 1
            interval = interval and (1 / (1 + interval[1]) - 1, 1 / (1 + interval[0]) - 1)
        return f"{upper} is above {lower} {place} by {change * 100:.1f}% {interval_words(interval)}"


@dataclass(frozen=True, slots=True)
class Knee:
    """The point of a curve that is farthest above the chord between its ends.

    `concurrencies`: those at which 95% of the draws have it; empty if the noise is not known.
    """

    point: CurvePoint
    concurrencies: tuple[int, ...]
    of_points: int

    @property
    def certain(self) -> bool:
        """Whether it is distinguished from at least half of the other points."""
        return 0 < len(self.concurrencies) <= (self.of_points + 1) // 2


class StepCurve:
    """The measured points of a curve and their draws; the first row of each is the measured one.

    `together`: in a draw all points have the distance that one of them drew.
    """

    def __init__(
        self, points: Sequence[CurvePoint], seed: int = _SEED, *, together: bool = False
    ) -> None:
        rng = np.random.default_rng(seed)
        self.points = [p for p in points if _is_usable(p.tps_per_user, p.system_tps)]
        self.has_noise = all(len(_usable_blocks(point)) > 1 for point in self.points)
        rates = np.empty((1 + _DRAWS, 0, 2))
        if self.points:
            distances = np.stack([_distances(point, rng) for point in self.points], axis=1)
            if together:
                picks = rng.integers(len(self.points), size=1 + _DRAWS)
                distances = distances[np.arange(1 + _DRAWS), picks][:, None]
            figures = np.array([(p.tps_per_user, p.system_tps) for p in self.points])
            rates = figures * np.exp(distances)
        self.users, self.system = rates[:, :, 0], rates[:, :, 1]

    def intervals(self, number: int) -> tuple[Interval, Interval] | None:
        """The 95% intervals of a point's tokens/s per user and of the system; None if it has fewer
        than two blocks."""
        if len(_usable_blocks(self.points[number])) < 2:
            return None
        return _interval(self.users[1:, number]), _interval(self.system[1:, number])

    def steps(self) -> tuple[list[float], list[float]]:
        """The ends of the steps by tokens/s per user, and the height of each up to its end."""
        order = np.argsort(self.users[0])
        heights = np.maximum.accumulate(self.system[0][order][::-1])[::-1]
        return self.users[0][order].tolist(), heights.tolist()

    def areas(self, low: Figures, high: Figures) -> Figures:
        """For each row, the area below the step function from `low` to `high`."""
        order = np.argsort(self.users, axis=1)
        users = np.take_along_axis(self.users, order, axis=1)
        system = np.take_along_axis(self.system, order, axis=1)
        heights = np.maximum.accumulate(system[:, ::-1], axis=1)[:, ::-1]
        ends = np.clip(users, low[:, None], np.maximum(high, low)[:, None])
        widths = np.diff(ends, axis=1, prepend=low[:, None])
        area: Figures = (heights * widths).sum(axis=1)
        return area

    def knee(self) -> Knee | None:
        """Kneedle's knee (Satopää et al., 2011) without smoothing: both axes scaled to 0..1, the
        point farthest above the falling chord. None for fewer than MIN_POINTS points, and for
        a curve with no point above its chord."""
        if len(self.points) < MIN_POINTS:
            return None
        height = _scaled(self.users) + _scaled(self.system) - 1
        knees = height.argmax(axis=1)
        if height[0, knees[0]] <= 0:
            return None
        numbers: list[int] = []
        if self.has_noise:
            shares = np.bincount(knees[1:], minlength=len(self.points)) / _DRAWS
            order = np.argsort(-shares)
            covered = np.cumsum(shares[order])
            numbers = order[: int(np.searchsorted(covered, _CONFIDENCE)) + 1].tolist()
        concurrencies = sorted(self.points[number].concurrency for number in numbers)
        return Knee(self.points[int(knees[0])], tuple(concurrencies), len(self.points))


def _usable_blocks(point: CurvePoint) -> list[tuple[float, float]]:
    rates = [(block.tps_per_user, block.tokens_per_sec) for block in point.blocks]
    return [pair for pair in rates if _is_usable(*pair)]


def _is_usable(*rates: float) -> bool:
    return all(0 < rate < math.inf for rate in rates)


def _distances(point: CurvePoint, rng: np.random.Generator) -> Figures:
    """The draws' distances from the measured curve, as logarithms; none in the first row. Columns:
    tokens/s per user, tokens/s of the system."""
    logs = np.log(_usable_blocks(point) or [(1.0, 1.0)])
    count = len(logs)
    distances = np.zeros((1 + _DRAWS, 2))
    if count > 1:
        widened = np.sqrt((count + 1) / rng.chisquare(count - 1, _DRAWS))[:, None]
        distances[1:] = (logs - logs.mean(axis=0))[rng.integers(count, size=_DRAWS)] * widened
    clipped: Figures = np.clip(distances, -_MAX_DISTANCE, _MAX_DISTANCE)
    return clipped


def _interval(values: Figures, confidence: float = _CONFIDENCE) -> Interval:
    rest = (1 - confidence) / 2
    ordered = np.sort(values)
    outside = int(len(ordered) * rest)
    return float(ordered[outside]), float(ordered[-1 - outside])


def _scaled(values: Figures) -> Figures:
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    scaled: Figures = (values - low) / np.maximum(high - low, 1e-12)
    return scaled


class CurvePair:
    """Two curves, compared in the range that both have."""

    def __init__(
        self,
        first: Sequence[CurvePoint],
        second: Sequence[CurvePoint],
        *,
        together: bool = False,
    ) -> None:
        # Other seeds: the two were not measured together.
        self.first = StepCurve(first, together=together)
        self.second = StepCurve(second, _SEED + 1, together=together)
        self.has_noise = self.first.has_noise and self.second.has_noise
        if self.refusal:
            return
        sides = self.first.users, self.second.users
        self._low = np.maximum(*(users.min(axis=1) for users in sides))
        self._high = np.minimum(*(users.max(axis=1) for users in sides))
        self.low, self.high = float(self._low[0]), float(self._high[0])

    @property
    def refusal(self) -> str:
        """Why the two are not compared; empty if they are."""
        sides = self.first, self.second
        if fewest := min(len(side.points) for side in sides):
            ranges = [(side.users[0].min(), side.users[0].max()) for side in sides]
            common = min(high for _, high in ranges) - max(low for low, _ in ranges)
            narrower = min(high - low for low, high in ranges)
            if fewest >= MIN_POINTS and common >= _MIN_OVERLAP * narrower > 0:
                return ""
            if fewest >= MIN_POINTS:
                words = " and ".join(f"{low:,.4g} to {high:,.4g}" for low, high in ranges)
                return f"the curves have too little in common: {words} tokens/s per user"
        return f"a curve has {fewest} measured points, fewer than {MIN_POINTS}"

    def heights(self) -> tuple[float, float]:
        """The mean system tokens/s of each curve in the common range."""
        width = self.high - self.low
        first, second = (s.areas(self._low, self._high)[0] for s in (self.first, self.second))
        return float(first / width), float(second / width)

    def log_change(self, low: float = 0.0, high: float = np.inf) -> Figures:
        """For each row, the logarithm of the areas' ratio between two tokens/s per user, within the
        common range; rows without it are left out."""
        lows, highs = np.maximum(self._low, low), np.minimum(self._high, high)
        first, second = (side.areas(lows, highs) for side in (self.first, self.second))
        usable = (first > 0) & (second > 0)
        logs: Figures = np.log(second[usable] / first[usable])
        return logs

    def noise(self) -> float | None:
        """The standard error of the logarithm of the areas' ratio; None without blocks."""
        if not self.has_noise:
            return None
        low, high = _interval(self.log_change()[1:])
        return (high - low) / (2 * _NORMAL)

    def stretches(self) -> list[Stretch]:
        """Which curve is above where: the common range, cut at the first curve's points, neighbours
        of one answer joined. All parts together are wrong in 5%, by Bonferroni."""
        inner = [x for x in self.first.users[0] if self.low < x < self.high]
        edges = [self.low, *sorted(inner), self.high]
        parts = list(pairwise(edges))
        level = 1 - (1 - _CONFIDENCE) / len(parts)
        stretches: list[Stretch] = []
        for low, high in parts:
            above = self._stretch(low, high, level).above
            start = stretches.pop().low if stretches and stretches[-1].above == above else low
            stretches.append(self._stretch(start, high, _CONFIDENCE, above))
        return stretches

    def _stretch(self, low: float, high: float, level: float, above: int | None = None) -> Stretch:
        logs = self.log_change(low, high)
        interval = _interval(np.expm1(logs[1:]), level) if self.has_noise else None
        if above is None:
            above = 0 if interval is None else int(interval[0] > 0) - int(interval[1] < 0)
        return Stretch(low, high, float(np.expm1(logs[0])), interval, above)


def curve_differences(before: CurveFigures | None, now: CurveFigures | None) -> list[str]:
    """Why two curves are not comparable, a few words each; empty if one has none."""
    if before is None or now is None:
        return []
    facts = (
        ("load generator", *(side.client.split(" ")[0] for side in (before, now))),
        ("official client", *("no" if side.rehearsal else "yes" for side in (before, now))),
        ("cohort", before.cohort, now.cohort),
    )
    lines = [
        f"{name}: baseline {then or 'none'}, this run {current or 'none'}"
        for name, then, current in facts
        if then != current
    ]
    attempts = {p.concurrency for p in (*now.measured, *lost_points(before, now))}
    if gaps := [p.concurrency for p in before.measured if p.concurrency not in attempts]:
        # A system that serves fewer users has no such point, and what is left may be as before.
        words = ", ".join(f"{concurrency:,}" for concurrency in gaps)
        return [*lines, f"curve: this run did not measure the baseline's concurrencies {words}"]
    refusal = common_points(before, now).refusal
    return lines + ([f"curve: {refusal}"] if refusal and not lost_points(before, now) else [])


def lost_points(before: CurveFigures, now: CurveFigures) -> list[CurvePoint]:
    """The points that failed or were over-saturated at concurrencies that were measured before."""
    baseline = {point.concurrency for point in before.measured}
    ends = ("failed", "over-saturated")
    return [p for p in now.points if p.outcome in ends and p.concurrency in baseline]


def common_points(
    first: CurveFigures, second: CurveFigures, *, together: bool = False
) -> CurvePair:
    """Two curves at the concurrencies that both measured: with more points a step function is
    higher, whatever the system. `together`: as in StepCurve."""
    sides = first.measured, second.measured
    common = set.intersection(*({point.concurrency for point in side} for side in sides))
    kept = [[point for point in side if point.concurrency in common] for side in sides]
    return CurvePair(*kept, together=together)


AREA = Metric("curve_area", "area of the curve", "tokens/s", "curve", True, "curve")
"""The mean height of a curve in the range that two curves have in common."""


class CurveGate(FeatureGate):
    of_speed = (AREA.name,)

    def compares(self, summary: Summary) -> bool:
        curve = curve_of(summary)
        return curve is not None and bool(curve.measured)

    def missing(self, baseline: Summary, current: Summary) -> list[str]:
        if (curve_of(baseline) is None) == (curve_of(current) is None):
            return []
        return ["only one of this run and the baseline has a curve"]

    def differences(self, baseline: Summary, current: Summary) -> list[str]:
        return curve_differences(curve_of(baseline), curve_of(current))

    def compare(
        self, baseline: Summary, current: Summary
    ) -> tuple[list[Pair], list[ChangeFigures]]:
        """The areas; instead of them, the first concurrency that was lost altogether."""
        before, now = curve_of(baseline), curve_of(current)
        if before is None or now is None:
            return [], []
        for point in lost_points(before, now):
            then = next(p for p in before.measured if p.concurrency == point.concurrency)
            words = f"{point.outcome} at concurrency {point.concurrency:,}, which was measured then"
            return [], [lost(AREA, MetricSamples((max(then.system_tps, 1e-9),)), words)]
        # What a whole session has, more noise or less, is common to its points.
        pair = common_points(before, now, together=True)
        if pair.refusal:
            return [], []
        then_height, now_height = pair.heights()
        error = pair.noise()
        estimates = () if error is None else ((error, KNOWN_DF),)
        words = f"the blocks of {len(pair.first.points)} points" if estimates else "not measured"
        sides = MetricSamples((then_height,)), MetricSamples((now_height,))
        return [(AREA, *sides, Noise(estimates, words))], []


GATE = CurveGate()
