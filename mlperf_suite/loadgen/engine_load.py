"""How busy the engine was during a run, as shares of time computed from its report of each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlperf_suite.engines.protocol import Marks, Steps

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

KV_FULL = 0.95
"""A KV cache counts as full from this share on: the rest is less than the next requests need."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """Shares of the run's time, 0 to 1; for several replicas, their mean.

    `busy`: in steps. `prefill`: in steps that finished a prompt. `waiting`: in steps that left
    requests waiting. `kv_full`: in steps after which at least `KV_FULL` of the KV cache was in use;
    `kv_most`: the highest share of it in use. `batch_full`: in steps of `batch_limit` requests or
    more, None if no limit is known; `batch_mean` (over the busy time) and `batch_most`: requests in
    a step. `preemptions`: how often a request was preempted. `steps`: their total number.
    `replicas`: their number; `tail`: the share of the run in which at least one of them had ended
    its last step and another had not.
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
    replicas: int = 1
    tail: float = 0.0


def load_of(
    steps: Steps, marks: Marks | None, begin_s: float, end_s: float, batch_limit: int | None
) -> EngineLoad | None:
    """The load of a run, from its steps; None if the engine does not report batches.

    `begin_s`, `end_s`: of the run, in s of time.monotonic. `batch_limit`: the most requests that
    fit into a step of the engine.
    """
    import numpy as np

    if not steps.running or end_s <= begin_s:
        return None
    columns = {
        name: np.asarray(getattr(steps, name))
        for name in ("ended_s", "prompt_tokens", "running", "waiting", "kv_share", "replica")
    }
    took = _durations(steps, marks, begin_s)
    replicas = np.unique(columns["replica"])
    whole = (end_s - begin_s) * len(replicas)

    def share(where: npt.NDArray[np.bool_]) -> float:
        return round(min(1.0, float(took[where].sum()) / whole), 6)

    running, busy_s = columns["running"], float(took.sum())
    lasts = [float(columns["ended_s"][columns["replica"] == one].max()) for one in replicas]
    full = None if batch_limit is None else share(running >= batch_limit)
    return EngineLoad(
        steps=len(took),
        busy=share(took > 0),
        prefill=share(columns["prompt_tokens"] > 0),
        waiting=share(columns["waiting"] > 0),
        kv_full=share(columns["kv_share"] >= KV_FULL),
        kv_most=round(float(columns["kv_share"].max()), 6),
        batch_full=full,
        batch_limit=batch_limit,
        batch_mean=round(float((running * took).sum()) / busy_s, 4) if busy_s else 0.0,
        batch_most=int(running.max()),
        preemptions=sum(steps.preempted),
        prompt_tokens=sum(steps.prompt_tokens),
        output_tokens=sum(steps.tokens),
        replicas=len(replicas),
        tail=round(max(0.0, max(lasts) - min(lasts)) / (end_s - begin_s), 6),
    )


def _durations(steps: Steps, marks: Marks | None, begin_s: float) -> npt.NDArray[np.float64]:
    """How long each step took, in s, since the previous step of the same replica.

    A step that found no work left began when the next request was queued, if the engine reports
    that; otherwise it is assumed to have begun with the end of the previous step.
    """
    import numpy as np

    ended, replica = np.asarray(steps.ended_s), np.asarray(steps.replica)
    left = np.asarray(steps.running) - np.asarray(steps.finished) + np.asarray(steps.waiting)
    queued = np.sort(_queued(marks))
    began = np.empty(len(ended))
    for one in np.unique(replica):
        rows = np.flatnonzero(replica == one)
        before = np.concatenate(([begin_s], ended[rows][:-1]))
        idle = np.concatenate(([True], left[rows][:-1] <= 0))
        if len(queued):
            places = np.minimum(np.searchsorted(queued, before), len(queued) - 1)
            following = np.clip(queued[places], before, np.maximum(ended[rows], before))
            before = np.where(idle, following, before)
        began[rows] = before
    return np.maximum(ended - began, 0.0)


def _queued(marks: Marks | None) -> npt.NDArray[np.float64]:
    """When each request was queued; empty if the engine does not report it."""
    import numpy as np

    if marks is None or not len(marks.tags):
        return np.empty(0)
    times = np.asarray(marks.times_s[0], dtype=np.float64)
    known: npt.NDArray[np.float64] = times[np.isfinite(times)]
    return known
