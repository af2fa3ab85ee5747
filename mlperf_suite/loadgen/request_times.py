"""The times of a run's requests as arrays, for what is computed of many runs together.

A timeline's whole content takes a hundred bytes a request as Python's objects; of the few columns
that are needed here each takes eight.
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
"""A time may seem that much less than nothing, since LoadGen's instants are found to that."""


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """A row for each request that was answered, in the order of their ends; times in ms.

    `from_loadgen`: whether they count from LoadGen's own issue, as its log does; else from its call
    of the SUT. `ttft_ms` and `tpot_ms` as `Timeline` has them: None where the run does not stream,
    and TPOT of answers of two tokens and more. `tokens`: of all answers.
    """

    from_loadgen: bool
    latency_ms: Doubles
    ttft_ms: Doubles | None
    tpot_ms: Doubles | None
    tokens: int

    def __len__(self) -> int:
        return len(self.latency_ms)


def read_request_times(folder: Path) -> RequestTimes | None:
    """The requests of a folder of logs; None where its timeline is missing or damaged."""
    try:
        return _times(_by_line(folder / TIMELINE_JSON))
    except OSError:
        return None
    except ValueError:
        # Of an older suite, or written again by another program; or damaged, which shows there.
        timeline = read_timeline(folder)
        return None if timeline is None else _times(_of_timeline(timeline))


def _by_line(path: Path) -> dict[str, Any]:
    """The columns by name, of a file that has each on a line of its own.

    Raises OSError, and ValueError where it has not, or one holds anything but numbers.
    """
    found: dict[str, Any] = {}
    with path.open("rb") as file:
        for line in file:
            name, colon, value = line.partition(b":")
            key = name.decode("utf-8", "replace").strip().strip('"')
            if colon and key in (*_COLUMNS, _FROM_LOADGEN) and key not in found:
                value = value.strip().removesuffix(b",")
                found[key] = _column(value) if key in _COLUMNS else json.loads(value)
    if not all(name in found for name in _COLUMNS):
        raise ValueError("not a line for each column")
    return found


def _column(text: bytes) -> Doubles | None:
    """A JSON list of numbers; None of null. Raises ValueError for anything else."""
    import numpy as np

    if text == b"null":
        return None
    if not (text.startswith(b"[") and text.endswith(b"]")):
        raise ValueError("no list")
    with warnings.catch_warnings():
        # That of text which ends before its numbers do.
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


def _times(found: Mapping[str, Any]) -> RequestTimes | None:
    """None for columns of unequal lengths, without rows, or with times that cannot be."""
    import numpy as np

    issued, first, ended, tokens = (found[name] for name in _COLUMNS)
    columns = [column for column in (issued, first, ended, tokens) if column is not None]
    if len(columns) < len(_COLUMNS) - (first is None) or not len(issued):
        return None
    if any(len(c) != len(issued) or not np.isfinite(c).all() for c in columns):
        return None
    latency = ended - issued
    ttft = tpot = None
    if first is not None:
        ttft, rest, several = first - issued, ended - first, tokens > 1
        tpot = rest[several] / (tokens[several] - 1)
    kinds = [kind for kind in (latency, ttft, tpot) if kind is not None]
    if (tokens < 0).any() or any((kind < _EARLIEST_MS).any() for kind in kinds):
        return None
    is_from = found.get(_FROM_LOADGEN) is True
    return RequestTimes(is_from, latency, ttft, tpot, int(tokens.sum()))
