"""Renders records as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from mlperf_suite.untrusted_files import printable

_FORMULA = ("=", "+", "-", "@")
"""How a cell begins that a spreadsheet computes."""


def csv_text(names: Sequence[str], records: Sequence[Mapping[str, object]]) -> str:
    """A line of names and one for each record, whose other members are left out. A text that a
    spreadsheet would take for a formula gets an apostrophe before it."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(record.get(name)) for name in names} for record in records)
    return lines.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(" ".join(value.split()))
    return f"'{text}" if text.startswith(_FORMULA) else text
