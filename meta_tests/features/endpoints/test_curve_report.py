"""The curve in a report, in the terminal, in `compare` and on charts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

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
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import Meta, Summary
from mlperf_suite.results.typed_json import to_json

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


def run_of(folder: Path, curve: CurveFigures | None) -> Path:
    folder.mkdir()
    write_json(folder / "summary.json", to_json(summary_of(curve)))
    return folder


def test_curves_are_compared_on_one_chart_and_in_words(tmp_path: Path, compare: Any) -> None:
    curves = (CURVE, made_curve(0.01, 0.1, seed=2), made_curve(0.01, seed=3))
    runs = [run_of(tmp_path / f"run{number}", curve) for number, curve in enumerate(curves)]
    status, text, page = compare(*runs)
    assert status == 0
    assert "- run0 is above run1 from " in text and "cannot tell: run2" in text
    assert page.count("<svg") == 1 and "Side by side" not in text


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (made_curve(0.01, 0.1, seed=2), "gate: run1: regressed: area of the curve -2"),
        (made_curve(0.01, seed=2), None),
        (None, "only one of this run and the baseline has a curve"),
        (made_curve(0.4, seed=2), "would hide that half of the speed is lost"),
    ],
)
def test_the_gate_gates_a_curve(
    tmp_path: Path, compare: Any, second: CurveFigures | None, words: str | None
) -> None:
    runs = run_of(tmp_path / "run0", CURVE), run_of(tmp_path / "run1", second)
    status, text, _ = compare(*runs, "--gate")
    assert status == (words is not None) and (words or "") in text
