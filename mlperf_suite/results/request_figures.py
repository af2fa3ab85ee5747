"""Computes where the requests' time went, and why the slowest requests were slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlperf_suite.benchmarks.percentile import percentile
from mlperf_suite.engines.protocol import DECODE, LATER_TOKENS, PREFILL, QUEUE
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.request_parts import as_reported, reported_s
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.schema import LifeFigures, PartFigures, SlowRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

SLOWEST = 10


def life_figures(timeline: Timeline, detail: DetailLog) -> LifeFigures | None:
    """The figures of a run's lives; None if the timeline has none, like that of an older suite."""
    import numpy as np

    parts = {name: np.asarray(of) for name, of in timeline.parts_ms.items()}
    if not parts or not timeline.samples:
        return None
    latency = np.asarray(timeline.finished_ms) - np.asarray(timeline.issued_ms)
    whole = float(latency.sum())
    return LifeFigures(
        requests=len(latency),
        from_loadgen=timeline.from_loadgen,
        differs_ms=difference_ms(latency, detail) if timeline.from_loadgen else None,
        drain=_drain(timeline, parts),
        parts=tuple(_part(name, of, whole) for name, of in parts.items()),
        slowest=_slowest(timeline, parts, latency),
    )


def difference_ms(latency_ms: Doubles, detail: DetailLog) -> float | None:
    """The largest difference in ms between a latency that LoadGen reports and the same figure of
    these latencies; None if it reports none."""
    of_lives, reference_s = as_reported(latency_ms), reported_s(detail)
    differences = [abs(of_lives[key] - seconds * 1000) for key, seconds in reference_s.items()]
    return round(max(differences), 4) if differences else None


def _part(name: str, ms: Doubles, whole_ms: float) -> PartFigures:
    import numpy as np

    ascending = np.sort(ms)
    p50, p90, p99 = (round(percentile(ascending, share), 3) for share in (0.5, 0.9, 0.99))
    share = float(ascending.sum()) / whole_ms if whole_ms > 0 else 0.0
    return PartFigures(
        name,
        round(share, 6),
        round(float(ms.mean()), 3),
        p50,
        p90,
        p99,
        round(float(ascending[-1]), 3),
    )


def _ends(timeline: Timeline, parts: dict[str, Doubles], name: str) -> Doubles:
    """When that part of each request ended, in ms since the first was issued."""
    import numpy as np

    ends = np.asarray(timeline.issued_ms, dtype=float)
    for part, duration_ms in parts.items():
        ends = ends + duration_ms
        if part == name:
            break
    return ends


def _drain(timeline: Timeline, parts: dict[str, Doubles]) -> float | None:
    """The share of the run after the engine started its last request; None if that is unknown."""
    if QUEUE not in parts:
        return None
    end = max(timeline.finished_ms)
    return round(1 - float(_ends(timeline, parts, QUEUE).max()) / end, 6) if end > 0 else None


def _slowest(
    timeline: Timeline, parts: dict[str, Doubles], latency: Doubles
) -> tuple[SlowRequest, ...]:
    import numpy as np

    causes = _Causes(timeline, parts)
    rows = np.argsort(-latency, kind="stable")[:SLOWEST].tolist()
    return tuple(
        SlowRequest(
            timeline.samples[row],
            round(timeline.issued_ms[row] / 1000, 3),
            round(float(latency[row]), 3),
            {name: round(float(of[row]), 3) for name, of in parts.items()},
            timeline.prompt_tokens[row],
            timeline.tokens[row],
            timeline.preempted[row],
            causes.of(row),
        )
        for row in rows
    )


class _Causes:
    """Explains why a request was slow: names the part that exceeds its median by the most, and the
    cause."""

    def __init__(self, timeline: Timeline, parts: dict[str, Doubles]) -> None:
        import numpy as np

        self._parts = parts
        self._medians = {name: percentile(np.sort(of), 0.5) for name, of in parts.items()}
        self._preempted = timeline.preempted
        self._prompts = np.asarray(timeline.prompt_tokens)
        self._tokens = np.asarray(timeline.tokens)
        self._told = np.asarray(timeline.finished_ms)
        names = list(parts)
        before = names[names.index(QUEUE) - 1] if QUEUE in parts else names[0]
        self._queued = _ends(timeline, parts, before)
        self._begun = _ends(timeline, parts, QUEUE) if QUEUE in parts else self._queued

    def of(self, row: int) -> str:
        """The cause in words."""
        name = max(self._parts, key=lambda part: self._above(part, row))
        duration_ms, median = float(self._parts[name][row]), self._medians[name]
        words = f"{name} {duration_ms:,.0f} ms where the median is {median:,.0f}"
        why = [self._why(name, row)]
        if self._preempted[row]:
            why.append(f"preempted {_times(self._preempted[row])}")
        reasons = "; ".join(filter(None, why))
        return f"{words}: {reasons}" if reasons else words

    def _above(self, part: str, row: int) -> float:
        return float(self._parts[part][row]) - self._medians[part]

    def _why(self, name: str, row: int) -> str:
        if name == QUEUE:
            return self._behind(row)
        if name == PREFILL:
            prompt = int(self._prompts[row])
            return f"its prompt has {prompt:,} tokens, {_rank(self._prompts, row)}"
        if name in (DECODE, LATER_TOKENS):
            tokens = int(self._tokens[row])
            per_token = float(self._parts[name][row]) / max(tokens - 1, 1)
            rank = _rank(self._tokens, row)
            return f"its answer has {tokens:,} tokens, {rank}, {per_token:,.1f} ms each"
        return ""

    def _behind(self, row: int) -> str:
        """What was ahead of it when it was queued."""
        at = self._queued[row]
        ahead = (self._queued < at) & (self._begun > at)
        running = (self._begun <= at) & (self._told > at)
        tied = (self._queued == at) & (self._begun < self._begun[row])
        queue_length = int(ahead.sum() + tied.sum())
        return (
            f"queued behind {queue_length:,} that waited, "
            f"{int(self._prompts[ahead | tied].sum()):,} prompt tokens, "
            f"and {int(running.sum()):,} that ran"
        )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _rank(values: npt.NDArray[np.int64], row: int) -> str:
    """Its rank by length, longest first."""
    longer = int((values > values[row]).sum())
    return "the longest" if not longer else f"number {longer + 1:,} of {len(values):,} by length"
