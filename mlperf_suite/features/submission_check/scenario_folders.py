"""Where the parts of a result are in a submission's tree, in either layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from mlperf_suite.benchmarks.rounds import Layout, Round
from mlperf_suite.features.submission_check.tree_files import folder_names, names_in
from mlperf_suite.judging.judges import Judge
from mlperf_suite.judging.verdict_group import VerdictGroup

DIVISIONS = ("closed", "open", "network")
_AUDITS = "TEST"
MEASUREMENTS_JSON = "measurements.json"
CODE: dict[Layout, str] = {"v5": "code", "v6": "src"}
"""The folder of a submission's programs (SRC_PATH of the official checker)."""


class _ResultsFolder:
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
    @lru_cache(maxsize=1024)  # noqa: B019 - of few folders
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
class ScenarioFolder(_ResultsFolder):
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
    def power_supply_file(self) -> Path:
        """The power that the system's power supplies are made for."""
        return self.submission / "systems" / f"{self.system}_power.yaml"

    @property
    def performance_runs(self) -> list[Path]:
        """Each run_<n>; always includes run_1, which is required."""
        runs = self.folder / "performance"
        numbered = {name for name in folder_names(runs) if name.startswith("run_")}
        return [runs / name for name in sorted(numbered | {"run_1"})]

    def beside(self, branch: str) -> Path:
        """The folder of this scenario under layout v5's measurements/ or compliance/."""
        return self.submission.joinpath(branch, self.system, self.benchmark, self.scenario)

    def audit(self, name: str) -> Path:
        """An audit's folder in either layout; if it does not exist, its place in v6."""
        here, there = self.folder / name, self.beside("compliance") / name
        return there if there.is_dir() and not here.is_dir() else here

    def measurements(self) -> Path:
        """The folder of user.conf, README.md and the measurements' JSON file."""
        there = self.beside("measurements")
        return there if there.is_dir() and not self.measurements_file(self.folder) else self.folder

    def measurements_file(self, folder: Path) -> Path | None:
        """The JSON file of the measurements in that folder, or None: measurements.json in the
        scenario's own (v6), else the one that is called after the system (v5)."""
        names = names_in(folder)
        if folder == self.folder:
            return folder / MEASUREMENTS_JSON if MEASUREMENTS_JSON in names else None
        of_system = (n for n in names if n.endswith(".json") and n.startswith(self.system))
        return next((folder / name for name in of_system), None)

    def layouts(self) -> dict[Layout, list[str]]:
        """What this scenario has of each layout."""
        v5 = [branch for branch in ("measurements", "compliance") if self.beside(branch).is_dir()]
        v6 = [MEASUREMENTS_JSON] if (self.folder / MEASUREMENTS_JSON).is_file() else []
        v6 += [name for name in folder_names(self.folder) if name.startswith(_AUDITS)]
        code = {layout for layout, name in CODE.items() if (self.submission / name).is_dir()}
        if len(code) == 1:
            (v5 if code == {"v5"} else v6).append(CODE[code.pop()])
        return {"v5": v5, "v6": v6}


@dataclass(frozen=True, slots=True)
class BenchmarkFolder(_ResultsFolder):
    """One benchmark of one system. `whole`: whether all of its scenarios are visible."""

    folder: Path
    scenarios: tuple[ScenarioFolder, ...]
    whole: bool

    @property
    def benchmark_folder(self) -> Path:
        return self.folder


class OtherResult(Protocol):
    """A result in a submission's tree that LoadGen did not measure."""

    @property
    def place(self) -> ScenarioFolder: ...

    @property
    def round(self) -> Round | None:
        """The round whose seeds it has."""
        ...

    @property
    def runs(self) -> Sequence[tuple[object, ...]]:
        """What two of its runs do not share by chance."""
        ...

    def judge(self, round_: Round, copies: tuple[str, ...], tokenizer: Path | None) -> VerdictGroup:
        """The verdicts on it. `copies`: the other results of the tree that have the same run;
        `tokenizer`: see `judge_folder`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeJudge(Judge):
    """A judge that also reads results in submissions' trees. `results_in`: of a benchmark, given
    model_mapping.json, those that LoadGen did not measure."""

    results_in: Callable[[BenchmarkFolder, Mapping[str, str]], Sequence[OtherResult]]
