"""The command `convert`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mlperf_suite.commands import Subcommand, say
from mlperf_suite.errors import UsageError


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a pickle of a pandas DataFrame")
    parser.add_argument("out", type=Path, metavar="OUT.parquet", help="a new file")


def _convert(arguments: Namespace) -> int:
    from mlperf_suite.features.conversion.parquet_conversion import convert_pickle

    source, out = arguments.file, arguments.out
    if out.suffix != ".parquet":
        raise UsageError(f"convert: {out}: the output name must end in .parquet")
    frame = convert_pickle(source, out)
    say(f"{out}: {frame.rows} rows")
    for name, kind in frame.columns.items():
        say(f"  {name}: {kind}")
    for note in frame.notes:
        say(note)
    say(f"of {source}, sha256 {frame.sha256}")
    return 0


COMMAND = Subcommand(
    "convert a data set published as a pickle to parquet, without executing the pickle",
    _add_options,
    _convert,
)
