"""requests.csv: a row for each answered request of a performance run."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.performance_figures import times_by_engine
from mlperf_suite.results.run_folder import write_whole

REQUESTS_CSV = "requests.csv"
_COUNTS = ("prompt_tokens", "tokens", "preempted")
_TIMES = ("issued", "first_token", "finished", "latency", "ttft", "tpot")
BY_LOADGEN, BY_ENGINE, BY_CLIENT = "LoadGen", "engine", "client"


def write_requests(folder: Path, timeline: Timeline, sent_by: str) -> None:
    """Write requests.csv into a run's folder of logs, atomically, in the order of the requests'
    ends. Times are in ms since the first request was issued; what is not known is empty.

    `first_token_by`: who saw the first token: `sent_by`, or the engine alone.
    The last columns are the parts of the latency. Raises OSError.
    """
    times, by = times_by_engine(timeline), BY_ENGINE
    if times is None:
        times, by = timeline.times, sent_by if timeline.first_token_ms is not None else ""
    columns: dict[str, Iterable[object]] = {"sample": timeline.samples}
    in_ms = (
        *(times.issued_ms, times.first_ms, times.ended_ms),
        *(times.latency_ms, times.ttft_ms, times.tpot_ms),
    )
    columns |= {f"{name}_ms": _cells(of) for name, of in zip(_TIMES, in_ms, strict=True)}
    columns |= {name: getattr(timeline, name) for name in _COUNTS}
    columns["first_token_by"] = [by] * len(times)
    columns |= {f"{_name(part)}_ms": _cells(of) for part, of in timeline.parts_ms.items()}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_whole(folder / REQUESTS_CSV, text.getvalue())


def _name(part: str) -> str:
    return part.replace(" ", "_")


def _cells(values_ms: Iterable[float]) -> list[object]:
    """To the microsecond; nan as an empty cell."""
    rounded = np.round(np.asarray(values_ms, np.float64), 3).tolist()
    return ["" if math.isnan(value) else value for value in rounded]
