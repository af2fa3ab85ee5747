"""Rewrite a run's reports."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mlperf_suite.commands.command import Subcommand, say


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the run's folder")


def _run(arguments: Namespace) -> int:
    from mlperf_suite.reports.writing import refresh_figures, write_reports

    folder: Path = arguments.run
    refresh_figures(folder)
    write_reports(folder)
    say(f"{folder / 'report.md'}\n{folder / 'report.html'}")
    return 0


COMMAND = Subcommand(
    "regenerate a run's reports and plots",
    _add_options,
    _run,
)
