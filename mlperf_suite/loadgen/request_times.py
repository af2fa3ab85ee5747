"""The times of a run's requests as arrays, for computations over many runs.

The whole content of a timeline takes a hundred bytes per request as Python objects; each of the few
columns needed here takes eight.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.loadgen.timeline import TIMELINE_JSON, Timeline, read_timeline

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

_ISSUED, _FIRST, _ENDED, _TOKENS = "issued_ms", "first_token_ms", "finished_ms", "tokens"
_COLUMNS = (_ISSUED, _FIRST, _ENDED, _TOKENS)
_FROM_LOADGEN = "from_loadgen"
_EARLIEST_MS = -1.0
"""How far below zero a time may appear: LoadGen's instants are derived with that accuracy."""


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """One row per answered request, in the order of their ends; times in ms.

    `from_loadgen`: whether times count from LoadGen's own issue, as in its log, rather than from
    its call of the SUT. `ttft_ms` and `tpot_ms`: as in `Timeline`; None if the run does not stream,
    and TPOT only for answers of two or more tokens. `tokens`: of all answers.
    """

    from_loadgen: bool
    latency_ms: Doubles
    ttft_ms: Doubles | None
    tpot_ms: Doubles | None
    tokens: int

    def __len__(self) -> int:
        return len(self.latency_ms)


def read_request_times(folder: Path) -> RequestTimes | None:
    """The requests of a folder of logs; None if its timeline is missing or damaged."""
    try:
        return _times(_by_line(folder / TIMELINE_JSON))
    except OSError:
        return None
    except ValueError:
        # Written by an older suite or by another program, or damaged, which shows here.
        timeline = read_timeline(folder)
        return None if timeline is None else _times(_of_timeline(timeline))


def _by_line(path: Path) -> dict[str, Any]:
    """The columns by name, from a file that has each column on its own line.

    Raises OSError, and ValueError for another format or a column that holds anything but numbers.
    """
    columns: dict[str, Any] = {}
    with path.open("rb") as file:
        for line in file:
            name, colon, value = line.partition(b":")
            key = name.decode("utf-8", "replace").strip().strip('"')
            if colon and key in (*_COLUMNS, _FROM_LOADGEN) and key not in columns:
                value = value.strip().removesuffix(b",")
                columns[key] = _column(value) if key in _COLUMNS else json.loads(value)
    if not all(name in columns for name in _COLUMNS):
        raise ValueError("not a line for each column")
    return columns


def _column(text: bytes) -> Doubles | None:
    """A JSON list of numbers; None for null. Raises ValueError for anything else."""
    import numpy as np

    if text == b"null":
        return None
    if not (text.startswith(b"[") and text.endswith(b"]")):
        raise ValueError("no list")
    with warnings.catch_warnings():
        # numpy's warning about text left after the last number.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text[1:-1].decode("ascii"), dtype=np.float64, sep=",")
        except DeprecationWarning as damage:
            raise ValueError(str(damage)) from damage


def _of_timeline(timeline: Timeline) -> dict[str, Any]:
    import numpy as np

    columns: dict[str, Any] = {
        name: None if values is None else np.asarray(values, dtype=np.float64)
        for name, values in ((name, getattr(timeline, name)) for name in _COLUMNS)
    }
    return {**columns, _FROM_LOADGEN: timeline.from_loadgen}


def _times(by_name: Mapping[str, Any]) -> RequestTimes | None:
    """None if columns have unequal lengths or no rows, or if their times are impossible."""
    import numpy as np

    issue_ms, first, end_ms, tokens = (by_name[name] for name in _COLUMNS)
    columns = [column for column in (issue_ms, first, end_ms, tokens) if column is not None]
    if len(columns) < len(_COLUMNS) - (first is None) or not len(issue_ms):
        return None
    if any(len(c) != len(issue_ms) or not np.isfinite(c).all() for c in columns):
        return None
    latency = end_ms - issue_ms
    ttft = tpot = None
    if first is not None:
        ttft, rest, has_rest = first - issue_ms, end_ms - first, tokens > 1
        tpot = rest[has_rest] / (tokens[has_rest] - 1)
    kinds = [kind for kind in (latency, ttft, tpot) if kind is not None]
    if (tokens < 0).any() or any((kind < _EARLIEST_MS).any() for kind in kinds):
        return None
    is_from = by_name.get(_FROM_LOADGEN) is True
    return RequestTimes(is_from, latency, ttft, tpot, int(tokens.sum()))
