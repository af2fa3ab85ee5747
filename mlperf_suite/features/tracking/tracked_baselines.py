"""Baselines from MLflow: `--baseline mlflow:EXPERIMENT[@last-good|@pinned|@RUN_ID]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlperf_suite.features.tracking.options import target_of
from mlperf_suite.features.tracking.tracked_runs import TrackedName
from mlperf_suite.features.tracking.trackers import LAST_GOOD, MLFLOW, is_tracked
from mlperf_suite.results.baseline import BaselineRun, load_baselines

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

BASELINE_FOLDER = ".track-baselines"
"""In the results folder: the files of baselines, by the ids of their runs."""


def tracked_baselines(settings: Settings) -> dict[tuple[str, str], BaselineRun]:
    """All baselines of a session, by benchmark id and scenario. Raises UsageError."""
    fetched = {
        folder: label
        for name in filter(is_tracked, settings.baselines)
        for label, folder in _fetched(name, settings)
    }
    paths = [Path(name) for name in settings.baselines if not is_tracked(name)]
    return {
        kind: replace(run, label=fetched.get(Path(run.label), run.label))
        for kind, run in load_baselines([*paths, *fetched]).items()
    }


def _fetched(text: str, settings: Settings) -> list[tuple[str, Path]]:
    """The label and the folder of each baseline of an experiment."""
    name, own = TrackedName.parse(text, "--baseline "), target_of(settings)
    system = None if settings.baseline_allow_different else _system_of(settings)
    which = name.which or LAST_GOOD
    place = own.place if own and own.tracker == MLFLOW else ""
    into = settings.results_dir / BASELINE_FOLDER
    found = name.fetch(which, into, place=place, system=system)
    if not found:
        raise name.missing(which, "of this machine, model, profile and round " if system else "")
    return found


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
