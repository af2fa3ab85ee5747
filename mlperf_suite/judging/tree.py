"""Finds the submissions under a folder, and reads the files beside logs, a power measurement
included; no content makes it raise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mlperf_suite import strict_json
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.rounds import Layout
from mlperf_suite.judging.judges import Folders
from mlperf_suite.loadgen.logs import DETAIL, DetailLog
from mlperf_suite.results.run_folder import SUMMARY_JSON
from mlperf_suite.rules.power_measurement import (
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
from mlperf_suite.rules.submission_rules import JsonFile
from mlperf_suite.scorers.scorer import Scorer
from mlperf_suite.untrusted_files import read_regular

DIVISIONS = ("closed", "open", "network")
CLIENT_SUMMARY, CLIENT_ACCURACY = "result_summary.json", "accuracy_results.json"
POINT_YAML, SYSTEM_POWER = "point.yaml", "system_power.json"
_AUDITS = "TEST"


class _OfBenchmark:
    """What lies in <division>/<submitter>/results/<system>/<benchmark>."""

    __slots__ = ()

    @property
    def benchmark_folder(self) -> Path:
        raise NotImplementedError

    @property
    def benchmark(self) -> str:
        return self.benchmark_folder.name

    @property
    def system(self) -> str:
        return self.benchmark_folder.parent.name

    @property
    def submission(self) -> Path:
        """The folder <division>/<submitter>."""
        return self.benchmark_folder.parents[2]

    @property
    def submitter(self) -> str:
        return self.submission.name

    @property
    def division(self) -> str:
        return self.submission.parent.name


@dataclass(frozen=True, slots=True)
class Place(_OfBenchmark):
    """One scenario's folder: <division>/<submitter>/results/<system>/<benchmark>/<scenario>."""

    folder: Path

    @property
    def scenario(self) -> str:
        return self.folder.name

    @property
    def benchmark_folder(self) -> Path:
        return self.folder.parent

    @property
    def system_file(self) -> Path:
        return self.submission / "systems" / f"{self.system}.json"

    @property
    def nameplate_file(self) -> Path:
        """The power that the system's power supplies are made for."""
        return self.submission / "systems" / f"{self.system}_power.yaml"

    @property
    def performance_runs(self) -> list[Path]:
        """Each run_<n>; always includes run_1, which is required."""
        runs = self.folder / "performance"
        numbered = {path for path in folders_in(runs) if path.name.startswith("run_")}
        return sorted(numbered | {runs / "run_1"})

    @property
    def client_files(self) -> tuple[Path, Path, Path]:
        """config.yaml, result_summary.json and accuracy_results.json of the official client."""
        yml = self.folder / "config.yml"
        config = yml if yml.exists() else self.folder / "config.yaml"
        performance, accuracy = self.folder / "performance", self.folder / "accuracy"
        return config, performance / CLIENT_SUMMARY, accuracy / CLIENT_ACCURACY

    @property
    def is_of_client(self) -> bool:
        """Whether the official client measured it: any of its files, and no detail log where the
        official checker looks for one."""
        logs = (self.folder / "performance" / "run_1" / DETAIL, self.folder / "accuracy" / DETAIL)
        return any(map(Path.exists, self.client_files)) and not any(map(Path.exists, logs))

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
        if any(path.name.startswith(_AUDITS) for path in folders_in(self.folder)):
            layouts.add("v6")
        if (self.folder / "measurements.json").is_file():
            layouts.add("v6")
        if any(self.beside(branch).is_dir() for branch in ("measurements", "compliance")):
            layouts.add("v5")
        return layouts


@dataclass(frozen=True, slots=True)
class BenchmarkPlace(_OfBenchmark):
    """One benchmark of one system. `whole`: whether all of its scenarios are visible."""

    folder: Path
    scenarios: tuple[Place, ...]
    whole: bool

    @property
    def benchmark_folder(self) -> Path:
        return self.folder


