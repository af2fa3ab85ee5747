"""Compare runs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mlperf_suite.commands.command import Subcommand, check_output, say
from mlperf_suite.errors import UsageError


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    parser.add_argument(
        "--max-regression", type=float, default=5.0, help="largest loss that passes, in percent (5)"
    )
    parser.add_argument(
        "--plot", type=Path, default=Path("compare.png"), help="file for the plot (compare.png)"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write an HTML page, with the answers that differ most",
    )
    parser.add_argument(
        "--gate",
        action="store_true",
        help="exit with status 1 if a run lost more than --max-regression and more than the noise, "
        "is not comparable with the first, or is too noisy to show the loss of half of the speed",
    )
    parser.add_argument(
        "--baseline-allow-different",
        action="store_true",
        help="with --gate, compare even if a run has a different model, hardware, profile or round",
    )


def _run(arguments: Namespace) -> int:
    from mlperf_suite.reports.comparison import (
        PLOT_FORMATS,
        comparison_sections,
        gate_lines,
        plot_comparison,
    )
    from mlperf_suite.reports.html import html_page
    from mlperf_suite.reports.markdown import markdown_text
    from mlperf_suite.results.baseline import load_baseline
    from mlperf_suite.results.run_folder import write_whole

    if len(arguments.runs) < 2:
        raise UsageError("compare: needs at least two runs")
    percent: float = arguments.max_regression
    if not 0 <= percent < 100:
        raise UsageError(f"--max-regression {percent:g}: must be a number from 0 to below 100")
    if arguments.plot.suffix.lower() not in PLOT_FORMATS:
        raise UsageError.for_option(
            "--plot", arguments.plot, f"must be one of {', '.join(PLOT_FORMATS)}"
        )
    check_output("--plot", arguments.plot)
    check_output("--html", arguments.html)
    first, rest = load_baseline(arguments.runs[0], ""), arguments.runs[1:]
    runs = [first, *(load_baseline(path, "", needs_figures=False) for path in rest)]
    sections = comparison_sections(runs, percent / 100)
    say(markdown_text(sections, headings=False))
    plot_comparison(runs, arguments.plot)
    say(f"plot: {arguments.plot}")
    if arguments.html:
        write_whole(arguments.html, html_page(sections))
        say(f"page: {arguments.html}")
    if not arguments.gate:
        return 0
    allow = arguments.baseline_allow_different
    lines = gate_lines(runs, percent / 100, allow_different=allow)
    for line in lines:
        say(f"gate: {line}")
    return 1 if lines else 0


COMMAND = Subcommand(
    "compare runs in a table, a plot and a page; the first is the reference",
    _add_options,
    _run,
)
