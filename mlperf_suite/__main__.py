"""The command `mlperf-suite` runs pytest on the suite's tests, or one of the commands below.

Without a command, all arguments are pytest's, as in `mlperf-suite -m offline`.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module

from mlperf_suite.commands import COMMANDS, Subcommand, say
from mlperf_suite.errors import SuiteError, os_error_line
from mlperf_suite.feature import features


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, or pytest where the first argument names none, and return the exit status.

    Of a command: 0 for success, 1 for a comparison with a loss, a submission that a person must
    still complete or a replay with missing turns, 2 for an error, 130 for a tuning that was
    interrupted, 143 for a command that SIGTERM ended.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    modules = {name: place for of in features() for name, place in of.commands.items()}
    if not arguments or arguments[0] not in (*COMMANDS, *modules, "-h", "--help"):
        from mlperf_suite.plugin.command import run_tests

        return run_tests(arguments)
    of_features = {name: import_module(module).COMMAND for name, module in modules.items()}
    return _run(arguments, {**COMMANDS, **of_features})


def _run(arguments: Sequence[str], commands: dict[str, Subcommand]) -> int:
    parser = argparse.ArgumentParser(
        prog="mlperf-suite",
        description=f"{__doc__} `mlperf-suite -m offline --help` shows pytest's options.",
    )
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, entry in sorted(commands.items()):
        own = parsers.add_parser(name, help=entry.help)
        entry.add_options(own)
        own.set_defaults(command=entry)
    options, unknown = parser.parse_known_args(arguments)
    command: Subcommand = options.command
    if unknown:
        words = f"{arguments[0]}: unrecognized arguments: {' '.join(unknown)}"
        parser.error(words + command.unknown)
    try:
        with _removes_its_files():
            return command.run(options)
    except SuiteError as error:
        say(f"error: {error}", sys.stderr)
        return 2
    except OSError as error:
        say(f"error: {os_error_line(error, 'the system')}", sys.stderr)
        return 2


@contextlib.contextmanager
def _removes_its_files() -> Iterator[None]:
    """SIGTERM exits as an error does: what a command made for itself alone is removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
