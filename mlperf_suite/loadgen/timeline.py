"""When each request of a run was issued, what it waited for and when it finished.

LoadGen's log has only percentiles. Curves over time, the parts of each request's life and the noise
within a run need every request. Results still use LoadGen's own figures.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from mlperf_suite.benchmarks.request_times import RequestTimes, percentile
from mlperf_suite.engines.protocol import KV_FULL, EngineTrace, RequestTimestamps, Steps
from mlperf_suite.loadgen.request_parts import RequestParts
from mlperf_suite.untrusted_files import read_regular

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The load of the engine. Shares are of the run's time, from 0 to 1; for several replicas,
    their mean.

    `steps`, `replicas`: their number. `busy`: the share in steps. `prefill`: in steps that finished
    a prompt. `waiting`: in steps that left requests waiting. `kv_full`: in steps after which at
    least 95% of the KV cache was in use; `kv_most`: the highest share of the cache in use.
    `batch_full`: in steps of at least `batch_limit` requests, None if no limit is known;
    `batch_mean` (over the busy time), `batch_most`: requests per step. `preemptions`: the number of
    preemptions. `accepted_tokens`: draft tokens accepted, of `drafted_tokens` (speculative
    decoding). `tail`: the share in which at least one replica had finished its last step and
    another had not.
    """

    steps: int = 0
    busy: float = 0.0
    prefill: float = 0.0
    waiting: float = 0.0
    kv_full: float = 0.0
    kv_most: float = 0.0
    batch_full: float | None = None
    batch_limit: int | None = None
    batch_mean: float = 0.0
    batch_most: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    replicas: int = 1
    tail: float = 0.0


