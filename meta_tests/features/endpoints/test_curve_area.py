"""Curves as step functions: area, knee, plot, intervals and which curve is above where.

How often the intervals hold is counted in evidence/endpoints."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meta_tests.features.endpoints.curves import made_curve
from mlperf_suite.features.endpoints.curve.curve_area import (
    CurvePair,
    StepCurve,
    common_points,
    curve_differences,
)
from mlperf_suite.features.endpoints.curve.curve_figures import (
    NO_ENDPOINTS_RESULT,
    PART,
    CurveFigures,
    CurvePoint,
)
from mlperf_suite.features.endpoints.curve.curve_report import curve_plots
from mlperf_suite.results.regression import compare_summaries, underpowered_metrics
from mlperf_suite.results.schema import Summary


def point(users: float, system: float, concurrency: int = 1) -> CurvePoint:
    return CurvePoint(
        concurrency, "measured", duration_s=10, output_tokens=round(10 * system),
        tpot_p90_ms=1000 / users,
    )  # fmt: skip


STEPS = [point(10, 300, 8), point(20, 200, 4), point(30, 250, 2), point(40, 100, 1)]


def area(curve: StepCurve, low: float, high: float) -> float:
    rows = len(curve.users)
    return float(curve.areas(np.full(rows, low), np.full(rows, high))[0])


def test_the_value_is_the_highest_rate_of_the_points_that_give_users_as_much() -> None:
    """A point below a faster one makes no step; beyond the last point nothing is served."""
    curve = StepCurve(STEPS)
    ends, heights = curve.steps()
    assert ends == pytest.approx([10, 20, 30, 40]) and heights == [300, 250, 250, 100]
    assert area(curve, 0, 10) == pytest.approx(3000)
    assert area(curve, 5, 35) == pytest.approx(5 * 300 + 20 * 250 + 5 * 100)
    assert area(curve, 35, 80) == pytest.approx(500)
    assert area(curve, 20, 20) == area(curve, 30, 20) == 0


def test_two_curves_are_compared_in_the_range_that_both_have() -> None:
    pair = CurvePair(STEPS, [point(15, 150, 8), point(25, 125, 4), point(35, 50)])
    assert (pair.low, pair.high) == (pytest.approx(15), pytest.approx(35))
    assert pair.heights() == (
        pytest.approx((15 * 250 + 5 * 100) / 20), pytest.approx((10 * 125 + 10 * 50) / 20)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (STEPS[:2], "a curve has 2 measured points, fewer than 3"),
        ([], "a curve has 0 measured points, fewer than 3"),
        ([point(x, 100) for x in (38, 60, 80)], "10 to 40 and 38 to 80 tokens/s per user"),
        ([point(20, 100)] * 3, "too little in common"),
    ],
)
def test_curves_that_cannot_be_compared(second: list[CurvePoint], words: str) -> None:
    assert words in CurvePair(STEPS, second).refusal
    assert words.replace("10 to 40 and 38 to 80", "38 to 80 and 10 to 40") in (
        CurvePair(second, STEPS).refusal
    )


def test_a_slower_curve_is_below_with_an_interval_that_holds_the_truth() -> None:
    first, second = made_curve(0.01), made_curve(0.01, 0.1, seed=2)
    truth = CurvePair(made_curve().measured, made_curve(loss=0.1).measured)
    (stretch,) = common_points(first, second).stretches()
    assert stretch.above == -1 and stretch.interval is not None
    low, high = stretch.interval
    assert low < np.expm1(truth.log_change()[0]) < high < 0
    assert stretch.words("A", "B") == (
        "A is above B from 38.08 to 112.3 tokens/s per user by 27.9% [+22.1%, +32.9%]"
    )
    reverse = common_points(second, first).stretches()[-1].words("B", "A")
    assert reverse.startswith("A is above B from ")
    five_blocks = StepCurve(made_curve(0.05, seed=3, blocks=5).measured[:1])
    users, _ = five_blocks.intervals(0) or ((), ())
    assert users == pytest.approx((98.0250, 136.6269), rel=1e-5)
    noises = [common_points(first, second, together=of).noise() for of in (False, True)]
    assert noises == pytest.approx([0.0223258, 0.0363845], rel=1e-4)


def test_a_draw_of_the_same_curve_is_not_told_from_it() -> None:
    """Though its points lie 10% below, as the noise between runs has it."""
    pair = common_points(*(made_curve(0.03, between=1.0, seed=seed) for seed in (1, 10_001)))
    (stretch,) = pair.stretches()
    assert stretch.above == 0 and stretch.interval == pytest.approx((-0.179266, 0.001222), abs=1e-5)


def test_without_noise_nothing_is_told() -> None:
    pair = common_points(made_curve(blocks=1), made_curve(loss=0.5, blocks=1))
    assert not pair.has_noise
    (stretch,) = pair.stretches()
    assert stretch.above == 0
    assert "cannot tell" in stretch.words("A", "B")
    assert StepCurve(made_curve(blocks=1).measured).intervals(0) is None


def test_the_knee_is_the_point_farthest_above_the_chord() -> None:
    knee = StepCurve(made_curve(0.01).measured).knee()
    assert knee is not None and knee.point.concurrency == 64
    assert knee.certain and knee.concurrencies == (64, 128)
    exact = [point(10, 300), point(20, 280), point(30, 150), point(40, 100)]
    knee = StepCurve(exact).knee()
    assert knee is not None and knee.point is exact[1]
    noisy = StepCurve(made_curve(0.5).measured).knee()
    assert noisy is not None and not noisy.certain
    unknown = StepCurve(made_curve(blocks=1).measured).knee()
    assert unknown is not None and unknown.concurrencies == ()
    # A curve below its chord has none.
    assert StepCurve([point(10, 300), point(20, 120), point(40, 100)]).knee() is None
    assert StepCurve(STEPS[:2]).knee() is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"client": "inference-endpoint 1.0"}, "load generator: baseline mlperf-suite, this run"),
        ({"cohort": "2026-10-C1"}, "cohort: baseline none, this run 2026-10-C1"),
        ({"points": made_curve(loss=0.97).points}, "curve: the curves have too little in common"),
        ({"points": ()}, "curve: this run did not measure the baseline's concurrencies 1, 4, 16"),
        ({"client": "mlperf-suite 2.0"}, None),
        ({"points": made_curve(loss=0.5).points}, None),
    ],
)
def test_what_makes_two_curves_incomparable(changes: dict[str, Any], words: str | None) -> None:
    """The version of the client may differ: it is named in each report."""
    lines = curve_differences(made_curve(), replace(made_curve(), **changes))
    assert [line.startswith(words or "") for line in lines] == [True] * bool(words)
    assert curve_differences(made_curve(), None) == []


@pytest.mark.parametrize(("outcome", "number"), [("failed", 0), ("over-saturated", 6)])
def test_a_point_that_is_lost_is_a_regression(outcome: Any, number: int) -> None:
    curve = made_curve(0.01)
    points = list(curve.points)
    points[number] = CurvePoint(points[number].concurrency, outcome)
    (change,) = compare_summaries(
        Summary(parts={PART: curve}), Summary(parts={PART: replace(curve, points=tuple(points))})
    )
    place = f"{outcome} at concurrency {points[number].concurrency}"
    assert change.outcome == "regressed" and place in change.words
    points[number] = CurvePoint(points[number].concurrency, "not run")
    (line,) = curve_differences(curve, replace(curve, points=tuple(points)))
    assert line.endswith(f"concurrencies {points[number].concurrency}")


def test_noise_that_hides_half_of_the_area_is_told() -> None:
    def changes(first: CurveFigures, second: CurveFigures) -> Any:
        return compare_summaries(Summary(parts={PART: first}), Summary(parts={PART: second}))

    noisy, exact = made_curve(0.01), made_curve(blocks=1)
    for pair in ((made_curve(0.4), made_curve(0.4, seed=2)), (exact, exact)):
        assert "would hide that half" in underpowered_metrics(changes(*pair), False)[0]
    assert underpowered_metrics(changes(noisy, noisy), False) == []
    (change,) = changes(noisy, made_curve(0.01, 0.3))
    assert change.outcome == "regressed"


def test_the_mark_is_on_the_picture_unless_the_client_is_the_official_one() -> None:
    for curve in (made_curve(0.01), replace(made_curve(blocks=1), rehearsal=False)):
        (plot,) = curve_plots(curve)
        assert (NO_ENDPOINTS_RESULT in plot.svg()) == curve.rehearsal
