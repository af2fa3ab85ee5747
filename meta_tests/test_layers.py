"""The layers of the package: imports go down the order of docs/architecture.md, nowhere a cycle."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from meta_tests.module_imports import ORDER, PACKAGE, PLACES, files, imports, layer_of
from mlperf_suite.feature import features
from mlperf_suite.settings import OPTIONS_OF_FEATURES

BESIDE = ("fixtures", "tests", "meta_tests", "evidence", "perf", "ci", "scripts")
"""What imports the package, and what the package does not import."""
NAMES_TWICE = {
    # Each feature may have one.
    *("command.py", "options.py", "kind.py", "figures.py", "report.py", "plugin.py", "session.py"),
    # Of two things, each in a room that does not see the other.
    *("Answer", "Score"),
}
OF_EVERYTHING = {"test_settings", "test_docs"}
"""Of meta_tests: what tests each option and page."""
PARALLEL = (
    # A benchmark and how it is scored.
    {"benchmarks", "scorers"},
    {"features/servers", "features/replicas"},  # two kinds of engines elsewhere
)
"""Folders that may have files of the same name: each file stands for the same thing in both."""


@cache
def package_imports() -> dict[str, frozenset[str]]:
    return {name: modules for name, modules in imports(PACKAGE.name).items() if layer_of(name)}


def test_every_part_has_its_place_in_the_order() -> None:
    assert {layer_of(name) for name in package_imports()} == set(ORDER)


def test_imports_go_down_the_order() -> None:
    upwards = [
        f"{name} imports {module}"
        for name, modules in package_imports().items()
        for module in modules & package_imports().keys()
        if ORDER.index(layer_of(module)) > ORDER.index(layer_of(name))
    ]
    assert upwards == []


def test_the_package_imports_nothing_that_stands_beside_it() -> None:
    outwards = [
        f"{name} imports {module}"
        for name, modules in package_imports().items()
        for module in modules
        if module.partition(".")[0] in BESIDE
    ]
    assert outwards == []


def test_the_core_imports_no_feature_and_a_feature_what_it_declares() -> None:
    needs = {feature.name: feature.needs for feature in features()}
    undeclared = []
    for name, modules in package_imports().items():
        own = feature_of(name)
        allowed = ("", own, *needs.get(own, ()))
        undeclared += [f"{name}: {other}" for other in modules if feature_of(other) not in allowed]
    assert undeclared == []


def feature_of(module: str) -> str:
    """The feature that a module is part of; empty if it is of the core."""
    return module.partition("mlperf_suite.features.")[2].partition(".")[0]


def test_outside_their_folders_no_test_imports_a_feature() -> None:
    outside = imports("meta_tests").items() - imports("meta_tests/features").items()
    assert {name for name, modules in outside if any(".features." in m for m in modules)} == set()


def beside_features(*folders: str) -> Iterator[tuple[Path, set[str], set[str]]]:
    """Each file, the features that it lies beside, and those that it may name: what they need.

    What lies in with_<other>/ goes with either.
    """
    needs = {feature.name: feature.needs for feature in features()}

    def needed_by(name: str) -> set[str]:
        return {name}.union(*map(needed_by, needs[name]))

    for path in files(*folders):
        parts = path.relative_to(PACKAGE.parent).parts
        own = needs.keys() & {folder.removeprefix("with_") for folder in parts}
        yield path, own, set().union(*map(needed_by, own))


def test_what_lies_beside_a_feature_names_only_features_that_it_needs() -> None:
    """Its tests and evidence go with it."""
    names = "|".join(feature.name for feature in features())
    named = re.compile(rf"\b(?:features|evidence|with)(?:[./_]| import )({names})\b")
    foreign = [
        f"{path}: {other}"
        for path, own, allowed in beside_features("meta_tests/features", "evidence")
        if own or "features" in path.parts
        for other in set(named.findall(path.read_text())) - allowed
    ]
    assert foreign == []


def test_tests_name_benchmarks_and_options_of_features_that_they_need() -> None:
    """Or those that a feature's own modules name."""
    owners: dict[str, str] = {}
    for feature in features():
        rows = (row for module in feature.benchmarks for row in import_module(module).BENCHMARKS)
        options = import_module(feature.options).OPTIONS if feature.options else ()
        names = (*(row.id for row in rows), *(OPTIONS_OF_FEATURES[name].flag for name in options))
        owners |= dict.fromkeys(names, feature.name)
    named = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, owners))})(?![\w-])")
    foreign = []
    for path, own, allowed in beside_features("meta_tests"):
        places = [f"mlperf_suite/features/{name}" for name in allowed]
        known = "".join(file.read_text() for file in files(*places))
        for name in set(named.findall(path.read_text())):
            # The core's own messages name options of features.
            is_free = name in known or (name.startswith("--") and not own)
            foreign += [f"{path}: {name}"] * (not is_free and owners[name] not in allowed)
    everything = {f"{PACKAGE.parent}/meta_tests/{n.replace('.', '/')}.py" for n in OF_EVERYTHING}
    assert [words for words in foreign if words.partition(": ")[0] not in everything] == []


def test_the_page_lists_each_feature_with_its_needs_and_files_that_are_there() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The features")[2].partition("## Before a change")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    listed = {}
    for name, begin, needs in ([re.findall(r"`([^`]+)`", cell) for cell in row] for row in rows):
        listed[name[0]] = tuple(needs)
        places = [path for path in begin if path.endswith((".py", "/"))]
        missing = [p for p in places if not (PACKAGE / "features" / name[0] / p).exists()]
        assert places and missing == []
    assert listed == {feature.name: feature.needs for feature in features()}


def test_no_two_files_import_each_other() -> None:
    """Neither in the package nor beside it."""
    graph = imports(PACKAGE.name, *BESIDE)
    visited: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in visited:
            for module in sorted(graph[name] & graph.keys() - {name}):
                visit(module, (*trail, name))
            visited.add(name)

    for name in graph:
        visit(name, ())


def test_no_test_module_is_imported_and_evidence_only_by_itself() -> None:
    """What tests share is in modules of its own, and `make test` does without evidence."""
    wrong = [
        f"{name} imports {module}"
        for name, modules in imports("meta_tests", "evidence", "perf", "scripts").items()
        for module in modules
        if module.rpartition(".")[2].startswith("test_")
        or (module.partition(".")[0] == "evidence" != name.partition(".")[0])
    ]
    assert sorted(wrong) == []


def place_of(module: str) -> str:
    """Its layer, or its feature; a feature's plugin counts to the plugins."""
    if feature := feature_of(module):
        return "plugin" if module.endswith(".plugin") else f"features/{feature}"
    return layer_of(module)


@pytest.mark.parametrize("library", PLACES)
def test_an_outside_library_is_imported_where_the_page_says(library: str) -> None:
    places = {
        place_of(name)
        for name, modules in package_imports().items()
        if any(module.partition(".")[0] == library for module in modules)
        if ".tests." not in name
    }
    here = (p for p in PLACES[library] if not p.startswith("features/") or (PACKAGE / p).is_dir())
    assert sorted(places) == [*here]


def test_no_file_name_and_no_public_class_name_stands_twice() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in files(PACKAGE.name):
        if path.name != "__init__.py":
            places[path.name].add(str(path.parent.relative_to(PACKAGE)))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(str(path))
    twice = {name for name, found in places.items() if len(found) > 1 and found not in PARALLEL}
    assert twice == NAMES_TWICE
