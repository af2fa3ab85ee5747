"""The commands of the core, and what a command is: `COMMANDS` and what several of them do alike."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from mlperf_suite.errors import UsageError
from mlperf_suite.untrusted_files import printable


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A command of `mlperf-suite`.

    `run` returns its exit status and may raise SuiteError or OSError. `unknown`: what the error
    about an unknown argument adds.
    """

    help: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    unknown: str = ""


def say(text: str, stream: TextIO | None = None) -> None:
    """Print lines, which may quote files of others. Nothing more is printed once nobody reads them:
    the command goes on to its exit status."""
    stream = stream or sys.stdout
    try:
        print("\n".join(map(printable, text.split("\n"))), file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def check_output(option: str, path: Path | None) -> None:
    """Raise UsageError for a name of something other than a regular file, or in a folder that
    cannot be written."""
    if path and (path.is_symlink() or (path.exists() and not path.is_file())):
        raise UsageError.for_option(option, path, "a link, a folder or a device; name a file")
    if path and not os.access(path.absolute().parent, os.W_OK):
        fault = "cannot be written" if path.absolute().parent.is_dir() else "does not exist"
        raise UsageError.for_option(option, path, f"its folder {fault}")


def refuse(reasons: Sequence[str], outcome: str) -> int:
    """Print why a command refuses its input; returns its exit status."""
    for reason in reasons:
        say(f"refused: {reason}", sys.stderr)
    say(outcome, sys.stderr)
    return 2


def _report_options(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the run's folder")


def _report(arguments: Namespace) -> int:
    from mlperf_suite.reports.writing import refresh_figures, write_reports

    folder: Path = arguments.run
    refresh_figures(folder)
    write_reports(folder)
    say(f"{folder / 'report.md'}\n{folder / 'report.html'}")
    return 0


def _setup(_: Namespace) -> int:
    from mlperf_suite.assets import assets_dir, set_up

    set_up()
    say(str(assets_dir()))
    return 0


COMMANDS: Mapping[str, Subcommand] = {
    "report": Subcommand(
        "regenerate a run's reports and plots",
        _report_options,
        _report,
    ),
    "setup": Subcommand(
        "download NLTK's punkt for ROUGE and, if vLLM is installed, the small model",
        lambda _: None,
        _setup,
    ),
}
"""The core's commands, by name."""
