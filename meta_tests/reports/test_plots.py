"""Plots as they are drawn: what they show and say, in pages and in files."""

import html
import json
from pathlib import Path
from typing import Any

import pytest

from meta_tests.curves import made_curve
from meta_tests.reports.kept_run import a_timeline, change_summary, results_of
from meta_tests.reports.undrawn import PNG
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.comparing.comparison import PLOT_FORMATS
from mlperf_suite.loadgen.timeline import EngineLoad, Timeline
from mlperf_suite.reports.plots import plots_of
from mlperf_suite.reports.writing import write_reports
from mlperf_suite.results.schema import PerformanceFigures
from mlperf_suite.results.typed_json import to_json

CURVE = made_curve(0.01)
SERVER = LLAMA3_1_8B.scenario("Server")


def test_the_plots_say_what_they_show_and_draw_the_limit(run: Path) -> None:
    write_reports(run)
    page = html.unescape((run / "report.html").read_text())
    for words in (
        "Time to first token (TTFT)",
        "MLPerf's limit 2,000 ms at p99",
        "MLPerf's limit 100 ms at p99",
        "time since the start, s",
        "latency, ms",
        "prefill",
    ):
        assert words in page, words
    names = [f"plots/{name}.png" for name in ("latency", "life", "tokens_per_s", "tpot", "ttft")]
    assert json.loads((run / "summary.json").read_text())["plots"] == names
    assert all((run / name).read_bytes().startswith(PNG) for name in names)


def test_a_curves_percentile_is_the_tables() -> None:
    """LoadGen's, which need not be the one that the timeline gives."""
    timeline, table = a_timeline(), PerformanceFigures(ttft_ms={"p99": 2336.4})

    def ttft(figures: PerformanceFigures | None) -> str:
        (plot,) = (plot for plot in plots_of(timeline, SERVER, figures) if plot.name == "ttft")
        return plot.svg()

    assert "p99 2,336 ms" in ttft(table)
    assert timeline.ttft_ms is not None
    # The 119th of 120, and nothing between it and its neighbour.
    assert f"p99 {sorted(timeline.ttft_ms)[118]:,.4g} ms" in ttft(None)
    assert plots_of(None, SERVER) == []


def test_a_plot_of_steps_says_whose_they_are() -> None:
    """A step is one replica's: its requests are not all that the engine has."""
    steps: dict[str, Any] = {"made_ms": (1.0, 2.0), "made_tokens": (1, 2), "kv_share": (0.5, 0.5)}
    steps |= {"running": (128, 128), "waiting": (0, 0), "load": EngineLoad(steps=2, replicas=8)}
    plots = plots_of(Timeline([0.0], None, [2.0], [2], **steps), None)
    (plot,) = (plot for plot in plots if plot.name == "batch")
    assert "Mean of the 8 rep" in plot.caption and plot.svg()


@pytest.mark.parametrize("ending", [".PNG", *PLOT_FORMATS])
def test_a_comparison_is_drawn_in_every_format(tmp_path: Path, ending: str) -> None:
    runs = results_of(tmp_path, 2)
    for run in runs:
        change_summary(run, curve=to_json(CURVE))
    plot = tmp_path / f"plot{ending}"
    assert main(["compare", *map(str, runs), "--plot", str(plot)]) == 0
    beginning = {".svg": b"<?xml", ".pdf": b"%PDF"}.get(ending, PNG)
    assert plot.read_bytes().startswith(beginning)
