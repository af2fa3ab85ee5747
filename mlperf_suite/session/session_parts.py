"""What a session consists of, for those who make its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.mmlu.journal import Shares
from mlperf_suite.session.companion import Companion
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.mmlu_run import OnProgress
from mlperf_suite.session.preparation import Preparation
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.timing.run_sizing import RunSizing


@dataclass(frozen=True, slots=True)
class SessionParts:
    """`shares`: set if several engines score MMLU, each on its own worker. `on_mmlu`: called for
    each scored question."""

    inputs: Inputs
    engines: Engines
    pace: RunSizing
    companions: Sequence[Companion]
    watcher: ProgressDisplay
    recorder: Recorder
    preparation: Preparation
    on_mmlu: OnProgress
    shares: Shares | None

    @property
    def of_runs(self) -> tuple[Inputs, Engines, RunSizing, Sequence[Companion], ProgressDisplay]:
        """What a `StepMaker` takes."""
        return self.inputs, self.engines, self.pace, self.companions, self.watcher
