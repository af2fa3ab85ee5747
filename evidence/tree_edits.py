"""A submission's folder, and changes to it with the rules that detect them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from meta_tests.tampering.edits import json_edited
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.rules.accuracy_files import ACCURACY_TXT


@dataclass(frozen=True, slots=True)
class Home:
    """<division>/<submitter> of a tree, and where its files are in the round's layout.

    A scenario is one of `benchmark`'s, or <benchmark>/<scenario>.
    """

    path: Path
    layout: str
    benchmark: str = LLAMA3_1_8B.id

    @property
    def system(self) -> str:
        return next((self.path / "results").iterdir()).name

    def place(self, branch: str, scenario: str) -> Path:
        benchmark = self.benchmark
        if "/" in scenario:
            benchmark, scenario = scenario.split("/")
        folder = "results" if self.layout == "v6" else branch
        return self.path / folder / self.system / benchmark / scenario

    def performance(self, scenario: str) -> Path:
        return self.place("results", scenario) / "performance" / "run_1"

    def accuracy(self, scenario: str) -> Path:
        return self.place("results", scenario) / "accuracy"

    def accuracy_txt(self, scenario: str) -> Path:
        return self.accuracy(scenario) / ACCURACY_TXT

    def audit(self, name: str, scenario: str) -> Path:
        return self.place("compliance", scenario) / name

    def test06(self, scenario: str) -> Path:
        return self.audit("TEST06", scenario)

    def measurements(self, scenario: str) -> Path:
        return self.place("measurements", scenario)

    @property
    def system_json(self) -> Path:
        return self.path / "systems" / f"{self.system}.json"


Change = Callable[[Home], object]


@dataclass(frozen=True, slots=True)
class Tampering:
    """A change to a tree, and exactly those rules of the suite that detect it.

    accuracy_passed is not listed: it follows from every failed accuracy run. `fakes`: what a forged
    tree makes readers believe.
    """

    change: Change
    rules: frozenset[str]
    fakes: str = ""


def seen_by(change: Change, rules: str = "") -> Tampering:
    """A change with the names of the rules that detect it, separated by spaces."""
    return Tampering(change, frozenset(rules.split()))


def system_field(name: str, value: object) -> Change:
    """Give a field of the system's description a value; None takes it out."""

    def edit(content: dict[str, object]) -> None:
        if value is None:
            del content[name]
        else:
            content[name] = value

    return json_edited(lambda home: home.system_json, edit)
