"""Baselines from MLflow: `--baseline mlflow:EXPERIMENT[@last-good|@pinned|@RUN_ID]`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.features.tracking.options import target_of
from mlperf_suite.features.tracking.trackers import (
    BASELINE_PREFIX,
    MLFLOW,
    URI_VARIABLE,
    TrackingTarget,
    is_tracked,
)
from mlperf_suite.results.baseline import BaselineRun, load_baselines

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

BASELINE_FOLDER = ".track-baselines"
"""In the results folder: the files of baselines, by the ids of their runs."""
FETCH_S = 120.0
"""What reading a baseline may take, in s: without it there is nothing to compare with."""
_PLACE = re.compile(r"(?P<experiment>.+?)(?:@(?P<which>last-good|pinned|[0-9a-f]{32}))?")


def tracked_baselines(settings: Settings) -> dict[tuple[str, str], BaselineRun]:
    """All baselines of a session, by benchmark id and scenario. Raises UsageError."""
    fetched = {
        folder: f"{label}@{folder.name}"
        for name in filter(is_tracked, settings.baselines)
        for label, folder in _fetched(name, settings)
    }
    paths = [Path(name) for name in settings.baselines if not is_tracked(name)]
    return {
        kind: replace(run, label=fetched.get(Path(run.label), run.label))
        for kind, run in load_baselines([*paths, *fetched]).items()
    }


def _fetched(name: str, settings: Settings) -> list[tuple[str, Path]]:
    """The experiment, as the user names it, and the folder of each of its baselines."""
    from mlperf_suite.features.tracking.sender import fetch

    match = _PLACE.fullmatch(name.removeprefix(BASELINE_PREFIX))
    if match is None:
        raise UsageError(f"--baseline {name}: which experiment? mlflow:EXPERIMENT")
    own = target_of(settings)
    place = own.place if own and own.tracker == MLFLOW else ""
    if not place and not os.environ.get(URI_VARIABLE):
        raise UsageError(f"--baseline {name}: needs {URI_VARIABLE}, or --track mlflow:URI")
    target = TrackingTarget(MLFLOW, place, match["experiment"])
    system = None if settings.baseline_allow_different else _system_of(settings)
    into = settings.results_dir / BASELINE_FOLDER
    try:
        folders = fetch(target, match["which"] or "last-good", system, into.absolute(), FETCH_S)
    except SuiteError as error:
        raise UsageError(f"--baseline {name}: {error}") from None
    return [(f"{BASELINE_PREFIX}{target.experiment}", folder) for folder in folders]


def _system_of(settings: Settings) -> str:
    """The tag mlperf.system of this session's results."""
    from mlperf_suite.features.tracking.tracked_result import system_key
    from mlperf_suite.hardware import describe_system
    from mlperf_suite.session.engine_source import source_of

    urls = source_of(settings).urls(settings)
    rules = settings.profile, settings.round.name
    return system_key(describe_system(), set(urls), settings.model, *rules)


def drop_unselected(
    baselines: Mapping[tuple[str, str], BaselineRun], selected: set[tuple[str, str]]
) -> None:
    """An experiment has more kinds of results than a session makes: only those are compared."""
    assert isinstance(baselines, dict)
    for kind in [k for k, run in baselines.items() if is_tracked(run.label) and k not in selected]:
        del baselines[kind]
