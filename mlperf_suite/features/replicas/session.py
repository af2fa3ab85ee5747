"""Keeps what each replica did in a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from mlperf_suite.features.replicas.figures import RUNS, ReplicasRun, ReplicasRuns
from mlperf_suite.session.companion import Companion, RunAtHand


@runtime_checkable
class ReplicatedEngine(Protocol):
    """An engine made of several replicas."""

    def take_replicas_run(self) -> ReplicasRun:
        """What happened since the last call."""


class ReplicasCompanion(Companion):
    def around(self, run: RunAtHand) -> contextlib.AbstractContextManager[None]:
        if run.number > 1 or not isinstance(run.engine, ReplicatedEngine):
            return contextlib.nullcontext()
        return _kept(run, run.engine)


SESSION = ReplicasCompanion


@contextlib.contextmanager
def _kept(run: RunAtHand, engine: ReplicatedEngine) -> Iterator[None]:
    """Keep what the replicas did in the block, also if it fails."""
    # What was counted before, such as a warm-up, is discarded.
    engine.take_replicas_run()
    try:
        yield
    finally:
        of_modes: ReplicasRuns = {}
        for record in run.result.runs.values():
            part = record.parts.get(RUNS)
            of_modes |= part if isinstance(part, dict) else {}
        run.record.parts[RUNS] = of_modes | {str(run.key.mode): engine.take_replicas_run()}
