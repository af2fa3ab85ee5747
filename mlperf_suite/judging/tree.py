"""Finds runs under a folder: a submission tree in either layout, or loose LoadGen logs.

Only names of folders and files are examined here; the other modules read the contents.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.benchmarks.rounds import Layout
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY
from mlperf_suite.results.run_folder import SUMMARY_JSON, TRIAL_FOLDERS

DIVISIONS = ("closed", "open", "network")
LOG_NAMES = frozenset({DETAIL, SUMMARY, ACCURACY})
_AUDITS = "TEST"


@dataclass(frozen=True, slots=True)
class Place:
    """One scenario's folder: <division>/<submitter>/results/<system>/<benchmark>/<scenario>."""

    folder: Path

    @property
    def scenario(self) -> str:
        return self.folder.name

    @property
    def benchmark(self) -> str:
        return self.folder.parent.name

    @property
    def system(self) -> str:
        return self.folder.parents[1].name

    @property
    def submission(self) -> Path:
        """The folder <division>/<submitter>."""
        return self.folder.parents[3]

    @property
    def submitter(self) -> str:
        return self.submission.name

    @property
    def division(self) -> str:
        return self.submission.parent.name

    @property
    def system_file(self) -> Path:
        return self.submission / "systems" / f"{self.system}.json"

    @property
    def performance_runs(self) -> list[Path]:
        """Each run_<n>; always includes run_1, which is required."""
        runs = self.folder / "performance"
        numbered = {path for path in _folders(runs) if path.name.startswith("run_")}
        return sorted(numbered | {runs / "run_1"})

    def beside(self, branch: str) -> Path:
        """The folder of this scenario under layout v5's measurements/ or compliance/."""
        return self.submission / branch / self.system / self.benchmark / self.scenario

    def audit(self, name: str) -> Path:
        """An audit's folder in either layout; if it does not exist, its place in v6."""
        here, there = self.folder / name, self.beside("compliance") / name
        return there if there.is_dir() and not here.is_dir() else here

    def measurements(self) -> Path:
        """The folder of user.conf, README.md and the measurements' JSON file."""
        there = self.beside("measurements")
        return there if there.is_dir() and not self.measurements_file(self.folder) else self.folder

    def measurements_file(self, folder: Path) -> Path | None:
        """The JSON file of the measurements in that folder, or None."""
        if (folder / "measurements.json").is_file():
            return folder / "measurements.json"
        try:
            json_files = sorted(folder.glob("*.json"))
        except OSError:
            return None
        return next((path for path in json_files if path.name.startswith(self.system)), None)

    def layouts(self) -> set[Layout]:
        """The layouts that this scenario's files follow."""
        layouts: set[Layout] = set()
        if any(path.name.startswith(_AUDITS) for path in _folders(self.folder)):
            layouts.add("v6")
        if (self.folder / "measurements.json").is_file():
            layouts.add("v6")
        if any(self.beside(branch).is_dir() for branch in ("measurements", "compliance")):
            layouts.add("v5")
        return layouts


@dataclass(frozen=True, slots=True)
class BenchmarkPlace:
    """One benchmark of one system. `whole`: whether all of its scenarios are visible."""

    folder: Path
    scenarios: tuple[Place, ...]
    whole: bool

    @property
    def benchmark(self) -> str:
        return self.folder.name

    @property
    def system(self) -> str:
        return self.folder.parent.name

    @property
    def submission(self) -> Path:
        return self.folder.parents[2]

    @property
    def submitter(self) -> str:
        return self.submission.name

    @property
    def division(self) -> str:
        return self.submission.parent.name


@dataclass(frozen=True, slots=True)
class Tree:
    """The runs under a folder.

    `log_folders`: those of LoadGen logs outside any submission. Trial runs of a peak search and
    blocks of a caching audit are included only if their own folder was requested. `idle_systems`:
    system descriptions without any result.
    """

    root: Path
    benchmarks: tuple[BenchmarkPlace, ...]
    log_folders: tuple[Path, ...]
    idle_systems: tuple[Path, ...]

    @property
    def submissions(self) -> tuple[Path, ...]:
        return tuple(sorted({b.submission for b in self.benchmarks}))


def holds_logs(root: Path) -> bool:
    """Whether any file under the folder has the name of a LoadGen log."""
    return any(LOG_NAMES & set(files) for _, files in _walk(root))


def find_runs(root: Path) -> Tree:
    """Every benchmark of every submission under the folder, and every other folder of logs."""
    root = Path(os.path.abspath(root))  # noqa: PTH100 - a linked folder keeps the name it was given
    benchmark_folders: set[Path] = set()
    scenario_folders: set[Path] = set()
    with_logs: list[Path] = []
    systems: list[Path] = []
    for folder, files in _walk(root):
        if _is_benchmark(folder):
            benchmark_folders.add(folder)
        elif _is_benchmark(folder.parent):
            scenario_folders.add(folder)
        elif folder.name == "systems" and folder.parent.parent.name in DIVISIONS:
            systems += [folder / name for name in sorted(files) if name.endswith(".json")]
        if LOG_NAMES & set(files) and not _is_trial(root, folder):
            with_logs.append(folder)
    benchmarks = []
    for folder in sorted(benchmark_folders | {path.parent for path in scenario_folders}):
        whole = folder in benchmark_folders
        places = _folders(folder) if whole else [p for p in scenario_folders if p.parent == folder]
        benchmarks.append(BenchmarkPlace(folder, tuple(map(Place, sorted(places))), whole))
    roots = {b.submission for b in benchmarks}
    log_folders = [path for path in with_logs if not roots & {path, *path.parents}]
    with_results = {(b.submission, b.system) for b in benchmarks}
    idle = [path for path in systems if (path.parents[1], path.stem) not in with_results]
    return Tree(root, tuple(benchmarks), tuple(sorted(log_folders)), tuple(idle))


def _is_benchmark(folder: Path) -> bool:
    """Whether it is <division>/<submitter>/results/<system>/<benchmark>."""
    parts = folder.parts
    return len(parts) > 5 and parts[-3] == "results" and parts[-5] in DIVISIONS


def _is_trial(root: Path, folder: Path) -> bool:
    """Whether it is below the root in PeakQps/ or Caching/ of one of this suite's results."""
    below = (folder, *folder.parents)[: len(folder.relative_to(root).parts)]
    return any(p.name in TRIAL_FOLDERS and (p.parent / SUMMARY_JSON).is_file() for p in below)


def _walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(folder), files


def _folders(folder: Path) -> list[Path]:
    """The visible folders in a folder; empty if it cannot be read."""
    try:
        return [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
    except OSError:
        return []
