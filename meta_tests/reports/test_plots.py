"""Plots as they are drawn: what they show and say, in pages and in files."""

from pathlib import Path

import pytest

from meta_tests.features.endpoints.curves import made_curve
from meta_tests.reports.kept_run import change_summary, results_of
from meta_tests.reports.undrawn import PNG
from mlperf_suite.__main__ import main
from mlperf_suite.features.comparing.comparison import PLOT_FORMATS
from mlperf_suite.results.typed_json import to_json

CURVE = made_curve(0.01)


@pytest.mark.parametrize("ending", [".PNG", *PLOT_FORMATS])
def test_a_comparison_is_drawn_in_every_format(tmp_path: Path, ending: str) -> None:
    runs = results_of(tmp_path, 2)
    for run in runs:
        change_summary(run, curve=to_json(CURVE))
    plot = tmp_path / f"plot{ending}"
    assert main(["compare", *map(str, runs), "--plot", str(plot)]) == 0
    beginning = {".svg": b"<?xml", ".pdf": b"%PDF"}.get(ending, PNG)
    assert plot.read_bytes().startswith(beginning)
