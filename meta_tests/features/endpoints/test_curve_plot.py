"""The plot of a curve, as it is drawn."""

from dataclasses import replace

from meta_tests.features.endpoints.curves import made_curve
from mlperf_suite.features.endpoints.curve.curve_figures import NO_ENDPOINTS_RESULT, CurveFigures
from mlperf_suite.features.endpoints.curve.curve_report import curve_plots

CURVE = made_curve(0.01)


def test_the_mark_is_on_the_picture_unless_the_client_is_the_official_one() -> None:
    def svg_of(curve: CurveFigures) -> str:
        (plot,) = curve_plots(curve)
        return plot.svg()

    assert NO_ENDPOINTS_RESULT in svg_of(CURVE)
    assert NO_ENDPOINTS_RESULT not in svg_of(replace(made_curve(blocks=1), rehearsal=False))
