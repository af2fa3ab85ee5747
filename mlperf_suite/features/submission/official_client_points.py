"""The result folders of the official HTTP client, read for a submission.

The client writes config.yaml, performance/result_summary.json, accuracy/accuracy_results.json and
events.jsonl; a package has the same files side by side, which is read as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_suite.features.endpoints.curve.curve_figures import (
    NO_ENDPOINTS_RESULT,
    SCORED_FOLDER,
    CurveFigures,
    curve_of,
)
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    OFFICIAL_CLIENT_ACCURACY,
    OFFICIAL_CLIENT_SUMMARY,
    AccuracyResults,
    OfficialClientConfig,
    ResultSummary,
    read_typed,
    read_yaml_as,
)
from mlperf_suite.features.endpoints.official_client_results.series import CONCURRENCY
from mlperf_suite.features.submission_check.tree_files import folders_in
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_summary

_DEEPEST = 6
"""Levels of folders below a given one in which points are looked for."""


@dataclass(frozen=True, slots=True)
class OfficialClientPoint:
    """One run of the client, with its files; `accuracy` and `events`: None without the file."""

    folder: Path
    config_file: Path
    summary_file: Path
    accuracy_file: Path | None
    events_file: Path | None
    config: OfficialClientConfig
    summary: ResultSummary
    accuracy: AccuracyResults | None

    @property
    def concurrency(self) -> int | None:
        """The fixed concurrency of its load; None for any other load."""
        load = self.config.settings.load_pattern
        return load.target_concurrency if load.type == CONCURRENCY else None

    @property
    def output_tps(self) -> float:
        """Output tokens/s over the whole run; 0 if nothing was measured."""
        tokens, duration_ns = self.summary.output_sequence_lengths.total, self.summary.duration_ns
        return tokens / duration_ns * 1e9 if tokens and duration_ns else 0.0

    def __str__(self) -> str:
        return str(self.folder)


@contextmanager
def linked(files: Mapping[Path, Path]) -> Iterator[None]:
    """Links to these files, by the places where they are while this is open."""
    for place, file in files.items():
        place.symlink_to(file)
    try:
        yield
    finally:
        for place in files:
            place.unlink()


def read_points(folders: Sequence[Path]) -> tuple[list[OfficialClientPoint], list[str]]:
    """The runs of the client in these folders and below them, and one line for each reason why
    something there is none."""
    points: list[OfficialClientPoint] = []
    reasons: list[str] = []
    for folder in dict.fromkeys(path.resolve() for path in folders):
        curve = _curve(folder)
        if curve is not None and curve.rehearsal:
            reasons.append(
                f"{folder}: {NO_ENDPOINTS_RESULT}: measure the curve with the official client "
                "(inference-endpoint)"
            )
            continue
        found = [_read(place) for place in _point_folders(folder, curve)]
        points += [point for point in found if isinstance(point, OfficialClientPoint)]
        reasons += [point for point in found if isinstance(point, str)]
        if not found:
            reasons.append(
                f"{folder}: no {OFFICIAL_CLIENT_SUMMARY} of the official client in it or below"
            )
    return points, reasons


def with_accuracy_of(point: OfficialClientPoint, folder: Path) -> OfficialClientPoint | str:
    """A point with the accuracy run in another folder of the client, or in one line why it is
    none. Where its configuration says a fixed concurrency, it is the point's (§4.3)."""
    inside = [path for path in folders_in(folder) if path.name == "report"]
    for place in (folder, *inside):
        if (path := _file(place, "accuracy", OFFICIAL_CLIENT_ACCURACY)) is None:
            continue
        accuracy, problem = read_typed(path, AccuracyResults)
        config, _ = read_yaml_as(place / "config.yaml", OfficialClientConfig)
        load = config.settings.load_pattern if config else None
        if load and load.type == CONCURRENCY and load.target_concurrency != point.concurrency:
            return f"{place}: accuracy at concurrency {load.target_concurrency}"
        return problem or replace(point, accuracy_file=path, accuracy=accuracy)
    return f"{folder}: no {OFFICIAL_CLIENT_ACCURACY} of the official client"


def holds_official_client_run(folder: Path) -> bool:
    """Whether the client's files are in a folder, or in one in it (report/ of the suite's runs)."""
    return next(_places(folder, 1), None) is not None


def _curve(folder: Path) -> CurveFigures | None:
    """The curve of this suite's run that a folder is, or is a part of; None if it is of none."""
    for place in (folder, *folder.parents[:3]):
        if (place / SUMMARY_JSON).is_file():
            summary = read_summary(place)
            return curve_of(summary) if summary else None
    return None


def _point_folders(folder: Path, curve: CurveFigures | None) -> Iterator[Path]:
    """The folders of a curve's points, without those of the search for C_max; else every one."""
    points = curve.measured if curve and (folder / SUMMARY_JSON).is_file() else ()
    for place in [folder / point.folder for point in points if point.folder] or [folder]:
        yield from _places(place, _DEEPEST)


def _places(folder: Path, levels: int) -> Iterator[Path]:
    """The folders that have a summary of the client, in order."""
    if _file(folder, "performance", OFFICIAL_CLIENT_SUMMARY) is not None:
        yield folder
    elif levels:
        own = (path for path in folders_in(folder) if not path.name.startswith(SCORED_FOLDER))
        inside = [path for path in own if not path.is_symlink()]
        for path in sorted(inside):
            yield from _places(path, levels - 1)


def _file(folder: Path, part: str, name: str) -> Path | None:
    """A file of the client, in its part of the results or beside the others."""
    paths = (folder / part / name, folder / name)
    return next((path for path in paths if path.is_file()), None)


def _accuracy_file(folder: Path) -> Path | None:
    """The scores of a run, or of a curve's point those of the accuracy run beside it."""
    if (own := _file(folder, "accuracy", OFFICIAL_CLIENT_ACCURACY)) is not None:
        return own
    beside = sorted(folder.parent.glob(f"{SCORED_FOLDER}*/report"))
    found = (_file(place, "accuracy", OFFICIAL_CLIENT_ACCURACY) for place in reversed(beside))
    return next((path for path in found if path is not None), None)


def _read(folder: Path) -> OfficialClientPoint | str:
    """The run in a folder, or in one line what keeps it from being read."""
    config_file = next(
        (p for p in (folder / "config.yaml", folder / "config.yml") if p.is_file()), None
    )
    if config_file is None:
        return f"{folder}: no config.yaml of the client"
    config, fault = read_yaml_as(config_file, OfficialClientConfig)
    summary_file = _file(folder, "performance", OFFICIAL_CLIENT_SUMMARY)
    assert summary_file is not None
    summary, no_summary = read_typed(summary_file, ResultSummary)
    accuracy_file, accuracy, no_accuracy = _accuracy_file(folder), None, ""
    if accuracy_file is not None:
        accuracy, no_accuracy = read_typed(accuracy_file, AccuracyResults)
    if config is None or summary is None or no_accuracy:
        return f"{folder}: {fault or no_summary or no_accuracy}"
    return OfficialClientPoint(
        folder=folder,
        config_file=config_file,
        summary_file=summary_file,
        accuracy_file=accuracy_file,
        events_file=_file(folder, "performance", "events.jsonl"),
        config=config,
        summary=summary,
        accuracy=accuracy,
    )
