"""Curves in `compare`: in words, on charts and in a plot, and the gate."""

from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.endpoints.curves import made_curve
from meta_tests.reports.undrawn import PNG
from mlperf_suite.__main__ import main
from mlperf_suite.features.endpoints.curve.curve_figures import PART, CurveFigures
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import Meta, Summary
from mlperf_suite.results.typed_json import to_json

CURVE = made_curve(0.01)


def run_of(folder: Path, curve: CurveFigures | None) -> Path:
    folder.mkdir()
    meta = Meta(benchmark="llama3.1-8b", scenario="Curve", status="complete")
    summary = Summary(meta=meta, parts={PART: curve} if curve else {})
    write_json(folder / "summary.json", to_json(summary))
    return folder


def test_the_plot_of_a_comparison_has_the_curves(tmp_path: Path) -> None:
    runs, plot = [run_of(tmp_path / name, CURVE) for name in "ab"], tmp_path / "plot.png"
    assert main(["compare", *map(str, runs), "--plot", str(plot)]) == 0
    assert plot.read_bytes().startswith(PNG)


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
