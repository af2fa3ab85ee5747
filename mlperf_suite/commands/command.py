"""What a command is, and what several of them do alike."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
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
    """Print lines, which may quote files of others."""
    print("\n".join(map(printable, text.split("\n"))), file=stream)


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
