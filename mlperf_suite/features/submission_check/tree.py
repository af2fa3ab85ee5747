"""Finds the submissions under a folder, and reads a power measurement; no content makes it
raise."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite import strict_json
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.features.submission_check.power_measurement import (
    CLIENT_JSON,
    HASHED,
    POWER,
    PTD_LOG,
    RANGING,
    SERVER_JSON,
    SPL,
    TESTING,
    PowerFacts,
)
from mlperf_suite.features.submission_check.scenario_folders import (
    DIVISIONS,
    BenchmarkFolder,
    ScenarioFolder,
)
from mlperf_suite.features.submission_check.tree_files import file_names, folders_in, text_of
from mlperf_suite.judging.judges import Folders
from mlperf_suite.judging.reading import read_bytes
from mlperf_suite.loadgen.logs import DETAIL, DetailLog
from mlperf_suite.results.run_folder import SUMMARY_JSON


@dataclass(frozen=True, slots=True)
class Tree:
    """The submissions under a folder.

    `idle_systems`: descriptions and folders of systems without any result; results/* of a submitter
    without any. `misplaced`: submissions that are in no division's folder.
    """

    benchmarks: tuple[BenchmarkFolder, ...]
    idle_systems: tuple[Path, ...]
    misplaced: tuple[Path, ...]

    @property
    def submissions(self) -> tuple[Path, ...]:
        return tuple(sorted({b.submission for b in self.benchmarks}))


def find_submissions(root: Path, folders: Folders) -> Tree:
    """Every benchmark of every submission among the folders."""
    benchmark_folders: set[Path] = set()
    scenario_folders: set[Path] = set()
    systems: list[Path] = []
    for folder, files in folders:
        if _is_benchmark(folder):
            benchmark_folders.add(folder)
        elif _is_benchmark(folder.parent):
            scenario_folders.add(folder)
        elif folder.name == "systems" and folder.parent.parent.name in DIVISIONS:
            systems += [folder / name for name in sorted(files) if name.endswith(".json")]
    empty_folders: list[Path] = []
    for division in {folder.parents[3] for folder in benchmark_folders}:
        for submitter in _submitters(root, division):
            for system in folders_in(submitter / "results") or [submitter / "results" / "*"]:
                benchmark_folders |= (inside := set(folders_in(system)))
                if not inside and not (submitter / "systems" / f"{system.name}.json").is_file():
                    empty_folders.append(system)
    benchmarks = []
    for folder in sorted(benchmark_folders | {path.parent for path in scenario_folders}):
        whole = folder in benchmark_folders
        places = (
            folders_in(folder) if whole else [p for p in scenario_folders if p.parent == folder]
        )
        benchmarks.append(
            BenchmarkFolder(folder, tuple(map(ScenarioFolder, sorted(places))), whole)
        )
    with_results = {(b.submission, b.system) for b in benchmarks}
    idle = [path for path in systems if (path.parents[1], path.stem) not in with_results]
    idle += sorted(empty_folders)
    submissions = {b.submission for b in benchmarks}
    misplaced = [
        folder.parent
        for folder, _ in folders
        if folder.name == "results"
        and (folder.parent / "systems").is_dir()
        and folder.parents[1].name not in DIVISIONS
        and submissions.isdisjoint(folder.parents)
    ]
    return Tree(tuple(benchmarks), tuple(idle), tuple(misplaced))


def _is_benchmark(folder: Path) -> bool:
    """Whether it is <division>/<submitter>/results/<system>/<benchmark>, and not of a result of
    this suite below a folder that is called like a division."""
    parts = folder.parts
    in_place = len(parts) > 5 and parts[-3] == "results" and parts[-5] in DIVISIONS
    return in_place and (
        (folder.parents[2] / "systems").is_dir() or not (folder.parent / SUMMARY_JSON).is_file()
    )


def _submitters(root: Path, division: Path) -> list[Path]:
    """The folders that the official checker takes for a submitter's, hidden and linked ones too, in
    each division beside this one; only divisions that are wholly below the root."""
    folders = [path for name in DIVISIONS for path in folders_in(division.parent / name)]
    return [path for path in folders if path.is_relative_to(root)]


_POWER_TEXTS = (
    *(f"{POWER}/{name}" for name in (CLIENT_JSON, SERVER_JSON, PTD_LOG)),
    *(f"{mode}/{name}" for mode in (RANGING, TESTING) for name in (DETAIL, SPL)),
)


def read_power(performance: Path, scenario: Scenario, detail: DetailLog) -> PowerFacts | None:
    """The measurement in a scenario's folder `performance`; None if it has no folder power.

    `detail`: the detail log of the measured run.
    """
    if not (performance / POWER).exists():
        return None
    raw = {path: read_bytes(performance / path) for path in sorted({*_POWER_TEXTS, *HASHED})}
    texts = {path: text for path in _POWER_TEXTS if (text := text_of(raw[path])) is not None}
    return PowerFacts(
        scenario,
        detail,
        {
            name: names
            for name in (POWER, RANGING, TESTING)
            if (names := file_names(performance / name)) is not None
        },
        texts,
        {
            # The hash that client and server recorded; the suite does not choose it.
            path: hashlib.sha1(content, usedforsecurity=False).hexdigest()
            for path in HASHED
            if (content := raw[path]) is not None
        },
        _json(texts.get(f"{POWER}/{CLIENT_JSON}")),
        _json(texts.get(f"{POWER}/{SERVER_JSON}")),
    )


def _json(text: str | None) -> Any:
    try:
        return None if text is None else strict_json.loads(text)
    except ValueError:
        return None