TIMELINE_JSON = "timeline.json"
SCHEMA_VERSION = 2
"""Since 2: samples, prompt_tokens, preempted, parts_ms, from_loadgen, load; no phases_ms."""
TOKEN_BLOCKS = 20
"""The number of blocks of equal work into which a run is cut; their spread is its noise."""
_MAX_STEPS = 1200
_PER_BLOCK = 4
_TYPECODES = {
    **{"issued_ms": "d", "first_token_ms": "d", "finished_ms": "d", "tokens": "i"},
    **{"samples": "i", "prompt_tokens": "i", "preempted": "i"},
    **{"made_ms": "d", "made_tokens": "q", "running": "i", "waiting": "i", "kv_share": "d"},
}
"""Of each column's array, in the order of the file."""
_MAX_TIMELINE_BYTES = 2**30
_NO_COLUMN = msgspec.Raw(b"null")
_MAX_VALUE = 1e15
"""No time of a run in ms, and no count, is as large."""
_MAX_PARTS = 16
"""More than the parts of a request that any engine and client tell apart."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One row per request, in the order of their ends; times in ms since the first was issued.

    `from_loadgen`: whether `issued_ms` is the instant from which LoadGen counts its latency, rather
    than its call of the SUT. `first_token_ms`: None if the run does not stream. `samples`: indices
    of the QSL. `preempted`: how often each request was preempted. `samples`, `prompt_tokens` and
    `preempted` are empty in the timeline of an older suite. `parts_ms`: how long each part of a
    request took, by name and in order; their sum is its latency. `made_ms` and `made_tokens`:
    times, and the output tokens that the engine had made by then over all requests; `running`,
    `waiting` and `kv_share` are at the same times. `load`: None without a report of steps.
    """

    issued_ms: Sequence[float]
    first_token_ms: Sequence[float] | None
    finished_ms: Sequence[float]
    tokens: Sequence[int]
    made_ms: Sequence[float] = ()
    made_tokens: Sequence[int] = ()
    running: Sequence[int] = ()
    waiting: Sequence[int] = ()
    kv_share: Sequence[float] = ()
    samples: Sequence[int] = ()
    prompt_tokens: Sequence[int] = ()
    preempted: Sequence[int] = ()
    parts_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    from_loadgen: bool = False
    load: EngineLoad | None = None

    @property
    def times(self) -> RequestTimes:
        """The times of the requests."""
        import numpy as np

        first = self.first_token_ms
        return RequestTimes(
            np.asarray(self.issued_ms, np.float64),
            np.full(len(self.tokens), np.nan) if first is None else np.asarray(first, np.float64),
            np.asarray(self.finished_ms, np.float64),
            np.asarray(self.tokens, np.int64),
        )

    @property
    def latency_ms(self) -> list[float]:
        """As in `RequestTimes`."""
        return list(self.times.latency_ms.tolist())

    @property
    def ttft_ms(self) -> list[float] | None:
        """As in `RequestTimes`."""
        return None if self.first_token_ms is None else list(self.times.ttft_ms.tolist())

    @property
    def tpot_ms(self) -> list[float] | None:
        """As in `RequestTimes`, of the answers that have one."""
        if self.first_token_ms is None:
            return None
        return [ms for ms in self.times.tpot_ms.tolist() if not math.isnan(ms)]

    def made_so_far(self) -> tuple[list[float], list[int]]:
        """Times in ms and the tokens made by then: the engine's, or those of finished requests."""
        if self.made_ms:
            return list(self.made_ms), list(self.made_tokens)
        return list(self.finished_ms), list(itertools.accumulate(self.tokens))

    def blocks(self) -> dict[str, list[float]]:
        """The run cut into blocks: for each metric, its value in each block, in order.

        `tokens_per_sec`: TOKEN_BLOCKS blocks of equal tokens. `ttft_ms` and `tpot_ms`: the 99th
        percentile of blocks of consecutive requests, `ttft_p50_ms` and `tpot_p50_ms` their median.
        Two runs with the same seeds do the same work in the same block. Metrics for which the run
        is too short are left out.
        """
        import numpy as np

        blocks: dict[str, list[float]] = {}
        times, token_counts = self.made_so_far()
        if len(times) >= TOKEN_BLOCKS and token_counts[-1] > 0:
            edges = np.linspace(0, token_counts[-1], TOKEN_BLOCKS + 1)
            seconds = np.diff(np.interp(edges, [0, *token_counts], [0, *times])) / 1000
            if (seconds > 0).all():
                rates = np.diff(edges) / seconds
                blocks["tokens_per_sec"] = [round(float(rate), 4) for rate in rates]
        of_requests = self.times
        order = np.argsort(of_requests.issued_ms, kind="stable")
        for name, values in (("ttft", of_requests.ttft_ms), ("tpot", of_requests.tpot_ms)):
            if np.isnan(values).any():
                continue
            count = min(TOKEN_BLOCKS, len(values) // _PER_BLOCK)
            if count * 2 >= TOKEN_BLOCKS:
                parts = [np.sort(part) for part in np.array_split(values[order], count)]
                blocks[f"{name}_ms"] = [round(percentile(part, 0.99), 4) for part in parts]
                blocks[f"{name}_p50_ms"] = [round(percentile(part, 0.5), 4) for part in parts]
        return {name: values for name, values in blocks.items() if min(values) > 0}


def timeline_of(
    rows: RequestParts,
    trace: EngineTrace | None,
    prompt_lengths: Sequence[int],
    batch_limit: int | None = None,
) -> Timeline:
    """The timeline of a run from its requests' parts.

    `prompt_lengths`: in tokens, by sample index. `batch_limit`: the most requests that a step of
    the engine can hold.
    """
    import numpy as np

    start = float(rows.issued_s.min())
    order = np.argsort(rows.answer_s, kind="stable")
    ends = itertools.accumulate(rows.parts_s.values())
    edges = [rows.issued_s, *(rows.issued_s + end for end in ends)]
    # Round first and subtract then, so that the parts add up to the latency to the last digit.
    edges_ms = [np.round((edge[order] - start) * 1000, 3) for edge in edges]
    parts = {
        name: _floats(after - before)
        for name, (before, after) in zip(rows.parts_s, itertools.pairwise(edges_ms), strict=True)
    }
    samples = rows.samples[order]
    steps = trace.steps if trace else Steps()
    rows_kept, made_ms, made_tokens = _token_curve(steps, start)
    timestamps = trace.timestamps if trace else None
    return Timeline(
        _floats(edges_ms[0]),
        None if rows.first_s is None else _floats((rows.first_s[order] - start) * 1000),
        _floats(edges_ms[-1]),
        array("i", rows.tokens[order].tolist()),
        made_ms,
        made_tokens,
        running=_column(steps.running, rows_kept),
        waiting=_column(steps.waiting, rows_kept),
        kv_share=_column(steps.kv_share, rows_kept),
        samples=array("i", samples.tolist()),
        prompt_tokens=array("i", np.asarray(prompt_lengths)[samples].tolist()),
        preempted=array("i", rows.preempted[order].tolist()),
        parts_ms=parts,
        from_loadgen=rows.from_loadgen,
        load=load_of(steps, timestamps, start, float(rows.answer_s.max()), batch_limit),
    )


def _floats(values: Any) -> array[float]:
    """Times in ms to the microsecond."""
    return array("d", [round(value, 3) for value in values.tolist()])


def _column(values: Any, rows_kept: Sequence[int]) -> Any:
    return array("d" if values.typecode == "f" else values.typecode, [values[k] for k in rows_kept])


def _token_curve(steps: Steps, start: float) -> tuple[Sequence[int], array[float], array[int]]:
    """The rows of the steps that are kept, their times and the tokens made by then."""
    import numpy as np

    if not steps.ended_s:
        return (), array("d"), array("q")
    # Enough points for any plot and block; a ten-minute run has tens of thousands of steps.
    count = len(steps.ended_s)
    rows_kept = np.unique(np.linspace(0, count - 1, _MAX_STEPS).astype(int))
    times = (np.asarray(steps.ended_s)[rows_kept] - start) * 1000
    token_counts = np.cumsum(np.asarray(steps.tokens, dtype=np.int64))[rows_kept]
    rows = rows_kept.tolist() if steps.running else []
    return rows, _floats(times), array("q", token_counts.tolist())


def write_timeline(folder: Path, timeline: Timeline) -> None:
    """Write timeline.json into a run's folder of logs, each column on its own line."""
    load = None if timeline.load is None else dataclasses.asdict(timeline.load)
    with (folder / TIMELINE_JSON).open("w") as file:
        file.write(f'{{"schema_version":{SCHEMA_VERSION},\n')
        file.write(f'"from_loadgen":{json.dumps(timeline.from_loadgen)},\n')
        file.write(f'"load":{json.dumps(load)}')
        for name in _TYPECODES:
            file.write(",\n")
            _write(file, name, getattr(timeline, name))
        file.write(',\n"parts_ms":{')
        for number, (name, values) in enumerate(timeline.parts_ms.items()):
            file.write(",\n" if number else "\n")
            _write(file, name, values)
        file.write("}}\n")


def _write(file: TextIO, name: str, values: Sequence[float] | None) -> None:
    """Write one column at a time: a million rows are a hundred megabytes of text."""
    text = "null" if values is None else json.dumps(list(values), separators=(",", ":"))
    file.write(f"{json.dumps(name)}:{text}")


class _File(msgspec.Struct):
    """timeline.json, its columns as texts: all of them as Python's numbers would take several times
    the memory."""

    issued_ms: msgspec.Raw
    first_token_ms: msgspec.Raw
    finished_ms: msgspec.Raw
    tokens: msgspec.Raw
    made_ms: msgspec.Raw = _NO_COLUMN
    made_tokens: msgspec.Raw = _NO_COLUMN
    running: msgspec.Raw = _NO_COLUMN
    waiting: msgspec.Raw = _NO_COLUMN
    kv_share: msgspec.Raw = _NO_COLUMN
    samples: msgspec.Raw = _NO_COLUMN
    prompt_tokens: msgspec.Raw = _NO_COLUMN
    preempted: msgspec.Raw = _NO_COLUMN
    parts_ms: dict[str, msgspec.Raw] = {}
    from_loadgen: bool = False
    load: EngineLoad | None = None


def read_timeline(folder: Path) -> Timeline | None:
    """The timeline of a folder of logs; None if there is none, or it cannot be read."""
    try:
        raw = read_regular(folder / TIMELINE_JSON, _MAX_TIMELINE_BYTES)
        file = msgspec.json.decode(raw, type=_File)
        columns: dict[str, Any] = {
            name: _column_read(getattr(file, name), code) for name, code in _TYPECODES.items()
        }
        if bytes(file.first_token_ms) == b"null":
            columns["first_token_ms"] = None
        parts = {name: _column_read(text, "d") for name, text in file.parts_ms.items()}
    except (OSError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    timeline = Timeline(**columns, parts_ms=parts, from_loadgen=file.from_loadgen, load=file.load)
    return timeline if _is_consistent(timeline) else None


def _column_read(text: msgspec.Raw, code: str) -> array[Any]:
    """A column's array of that typecode; empty if it is null. Raises DecodeError, or OverflowError
    for a number that the array cannot hold."""
    kind = list[float] if code == "d" else list[int]
    return array(code, msgspec.json.decode(text, type=kind | None) or ())


def _is_consistent(timeline: Timeline) -> bool:
    """Whether columns that belong together have as many rows, or none if they are optional, and
    every value can be one of a run."""
    import numpy as np

    issued, first = timeline.issued_ms, timeline.first_token_ms
    of_requests = (issued, first, timeline.finished_ms, timeline.tokens)
    columns = [column for column in of_requests if column is not None]
    rows, points = len(issued), len(timeline.made_ms)
    counts = (timeline.samples, timeline.prompt_tokens, timeline.preempted)
    curves = (timeline.running, timeline.waiting, timeline.kv_share)
    times = (*columns, timeline.made_ms, timeline.kv_share, *timeline.parts_ms.values())
    return (
        rows > 0
        and len(timeline.parts_ms) <= _MAX_PARTS
        and all(np.abs(column).max(initial=0) < _MAX_VALUE for column in times)
        and {len(column) for column in (*columns, *timeline.parts_ms.values())} == {rows}
        and {len(column) for column in counts} in ({0}, {rows})
        and len(timeline.made_tokens) == points
        and {len(column) for column in curves} in ({0}, {points})
    )


# How busy the engine was


def load_of(
    steps: Steps,
    timestamps: RequestTimestamps | None,
    begin_s: float,
    end_s: float,
    batch_limit: int | None,
) -> EngineLoad | None:
    """The load of a run, from its steps; None if the engine does not report batches.

    `begin_s`, `end_s`: of the run, in s of time.monotonic. `batch_limit`: the most requests that
    fit into a step of the engine.
    """
    import numpy as np

    if not steps.prompt_tokens or end_s <= begin_s:
        return None
    columns = {
        name: np.asarray(getattr(steps, name))
        for name in ("ended_s", "prompt_tokens", "running", "waiting", "kv_share", "replica")
    }
    durations = _durations(steps, timestamps, begin_s)
    replicas = np.unique(columns["replica"])
    whole = (end_s - begin_s) * len(replicas)

    def share(where: npt.NDArray[np.bool_]) -> float:
        return round(min(1.0, float(durations[where].sum()) / whole), 6)

    running, busy_s = columns["running"], float(durations.sum())
    ends_s = [columns["ended_s"][columns["replica"] == replica_id] for replica_id in replicas]
    lasts = [float(of_replica.max()) for of_replica in ends_s]
    full = None if batch_limit is None else share(running >= batch_limit)
    return EngineLoad(
        steps=len(durations),
        busy=share(durations > 0),
        prefill=share(columns["prompt_tokens"] > 0),
        waiting=share(columns["waiting"] > 0),
        kv_full=share(columns["kv_share"] >= KV_FULL),
        kv_most=round(float(columns["kv_share"].max()), 6),
        batch_full=full,
        batch_limit=batch_limit,
        batch_mean=round(float((running * durations).sum()) / busy_s, 4) if busy_s else 0.0,
        batch_most=int(running.max()),
        preemptions=sum(steps.preempted),
        prompt_tokens=sum(steps.prompt_tokens),
        output_tokens=sum(steps.tokens),
        drafted_tokens=sum(steps.drafted),
        accepted_tokens=sum(steps.accepted),
        replicas=len(replicas),
        tail=round(max(0.0, max(lasts) - min(lasts)) / (end_s - begin_s), 6),
    )


def _durations(steps: Steps, timestamps: RequestTimestamps | None, begin_s: float) -> Doubles:
    """How long each step took, in s, since the previous step of the same replica.

    A step that found no work left began when the next request was queued, if the engine reports
    that; otherwise it is assumed to have begun with the end of the previous step.
    """
    import numpy as np

    end_s, replica = np.asarray(steps.ended_s), np.asarray(steps.replica)
    load_left = np.asarray(steps.running) - np.asarray(steps.finished) + np.asarray(steps.waiting)
    queued = np.asarray(
        timestamps.times_s[0] if timestamps is not None and len(timestamps.tags) else ()
    )
    queued = np.sort(queued[np.isfinite(queued)])
    began = np.empty(len(end_s))
    for replica_id in np.unique(replica):
        rows = np.flatnonzero(replica == replica_id)
        before = np.concatenate(([begin_s], end_s[rows][:-1]))
        idle = np.concatenate(([True], load_left[rows][:-1] <= 0))
        if len(queued):
            places = np.minimum(np.searchsorted(queued, before), len(queued) - 1)
            following = np.clip(queued[places], before, np.maximum(end_s[rows], before))
            before = np.where(idle, following, before)
        began[rows] = before
    return np.maximum(end_s - began, 0.0)
