"""Curves on charts: many of them, and some with little in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from meta_tests.features.endpoints.curves import made_curve
from mlperf_suite.__main__ import main
from mlperf_suite.features.endpoints.curve.curve_figures import (
    NO_ENDPOINTS_RESULT,
    PART,
    CurveBlock,
    CurveFigures,
    CurvePoint,
)
from mlperf_suite.features.endpoints.curve.curve_report import MAX_CURVES, curve_plots
from mlperf_suite.results.schema import Meta, Summary

CURVE = made_curve(0.01)


def test_curves_stand_on_one_chart_and_more_than_colours_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for number in range(MAX_CURVES + 2):
        runs.append(tmp_path / f"run{number}")
        runs[-1].mkdir()
        meta = Meta(benchmark="llama3.1-8b", scenario="Curve", status="complete")
        (runs[-1] / "summary.json").write_text(
            json.dumps(Summary(meta=meta, parts={PART: CURVE}).as_json())
        )
    html = tmp_path / "page.html"
    plot = ("--plot", str(tmp_path / "plot.png"))
    assert main(["compare", *map(str, runs), *plot, "--html", str(html)]) == 0
    text, page = capsys.readouterr().out, html.read_text()
    assert "2 more curves not drawn." in text
    assert all(f">{n}: run{n - 1}</text>" in page for n in range(1, MAX_CURVES + 1))
    assert f">{MAX_CURVES + 1}: " not in page and NO_ENDPOINTS_RESULT in page


@pytest.mark.parametrize(
    "points",
    [
        (replace(CURVE.points[0], ttft_p90_ms=None),),
        (
            replace(CURVE.points[0], tpot_p90_ms=1e-320),
            replace(CURVE.points[1], blocks=(CurveBlock(-1, -1), CurveBlock(1, 1e-320))),
        ),
    ],
)
def test_a_curve_with_little_in_it_is_drawn(points: tuple[CurvePoint, ...]) -> None:
    for plot in curve_plots(CurveFigures("c", points=points)):
        assert "<svg" in plot.svg()


def test_runs_whose_names_begin_a_formula_are_drawn(tmp_path: Path) -> None:
    names = ["$one$", r"$\frac{$"]
    content = {"meta": {"benchmark": "b"}, "run": {"performance": {"tokens_per_sec": 100.0}}}
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps(content | {"schema_version": 6}))
    html = tmp_path / "page.html"
    runs = [tmp_path / name for name in names]
    plot = ("--plot", str(tmp_path / "plot.png"))
    assert main(["compare", *map(str, runs), *plot, "--html", str(html)]) == 0
    page = html.read_text()
    for number, name in enumerate(names, 1):
        assert page.count(f">run {number}</text>") == page.count("<svg") == 1
        assert name in page
