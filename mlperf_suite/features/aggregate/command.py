"""Combine the runs of several nodes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path

from mlperf_suite.commands import Subcommand, refuse, say
from mlperf_suite.errors import RefusedError
from mlperf_suite.results.run_folder import check_new


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folders of runs, with the same scenarios for each node",
    )
    parser.add_argument(
        "--one",
        nargs="+",
        type=Path,
        default=[],
        metavar="RUN",
        help="folders of runs of one node while the others are idle, for the scaling efficiency; "
        "several give its interval",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="a new folder for the result (aggregate-<time> in the current folder)",
    )


def _run(arguments: Namespace) -> int:
    from rich.console import Console

    from mlperf_suite.features.aggregate.aggregate import aggregate_runs
    from mlperf_suite.features.aggregate.aggregate_report import (
        aggregate_sections,
        write_aggregate,
        write_aggregate_reports,
    )
    from mlperf_suite.reports.terminal import terminal_view

    time = datetime.now(UTC).astimezone()
    out: Path = arguments.out or Path(f"aggregate-{time:%Y%m%d-%H%M%S}")
    check_new(out, "--out")
    try:
        aggregate = aggregate_runs(arguments.runs, time, arguments.one)
    except RefusedError as error:
        return refuse(error.reasons, "no aggregate was written")
    out.mkdir(parents=True, exist_ok=True)
    paths = [*write_aggregate(out, aggregate), *write_aggregate_reports(out, aggregate)]
    brief = (block for section in aggregate_sections(aggregate) for block in section.brief)
    Console(highlight=False).print(terminal_view(brief))
    for path in paths:
        say(str(path))
    return 0


COMMAND = Subcommand(
    "combine the independent runs of several nodes: summed rates, percentiles over "
    "all requests; not an MLPerf result",
    _add_options,
    _run,
)
