"""The plots of a run's requests as they are drawn: what they show, in pages and in files."""

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from meta_tests.reports.kept_run import a_timeline, write_kept
from meta_tests.reports.undrawn import PNG
from mlperf_suite.features.requests.report import spread_plots
from mlperf_suite.features.requests.time_plots import plots_over_time
from mlperf_suite.loadgen.timeline import EngineLoad, Timeline
from mlperf_suite.reports.sections import Plot
from mlperf_suite.reports.writing import write_reports
from mlperf_suite.results.schema import PerformanceFigures


def test_the_plots_say_what_they_show_and_draw_the_limit(tmp_path: Path) -> None:
    run = write_kept(tmp_path / "run")
    write_reports(run)
    page = html.unescape((run / "report.html").read_text())
    for words in (
        "Time to first token: the share of requests up to a time",
        "Dashed: MLPerf's limit at p99.",
        "limit 2,000 ms",
        "limit 100 ms",
        "time since the start, s",
        "latency, ms",
        "prefill",
    ):
        assert words in page, words
    names = [f"plots/{name}.png" for name in ("latency", "life", "tokens_per_s", "tpot", "ttft")]
    assert json.loads((run / "summary.json").read_text())["plots"] == names
    assert all((run / name).read_bytes().startswith(PNG) for name in names)


def test_a_plot_of_steps_says_whose_they_are() -> None:
    """A step is one replica's: its requests are not all that the engine has."""
    steps: dict[str, Any] = {"made_ms": (1.0, 2.0), "made_tokens": (1, 2), "kv_share": (0.5, 0.5)}
    steps |= {"running": (128, 128), "waiting": (0, 0), "load": EngineLoad(steps=2, replicas=8)}
    plots = plots_over_time(Timeline([0.0], None, [2.0], [2], **steps))
    (plot,) = (plot for plot in plots if plot.name == "batch")
    assert "Mean of the 8 rep" in plot.caption and plot.svg()


def test_a_curves_figures_are_the_tables_and_a_far_limit_leaves_it_room() -> None:
    """LoadGen's, which need not be those that the timeline gives."""
    table = PerformanceFigures(ttft_ms={"mean": 411.5, "p99": 2336.4})

    def ttft(timeline: Timeline, limit_ms: float, figures: PerformanceFigures | None) -> str:
        plots = spread_plots(timeline, {"ttft": limit_ms}, figures or PerformanceFigures())
        (plot,) = (plot for plot in plots if plot.name == "ttft")
        return plot.caption + plot.svg()

    drawn = ttft(a_timeline(), 700.0, table)
    assert "p99 2,336 ms" in drawn and "mean 411.5 ms" in drawn and "limit 700 ms<" in drawn
    timeline = a_timeline()
    assert timeline.ttft_ms is not None
    # The 119th of 120, and nothing between it and its neighbour.
    assert f"p99 {sorted(timeline.ttft_ms)[118]:,.4g} ms" in ttft(timeline, 700.0, None)
    assert "limit 9,000 ms →" in ttft(timeline, 9000.0, None)
    assert "by the suite" in ttft(replace(timeline, first_token_ms=None), 700.0, None)


def test_what_features_draw_over_time_stands_under_the_throughput() -> None:
    power = Plot("power", "the power.", lambda axes, _: axes.set(ylabel="power, W"))
    (plot,) = (p for p in plots_over_time(a_timeline(), [power]) if p.name == "tokens_per_s")
    figure = plot.svg()
    assert "power, W" in figure and "tokens/s" in figure
    assert plot.caption.endswith("Below, the power.")
