"""What the probe of an engine's speed, seconds after it is loaded, says of a trial."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.features.tuning.target import TrialFiles
from mlperf_suite.loadgen.timeline import read_timeline
from mlperf_suite.results import typed_json
from mlperf_suite.results.run_folder import read_config, run_folders
from mlperf_suite.session.timing.estimate import Speed


@dataclass(frozen=True, slots=True)
class Work:
    """What an Offline run had to do: its samples, and their mean lengths in tokens."""

    samples: int
    prompt: float
    answer: float


def work_of(runs: Sequence[TrialFiles]) -> Work | None:
    """That of the first accuracy run that has a timeline."""
    for run in runs:
        timeline = read_timeline(run.folder / "Accuracy")
        if timeline is not None and timeline.prompt_tokens:
            means = map(statistics.fmean, (timeline.prompt_tokens, timeline.tokens))
            return Work(len(timeline.tokens), *means)
    return None


def probe_of(folder: Path, work: Work) -> float | None:
    """The tokens/s that the probe in a results folder says of this work; None before it is made.

    Nor is there one of a stand-in engine.
    """
    for run in run_folders(folder):
        speed = typed_json.read(Speed, (read_config(run) or {}).get("speed"))
        if speed is not None:
            seconds = speed.batch_s([round(work.prompt)] * work.samples, work.answer)
            return work.samples * work.answer / seconds if seconds > 0 else None
    return None
