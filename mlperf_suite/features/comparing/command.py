"""Compare runs: tables, a plot, a page, files for other programs, and a gate."""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mlperf_suite.commands import Subcommand, check_output, say
from mlperf_suite.errors import UsageError
from mlperf_suite.features.comparing.run_places import run_places

_COLUMNS = 100
"""Of a terminal that is as wide, and of output that is kept."""


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help=", or ".join(["folders of runs", *(place.usage for place in run_places())]),
    )
    parser.add_argument(
        "--measured",
        metavar="WORDS",
        default="",
        help="of results in a tracker, only those of this benchmark and scenario, such as "
        "'llama3.1-8b Offline' or offline",
    )
    parser.add_argument(
        "--max-regression", type=float, default=5.0, help="largest loss that passes, in percent (5)"
    )
    parser.add_argument(
        "--plot", type=Path, default=Path("compare.png"), help="file for the plot (compare.png)"
    )
    for flag, words in (
        ("--html", "an HTML page, with the answers that differ most"),
        ("--csv", "each metric of each run as a row"),
        ("--json", "runs, settings that differ, and metrics"),
    ):
        parser.add_argument(flag, type=Path, metavar="FILE", help=f"also write {words}")
    parser.add_argument(
        "--gate",
        action="store_true",
        help="exit with status 1 if a run lost more than --max-regression and more than the noise, "
        "is not comparable with the first, or is too noisy to show the loss of half of the speed",
    )
    parser.add_argument(
        "--fail-on-cannot-tell",
        action="store_true",
        help="with --gate, exit with status 1 also where the noise could hide a loss",
    )
    parser.add_argument(
        "--baseline-allow-different",
        action="store_true",
        help="with --gate, compare even if a run has a different model, hardware, profile or round",
    )


def _run(arguments: Namespace) -> int:
    with TemporaryDirectory(prefix="mlperf-compare-") as room:
        return _compare(arguments, Path(room))


def _compare(arguments: Namespace, room: Path) -> int:
    from mlperf_suite.features.comparing.compared_runs import compared_runs
    from mlperf_suite.features.comparing.comparison import (
        PLOT_FORMATS,
        comparison_of,
        comparison_sections,
        gate_lines,
        plot_comparison,
    )
    from mlperf_suite.features.comparing.comparison_files import comparison_csv, comparison_json
    from mlperf_suite.reports.html import html_page
    from mlperf_suite.reports.markdown import markdown_text
    from mlperf_suite.results.run_folder import write_whole

    percent: float = arguments.max_regression
    if not 0 <= percent < 100:
        raise UsageError(f"--max-regression {percent:g}: must be a number from 0 to below 100")
    if arguments.plot.suffix.lower() not in PLOT_FORMATS:
        raise UsageError.for_option(
            "--plot", arguments.plot, f"must be one of {', '.join(PLOT_FORMATS)}"
        )
    for name in ("plot", "html", "csv", "json"):
        check_output(f"--{name}", getattr(arguments, name))
    runs = compared_runs(arguments.runs, arguments.measured, room)
    comparison = comparison_of(runs, percent / 100)
    sections = comparison_sections(comparison)
    columns = min(_COLUMNS, shutil.get_terminal_size((_COLUMNS, 0)).columns)
    say(markdown_text(sections, terminal=columns if sys.stdout.isatty() else _COLUMNS))
    plot_comparison(comparison, arguments.plot)
    say(f"plot: {arguments.plot}")
    for what, path, written in (
        ("page", arguments.html, partial(html_page, sections)),
        ("table", arguments.csv, partial(comparison_csv, comparison)),
        ("data", arguments.json, partial(comparison_json, comparison)),
    ):
        if path:
            write_whole(path, written())
            say(f"{what}: {path}")
    if not arguments.gate:
        return 0
    lines = gate_lines(
        comparison,
        allow_different=arguments.baseline_allow_different,
        fails_unknown=arguments.fail_on_cannot_tell,
    )
    for line in lines:
        say(f"gate: {line}")
    return 1 if lines else 0


COMMAND = Subcommand(
    "compare runs: what differs, a table, a plot, a page; the first is the reference",
    _add_options,
    _run,
)
