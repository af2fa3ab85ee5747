"""What a session consists of, for those who make its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.session.companion import Companion
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.preparation import Preparation
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.timing.run_sizing import RunSizing


@dataclass(frozen=True, slots=True)
class SessionParts:
    inputs: Inputs
    engines: Engines
    pace: RunSizing
    companions: Sequence[Companion]
    watcher: ProgressDisplay
    recorder: Recorder
    preparation: Preparation

    @property
    def run_parts(self) -> tuple[Inputs, Engines, RunSizing, Sequence[Companion], ProgressDisplay]:
        """What a `StepMaker` takes."""
        return self.inputs, self.engines, self.pace, self.companions, self.watcher
