"""What the regression gate compares of two curves: their areas."""

from __future__ import annotations

from mlperf_suite.features.endpoints.curve.curve_area import (
    common_points,
    curve_differences,
    lost_points,
)
from mlperf_suite.features.endpoints.curve.curve_figures import curve_of
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
