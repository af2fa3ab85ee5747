"""The curve in a report and in the terminal."""

from dataclasses import replace
from pathlib import Path

import pytest

from meta_tests.features.endpoints.curves import made_curve
from meta_tests.reports.outputs import HOSTILE, markdown_rows, reports_of
from mlperf_suite.features.endpoints.curve.curve_figures import (
    NO_ENDPOINTS_RESULT,
    PART,
    CurveFigures,
    CurvePoint,
)
from mlperf_suite.reports.closing import COLUMNS, closing_lines
from mlperf_suite.results.schema import Meta, Summary

pytestmark = pytest.mark.usefixtures("undrawn")
LABEL = "made with a stand-in engine: not a measurement of any system"
CURVE = made_curve(0.01)
MORE = (
    CurvePoint(48, "failed", ("medium",), HOSTILE),
    CurvePoint(512, "over-saturated", ("high",), "TTFT grew from 0.4 s to 9 s in 20 s"),
    CurvePoint(1024, "not run", ("high",), "512 was over-saturated"),
)


def summary_of(curve: CurveFigures | None) -> Summary:
    meta = Meta(benchmark="llama3.1-8b", scenario="Curve", status="complete", label=LABEL)
    return Summary(meta=meta, parts={PART: curve} if curve else {})


def test_the_report_has_each_point_with_its_outcome_and_reason() -> None:
    curve = replace(CURVE, points=(*CURVE.points, *MORE))
    text, page = reports_of(summary_of(curve))
    rows = {row[0]: row for row in markdown_rows(text)}
    assert rows["48"][2] == "failed" and "&lt;script&gt;" in page
    assert rows["512"][2::6] == ["over-saturated", "TTFT grew from 0.4 s to 9 s in 20 s"]
    assert rows["1,024"][2] == "not run"
    assert rows["64"][:3] == ["64", "high", "measured"] and "[" in rows["64"][3]
    assert f"curve:** {NO_ENDPOINTS_RESULT}\n" in text and "7 of 10 points" in text


def test_the_terminal_says_the_highest_point_and_the_knee() -> None:
    lines = list(closing_lines(summary_of(CURVE), Path("run")))
    text = " ".join(line.text for line in lines)
    assert "7 of 7 points; highest 8,7" in text and "at concurrency 256" in text
    assert "C_max 256; knee 5," in text and "(95%: 64 to 128)" in text
    assert all(len(line.text) <= COLUMNS for line in lines)
