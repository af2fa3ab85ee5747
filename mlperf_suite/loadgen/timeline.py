"""When each request of a run came, began to be answered and was done, as the SUT saw it.

LoadGen's log has percentiles only; curves over time and the noise within a run need every request.
The figures that count stay LoadGen's own.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.engines.protocol import EngineTrace

TIMELINE_JSON = "timeline.json"
SCHEMA_VERSION = 1
TOKEN_BLOCKS = 20
"""Parts of equal work that a run is cut into; its noise is how far they lie apart."""
_MAX_STEPS = 1200
_PER_BLOCK = 4
_NAMES = ("issued_ms", "first_token_ms", "finished_ms", "tokens")


@dataclass(frozen=True, slots=True)
class Timeline:
    """One row for each request, in the order of their ends; times in ms since the first was issued.

    `first_token_ms` is None where the run does not stream. `made_ms` and `made_tokens`: the output
    tokens that the engine had made by then, all requests together. `phases_ms`: by name (queue,
    prefill, decode) the time of each request in it; both are empty where the engine does not tell.
    """

    issued_ms: tuple[float, ...]
    first_token_ms: tuple[float, ...] | None
    finished_ms: tuple[float, ...]
    tokens: tuple[int, ...]
    made_ms: tuple[float, ...] = ()
    made_tokens: tuple[int, ...] = ()
    phases_ms: dict[str, tuple[float, ...]] | None = None

    @property
    def latency_ms(self) -> list[float]:
        """From issue to end."""
        return [end - start for start, end in zip(self.issued_ms, self.finished_ms, strict=True)]

    @property
    def ttft_ms(self) -> list[float] | None:
        """From issue to the first token, where the run streams."""
        if self.first_token_ms is None:
            return None
        return [f - start for start, f in zip(self.issued_ms, self.first_token_ms, strict=True)]

    @property
    def tpot_ms(self) -> list[float] | None:
        """From the first token to the end, for each token after the first; streaming runs only."""
        if self.first_token_ms is None:
            return None
        rows = zip(self.first_token_ms, self.finished_ms, self.tokens, strict=True)
        return [(end - first) / (n - 1) for first, end, n in rows if n > 1]

    def made_so_far(self) -> tuple[list[float], list[int]]:
        """Times in ms and the tokens made by then: the engine's, or those of finished requests."""
        if self.made_ms:
            return list(self.made_ms), list(self.made_tokens)
        return list(self.finished_ms), list(itertools.accumulate(self.tokens))

    def blocks(self) -> dict[str, list[float]]:
        """The run cut into blocks: by metric, its value in each, in order.

        `tokens_per_sec`: TOKEN_BLOCKS blocks of equal tokens. `ttft_ms` and `tpot_ms`: the 99th
        percentile of blocks of consecutive requests. Two runs of the same seeds do the same work in
        the same block. A metric that the run is too short to be cut for is left out.
        """
        import numpy as np

        found: dict[str, list[float]] = {}
        times, made = self.made_so_far()
        if len(times) >= TOKEN_BLOCKS and made[-1] > 0:
            edges = np.linspace(0, made[-1], TOKEN_BLOCKS + 1)
            seconds = np.diff(np.interp(edges, [0, *made], [0, *times])) / 1000
            if (seconds > 0).all():
                rates = np.diff(edges) / seconds
                found["tokens_per_sec"] = [round(float(rate), 4) for rate in rates]
        order = np.argsort(self.issued_ms, kind="stable")
        for name, values in (("ttft_ms", self.ttft_ms), ("tpot_ms", self.tpot_ms)):
            if values is None or len(values) != len(order):
                continue
            count = min(TOKEN_BLOCKS, len(values) // _PER_BLOCK)
            if count * 2 >= TOKEN_BLOCKS:
                parts = np.array_split(np.asarray(values)[order], count)
                found[name] = [round(float(np.percentile(part, 99)), 4) for part in parts]
        return {name: values for name, values in found.items() if min(values) > 0}


def timeline_of(
    rows: Sequence[tuple[float, float | None, float, int]], trace: EngineTrace | None
) -> Timeline | None:
    """The timeline of rows (issued, first token or None, end, tokens), times in seconds.

    None where there is no row. All times are of time.monotonic.
    """
    if not rows:
        return None
    start = min(row[0] for row in rows)

    def ms(seconds: float) -> float:
        return round((seconds - start) * 1000, 3)

    ordered = sorted(rows, key=lambda row: row[2])
    firsts = [row[1] for row in ordered]
    streamed = all(first is not None for first in firsts)
    made_ms, made_tokens, phases = _of_trace(trace, start)
    return Timeline(
        tuple(ms(row[0]) for row in ordered),
        tuple(ms(first) for first in firsts if first is not None) if streamed else None,
        tuple(ms(row[2]) for row in ordered),
        tuple(row[3] for row in ordered),
        made_ms,
        made_tokens,
        phases,
    )


def _of_trace(
    trace: EngineTrace | None, start: float
) -> tuple[tuple[float, ...], tuple[int, ...], dict[str, tuple[float, ...]] | None]:
    if trace is None or not trace.steps:
        return (), (), None
    import numpy as np

    times = np.array([(at - start) * 1000 for at, _ in trace.steps])
    made = np.cumsum([tokens for _, tokens in trace.steps])
    # Enough points for any plot and block; a ten minute run has tens of thousands of steps.
    kept = np.unique(np.linspace(0, len(times) - 1, _MAX_STEPS).astype(int))
    names = ("queue", "prefill", "decode")
    columns = zip(*trace.phases_s, strict=True) if trace.phases_s else [(), (), ()]
    phases = {
        name: tuple(round(s * 1000, 3) for s in column)
        for name, column in zip(names, columns, strict=True)
    }
    return (
        tuple(round(float(t), 3) for t in times[kept]),
        tuple(int(n) for n in made[kept]),
        phases if trace.phases_s else None,
    )


def write_timeline(folder: Path, timeline: Timeline) -> None:
    """Write timeline.json into a run's folder of logs."""
    content = {
        "schema_version": SCHEMA_VERSION,
        **{name: getattr(timeline, name) for name in _NAMES},
        "made_ms": timeline.made_ms,
        "made_tokens": timeline.made_tokens,
        "phases_ms": timeline.phases_ms,
    }
    (folder / TIMELINE_JSON).write_text(json.dumps(content, separators=(",", ":")) + "\n")


def read_timeline(folder: Path) -> Timeline | None:
    """The timeline of a folder of logs; None where there is none that can be read."""
    try:
        content: Any = json.loads((folder / TIMELINE_JSON).read_text())
        columns = [content[name] for name in _NAMES]
        if len({len(column) for column in columns if column is not None}) != 1 or not columns[0]:
            return None
        firsts = columns[1]
        phases = content.get("phases_ms")
        return Timeline(
            tuple(map(float, columns[0])),
            None if firsts is None else tuple(map(float, firsts)),
            tuple(map(float, columns[2])),
            tuple(map(int, columns[3])),
            tuple(map(float, content.get("made_ms") or ())),
            tuple(map(int, content.get("made_tokens") or ())),
            None
            if not phases
            else {str(name): tuple(map(float, column)) for name, column in phases.items()},
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
