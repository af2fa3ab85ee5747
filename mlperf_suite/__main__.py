"""Commands for after the fact: python -m mlperf_suite report RUN, … compare RUN RUN…"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mlperf_suite.errors import SuiteError, UsageError


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("report", help="make a run's reports and plots again")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.set_defaults(do=_report)


def _report(arguments: argparse.Namespace) -> None:
    from mlperf_suite.reports.writing import refresh_figures, write_reports

    folder: Path = arguments.run
    refresh_figures(folder)
    write_reports(folder)
    print(f"{folder / 'report.md'}\n{folder / 'report.html'}")


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare", help="a table and a plot of runs; the first is what the others are compared with"
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    parser.add_argument(
        "--max-regression", type=float, default=5.0, help="the loss that passes, in percent (5)"
    )
    parser.add_argument("--plot", type=Path, default=Path("compare.png"), help="(compare.png)")
    parser.set_defaults(do=_compare)


def _compare(arguments: argparse.Namespace) -> None:
    from mlperf_suite.reports.comparing import comparison_table, plot_comparison
    from mlperf_suite.results.reference import load_reference

    if len(arguments.runs) < 2:
        raise UsageError("compare: at least two runs")
    allowed: float = arguments.max_regression
    if not 0 <= allowed < 100:
        raise UsageError(f"--max-regression {allowed:g}: allowed is a number from 0 to below 100")
    references = [load_reference(path, "") for path in arguments.runs]
    print(comparison_table(references, allowed / 100))
    plot_comparison(references, arguments.plot)
    print(f"\nplot: {arguments.plot}")


COMMANDS: tuple[Callable[[argparse._SubParsersAction[argparse.ArgumentParser]], None], ...] = (
    _add_report,
    _add_compare,
)
"""Each adds its sub-command, and sets `do` to what it does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, or 2 for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m mlperf_suite", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    parsed = parser.parse_args(arguments)
    try:
        parsed.do(parsed)
    except SuiteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
