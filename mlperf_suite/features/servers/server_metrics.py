"""A server's own view of a run: its metrics in Prometheus's text format, read each second.

The names are those of vllm/v1/metrics/loggers.py and v1/spec_decode/metrics.py,
sglang/srt/metrics/collector.py, tensorrt_llm/metrics/collector.py, and llama.cpp's
tools/server/README.md.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from types import TracebackType
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from mlperf_suite.engines.protocol import KV_FULL, ServerView, Steps

RUNNING, WAITING, KV_SHARE = "running", "waiting", "kv_share"
PREEMPTIONS, LOOKED_UP, HITS, QUEUE_S = "preemptions", "looked_up", "hits", "queue_s"
DRAFTED, ACCEPTED = "drafted", "accepted"
_NAMES = {
    RUNNING: "vllm:num_requests_running sglang:num_running_reqs trtllm_num_requests_running "
    "llamacpp:requests_processing",
    WAITING: "vllm:num_requests_waiting sglang:num_queue_reqs trtllm_num_requests_waiting "
    "llamacpp:requests_deferred",
    KV_SHARE: "vllm:kv_cache_usage_perc sglang:token_usage trtllm_kv_cache_utilization "
    "llamacpp:kv_cache_usage_ratio",
    PREEMPTIONS: "vllm:num_preemptions_total",
    LOOKED_UP: "vllm:prefix_cache_queries_total",
    HITS: "vllm:prefix_cache_hits_total sglang:cached_tokens_total "
    "trtllm_prompt_cached_tokens_total",
    QUEUE_S: "vllm:request_queue_time_seconds_sum",
    DRAFTED: "vllm:spec_decode_num_draft_tokens_total trtllm_spec_decode_num_draft_tokens_total",
    ACCEPTED: "vllm:spec_decode_num_accepted_tokens_total "
    "trtllm_spec_decode_num_accepted_tokens_total",
}
_FIGURES = {name: figure for figure, names in _NAMES.items() for name in names.split()}
_GAUGES = (RUNNING, WAITING, KV_SHARE)
"""The figures of an instant; the others count since the server started."""
_MAX_GAUGES = {RUNNING: 1e6, WAITING: 1e6, KV_SHARE: 1.0}
_MAX_COUNTER = 1e15
"""No server reports more; a larger number is no figure."""
_EVERY_S = 1.0
_MAX_MISSES = 3

Reading = Mapping[str, float]


def figures_in(lines: Iterable[str]) -> dict[str, float]:
    """The figures in the lines of a page, summed over the server's engines, the KV cache's share as
    their mean; empty if it has none, or if what it has is not a number."""
    page = "".join(f"{line}\n" for line in lines if line.startswith(tuple(_FIGURES)))
    values: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                figure = _FIGURES.get(sample.name)
                if figure and 0 <= sample.value <= _MAX_GAUGES.get(figure, _MAX_COUNTER):
                    values.setdefault(figure, []).append(float(sample.value))
    except ValueError:
        return {}
    return {f: (fmean if f == KV_SHARE else math.fsum)(of) for f, of in values.items()}


def labels_in(lines: Iterable[str], name: str) -> dict[str, str]:
    """The labels of a metric that says what its server is; empty if it has no such metric."""
    page = "".join(f"{line}\n" for line in lines if line.startswith(f"{name}{{"))
    labels: dict[str, str] = {}
    with contextlib.suppress(ValueError):
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels |= sample.labels
    return labels


class MetricsSampler:
    """Reads a server's metrics each second, on a thread of its own, until it is closed.

    `read`: returns the figures, empty if there are none; must not raise.
    """

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read = read
        self._readings: list[tuple[float, Reading]] = []
        self._end = threading.Event()
        threading.Thread(target=self._run, name="server metrics", daemon=True).start()

    def _run(self) -> None:
        misses = 0
        while misses < _MAX_MISSES and not self._end.wait(_EVERY_S):
            figures = self._read()
            misses = 0 if figures else misses + 1
            if figures:
                self._readings.append((time.monotonic(), figures))

    def between(self, begin_s: float, end_s: float) -> list[tuple[float, Reading]]:
        """The readings of this span, in s of time.monotonic; earlier ones are dropped."""
        self._readings = [reading for reading in self._readings if reading[0] >= begin_s]
        return [reading for reading in self._readings if reading[0] <= end_s]

    def close(self) -> None:
        self._end.set()


class ServerWatch:
    """A server's own view of the time in which this context is open. `read`: as `MetricsSampler`'s.
    A server without metrics is asked once."""

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read = read
        self._before: Reading = {}
        self._began = 0.0
        self._sampler: MetricsSampler | None = None

    def __enter__(self) -> Self:
        self._before, self._began = self._read(), time.monotonic()
        self._sampler = MetricsSampler(self._read) if self._before else None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._sampler is not None:
            self._sampler.close()

    def counted(self, name: str) -> float | None:
        """What a counter says now; None if the server does not report it."""
        return self._read().get(name) if name in self._before else None

    def view(self) -> ServerView | None:
        """The view so far; None if the server has no metrics, or none were read yet."""
        if self._sampler is None:
            return None
        after, before = self._read(), self._before
        growth = {name: max(0.0, after[name] - before[name]) for name in after.keys() & before}
        readings = self._sampler.between(self._began, time.monotonic())
        return server_view([reading for _, reading in readings], growth)


def server_view(readings: Sequence[Reading], growth: Reading) -> ServerView | None:
    """What the readings of a run amount to. `growth`: of each counter during the run."""
    if not readings:
        return None
    columns = {name: [r[name] for r in readings if name in r] for name in _GAUGES}
    means = {name: round(fmean(of), 4) if of else None for name, of in columns.items()}
    most = {name: round(max(of), 4) if of else None for name, of in columns.items()}

    def share(name: str, least: float) -> float | None:
        of = columns[name]
        return round(sum(value >= least for value in of) / len(of), 4) if of else None

    def count(name: str) -> int | None:
        return round(growth[name]) if name in growth else None

    return ServerView(
        readings=len(readings),
        running_mean=means[RUNNING],
        running_most=most[RUNNING],
        waiting_mean=means[WAITING],
        waiting_most=most[WAITING],
        waiting=share(WAITING, 1),
        kv_mean=means[KV_SHARE],
        kv_most=most[KV_SHARE],
        kv_full=share(KV_SHARE, KV_FULL),
        preemptions=count(PREEMPTIONS),
        cached_tokens=count(HITS),
        looked_up_tokens=count(LOOKED_UP),
        drafted_tokens=count(DRAFTED),
        accepted_tokens=count(ACCEPTED),
    )


def view_of(steps: Steps) -> ServerView | None:
    """What an engine in this process says of itself, a reading after each of its steps; None if it
    does not report its load."""
    if not len(steps.running) == len(steps.waiting) == len(steps.kv_share) == len(steps.ended_s):
        return None
    columns = zip(steps.running, steps.waiting, steps.kv_share, strict=True)
    readings = [dict(zip(_GAUGES, map(float, row), strict=True)) for row in columns]
    counted = {PREEMPTIONS: steps.preempted, DRAFTED: steps.drafted, ACCEPTED: steps.accepted}
    return server_view(readings, {name: float(sum(of)) for name, of in counted.items() if of})


def fill_load(steps: Steps, servers: Sequence[Sequence[tuple[float, Reading]]]) -> None:
    """Give steps the requests that all servers ran and queued at the time, and the KV cache in use,
    from the last reading before each; nothing unless every server reports all three."""
    import numpy as np

    complete = all(of and all(name in r for _, r in of for name in _GAUGES) for of in servers)
    if not servers or not complete or not steps.ended_s:
        return
    sums = dict.fromkeys(_GAUGES, np.zeros(len(steps.ended_s)))
    for of in servers:
        times = np.asarray([at for at, _ in of])
        rows = np.maximum(np.searchsorted(times, steps.ended_s, side="right") - 1, 0)
        for name in _GAUGES:
            sums[name] = sums[name] + np.asarray([reading[name] for _, reading in of])[rows]
    steps.running.extend(sums[RUNNING].round().astype(int).tolist())
    steps.waiting.extend(sums[WAITING].round().astype(int).tolist())
    steps.kv_share.extend((sums[KV_SHARE] / len(servers)).tolist())
