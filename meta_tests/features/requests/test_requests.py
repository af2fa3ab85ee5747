"""Every request of a run: its row in requests.csv, the times of all in figures, and their plots as
they are drawn."""

import csv
import html
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_tests.made_lives import made_marks, made_timeline
from meta_tests.reports.kept_run import a_timeline, write_kept
from meta_tests.reports.outputs import markdown_rows, reports_of, terminal_text
from meta_tests.reports.undrawn import PNG
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.requests.report import spread_plots
from mlperf_suite.features.requests.request_table import BY_ENGINE, BY_LOADGEN
from mlperf_suite.features.requests.session import KeptRequests
from mlperf_suite.features.requests.time_plots import plots_over_time
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.timeline import EngineLoad, Timeline
from mlperf_suite.reports.sections import Plot
from mlperf_suite.reports.writing import write_reports
from mlperf_suite.results.performance_figures import performance_figures
from mlperf_suite.results.schema import Goodput, Meta, PerformanceFigures, Run, Summary

ROWS = [(0.0, 0.5, 2.5, 5), (0.0, 1.0, 4.0, 4), (0.0, 3.0, 3.0, 1)]
TTFT_MS, TPOT_MS = ["500.0", "3000.0", "1000.0"], ["500.0", "", "1000.0"]
"""Of these requests, in the order of their ends."""


def unstreamed(timeline: Timeline) -> Timeline:
    """As LoadGen sees it in Offline, where it is told of no first token."""
    return replace(timeline, first_token_ms=None)


def in_one_piece(timeline: Timeline) -> Timeline:
    """The first answer, of five tokens, came all at once: when its first token was made is not
    known."""
    decode = [0.0, *timeline.parts_ms["decode"][1:]]
    return replace(unstreamed(timeline), parts_ms={**timeline.parts_ms, "decode": decode})


@pytest.mark.parametrize(
    ("seen", "by"),
    [(lambda timeline: timeline, BY_LOADGEN), (unstreamed, BY_ENGINE), (in_one_piece, "")],
)
def test_first_tokens_are_loadgens_or_the_engines_or_unknown(
    tmp_path: Path, seen: Callable[[Timeline], Timeline], by: str
) -> None:
    timeline = seen(made_timeline(ROWS, timestamps=made_marks(ROWS)))
    run: Any = SimpleNamespace(key=SimpleNamespace(mode="performance"), folder=tmp_path)
    made: Any = SimpleNamespace(timeline=timeline)
    KeptRequests.made(SimpleNamespace(), run, made)  # type: ignore[arg-type]
    with (tmp_path / "requests.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["sample"] for row in rows] == ["0", "2", "1"]
    assert {row["first_token_by"] for row in rows} == {by}
    for name, values in (("ttft", TTFT_MS), ("tpot", TPOT_MS)):
        assert [row[f"{name}_ms"] for row in rows] == (values if by else ["", "", ""])
    assert [row["latency_ms"] for row in rows] == ["2500.0", "3000.0", "4000.0"]
    assert [row["prefill_ms"] for row in rows] == ["490.0", "2990.0", "990.0"]

    offline = LLAMA3_1_8B.scenario("Offline")
    own = performance_figures(offline, DetailLog({}), 4.0, 10, timeline).suite_times_ms
    assert own.keys() == ({"ttft", "tpot"} if by == BY_ENGINE else set())
    if own:
        assert (own["ttft"]["mean"], own["ttft"]["p50"]) == (1500.0, 1000.0)
        assert (own["tpot"]["mean"], own["tpot"]["p99"]) == (750.0, 1000.0)


def test_only_performance_runs_with_times_have_the_file(tmp_path: Path) -> None:
    for mode, timeline in (("accuracy", a_timeline()), ("performance", None)):
        run: Any = SimpleNamespace(key=SimpleNamespace(mode=mode), folder=tmp_path)
        KeptRequests.made(SimpleNamespace(), run, SimpleNamespace(timeline=timeline))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_reports_name_the_suites_times_and_goodput() -> None:
    times = {"mean": 61.5, "p50": 60.0, "p99": 90.0}
    figures = PerformanceFigures(valid=True, latency_ms=times, suite_times_ms={"ttft": times})
    figures = replace(figures, goodput=Goodput(200, 199, beyond_ttft=1, samples_per_sec=12.5))
    summary = Summary(meta=Meta(scenario="Offline"), run=Run(performance=figures))
    for output in reports_of(summary):
        assert "LoadGen reports no TTFT and TPOT in this scenario. Those by the suite" in output
        assert "Goodput: 12.50 samples/s: 99.5% of 200 requests within the limits" in output
    rows = markdown_rows(reports_of(summary)[0])
    assert ["TTFT by the suite, ms", "61.50", "60.00", "90.00"] in rows
    assert ["goodput, samples/s", "12.50"] in rows and ["TTFT p99 by the suite", "90.00 ms"] in rows
    assert "TTFT      p50 60.00 ms, p99 90.00 ms, by the suite\n" in terminal_text(summary)
    unknown = replace(summary, run=Run(performance=replace(figures, suite_times_ms={})))
    assert "the engine did not report every first token" in reports_of(unknown)[0]


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