@dataclass(frozen=True, slots=True)
class Tree:
    """The submissions under a folder.

    `idle_systems`: descriptions and folders of systems without any result; results/* of a submitter
    without any.
    """

    benchmarks: tuple[BenchmarkPlace, ...]
    idle_systems: tuple[Path, ...]

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
        benchmarks.append(BenchmarkPlace(folder, tuple(map(Place, sorted(places))), whole))
    with_results = {(b.submission, b.system) for b in benchmarks}
    idle = [path for path in systems if (path.parents[1], path.stem) not in with_results]
    idle += sorted(empty_folders)
    return Tree(tuple(benchmarks), tuple(idle))


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
    each division beside this one; only those that are wholly below the root."""
    folders = [path for name in DIVISIONS for path in folders_in(division.parent / name)]
    return [path for path in folders if path.is_relative_to(root)]


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder; empty if it cannot be read."""
    try:
        return [path for path in folder.iterdir() if path.is_dir()]
    except OSError:
        return []


# The files beside logs


def read_bytes(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    # ValueError: not a valid file name, since the name may itself come from a file.
    except (OSError, ValueError):
        return None


def read_text(path: Path) -> str | None:
    raw = read_bytes(path)
    return None if raw is None else raw.decode("utf-8", errors="replace")


def is_utf8(path: Path) -> bool:
    """Whether the file, if it can be read, is UTF-8; the official checker ends at any other."""
    raw = read_bytes(path)
    return raw is None or _text(raw) is not None


def read_json(path: Path) -> JsonFile:
    raw = read_bytes(path)
    if raw is None:
        return JsonFile({}, f"no {path.name}")
    try:
        content = strict_json.loads(raw.decode("utf-8"))
        # A lone surrogate, which an escape can name, ends the checker where it writes.
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    except strict_json.RepeatedMemberError as error:
        return JsonFile({}, f"{path.name} has {error}")
    except ValueError:
        return JsonFile({}, f"{path.name} is not JSON in UTF-8")
    if not isinstance(content, dict):
        return JsonFile({}, f"{path.name} is no object")
    return JsonFile(content)


_MOST_YAML_BYTES, _MOST_MEMBERS = 2**18, 10_000


class _YamlLoader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    def flatten_mapping(self, node: Any) -> None:
        """Raises ValueError for more members than anybody writes: merged ones double in a line."""
        super().flatten_mapping(node)
        if len(node.value) > _MOST_MEMBERS:
            raise ValueError(f"more than {_MOST_MEMBERS:,} members")


def read_yaml(path: Path) -> tuple[Any, str]:
    """The content of a YAML file and "", or None and why it cannot be read."""
    text = _text(read_bytes(path))
    if text is None or len(text) > _MOST_YAML_BYTES:
        return None, f"{path.name} is no text in UTF-8 of at most {_MOST_YAML_BYTES:,} characters"
    try:
        # PyYAML raises most kinds of errors for tags whose value does not fit.
        return yaml.load(text, _YamlLoader), ""  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, *PowerFacts.malformed):
        return None, f"{path.name} is not YAML"


def yaml_text(content: Mapping[str, Any]) -> str:
    """The content as YAML, with its members in their order."""
    text: str = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    return text


def size_of(path: Path) -> int:
    """The file's size in bytes; 0 if there is no file."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def read_not_judged(folder: Path, scorer: Scorer) -> dict[str, str]:
    """The figures of an accuracy run that the suite could not judge, and why; see `scorer_json`."""
    reasons = read_json(folder / f"{scorer.name}.json").content.get("not_judged")
    return {str(n): str(why) for n, why in reasons.items()} if isinstance(reasons, dict) else {}


def read_scores(folder: Path, scorer: Scorer) -> dict[str, float]:
    """The figures that the suite wrote beside an accuracy run's logs, by name; may be empty."""
    content = read_json(folder / f"{scorer.name}.json").content
    # Only percentages are stored under their bare names.
    values = {name.removeprefix("run_"): value for name, value in content.items()}
    return {n: float(v) for n, v in values.items() if type(v) in (int, float) and abs(v) < 1e15}


# A power measurement

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
    texts = {path: text for path in _POWER_TEXTS if (text := _text(raw[path])) is not None}
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


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _json(text: str | None) -> Any:
    try:
        return None if text is None else strict_json.loads(text)
    except ValueError:
        return None


def file_names(folder: Path) -> frozenset[str] | None:
    """The names of the files in a folder; None if it cannot be read."""
    try:
        return frozenset(path.name for path in folder.iterdir() if path.is_file())
    except OSError:
        return None
