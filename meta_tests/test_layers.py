"""The layers of the package: imports go down the order of docs/architecture.md, nowhere a cycle."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT

PACKAGE = ROOT / "mlperf_suite"
BESIDE = ("fixtures", "tests", "meta_tests", "evidence", "perf", "ci", "scripts")
"""What imports the package, and what the package does not import."""
ORDER = (
    *(
        "strangers",
        "secrets",
        "errors",
        "strict_json",
        "random_models",
        "assets",
        "hardware",
        "energy",
        "profiling",
    ),
    *("datasets", "scorers", "benchmarks"),
    *(
        "engines",
        "loadgen",
        "client_results",
        "official_client",
        "rules",
        "settings",
        "results",
        "judging",
        "reports",
        "mmlu",
    ),
    *("submission", "session", "tuning", "plugin", "__main__"),
)
"""Low to high: each imports only what stands before it, and itself."""
ONE_PLACE = {
    "vllm": "engines",
    "ray": "engines",
    "mlperf_loadgen": "loadgen",
    "pytest": "plugin",
    "_pytest": "plugin",
    "allure": "plugin",
    "lm_eval": "mmlu",
    "pynvml": "hardware",
    "nvtx": "profiling",
    "rouge_score": "scorers",
    "nltk": "scorers",
    "sympy": "scorers",
    "pylatexenc": "scorers",
    "pyarrow": "datasets",
    "yaml": "judging",
}
"""Where an outside library is imported, and nowhere else."""
PARALLEL = (
    {"benchmarks", "scorers"},  # a benchmark and how it is scored
    {"engines/endpoint", "engines/replicas"},  # two kinds of engines elsewhere
)
"""Folders that may have files of the same name: each file stands for the same thing in both."""
SAME_FILE = {"client.py", "figures.py"}
"""Names of files that stand for two things: rules about a client and about figures are called as
what they judge."""
SAME_CLASS = {"Answer", "Pace", "Place", "Request", "Sample", "Score", "Scores"}
"""Names of public classes that stand for two things, each in a room that does not see the other."""


def imports_of(path: Path) -> Iterator[str]:
    """Every module that a file imports, also in a function or for type checking alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if is_module(inner) else node.module


def is_module(name: str) -> bool:
    """Whether it is a file or a folder of the repository."""
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def files(*folders: str) -> list[Path]:
    """The Python files of these folders."""
    return sorted(path for name in folders for path in (ROOT / name).rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str:
    """The part of the package that a module belongs to; empty for the package itself."""
    return module.partition(".")[2].partition(".")[0]


@cache
def imports(*folders: str) -> dict[str, frozenset[str]]:
    """By the name of each module in these folders, the modules that it imports."""
    return {module_of(path): frozenset(imports_of(path)) for path in files(*folders)}


def of_package() -> dict[str, frozenset[str]]:
    return {name: modules for name, modules in imports(PACKAGE.name).items() if layer_of(name)}


def test_every_part_has_its_place_in_the_order() -> None:
    assert {layer_of(name) for name in of_package()} == set(ORDER)


def test_imports_go_down_the_order() -> None:
    upwards = [
        f"{name} imports {module}"
        for name, modules in of_package().items()
        for module in modules & of_package().keys()
        if ORDER.index(layer_of(module)) > ORDER.index(layer_of(name))
    ]
    assert upwards == []


def test_the_package_imports_nothing_that_stands_beside_it() -> None:
    outwards = [
        f"{name} imports {module}"
        for name, modules in of_package().items()
        for module in modules
        if module.partition(".")[0] in BESIDE
    ]
    assert outwards == []


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


@pytest.mark.parametrize("library", ONE_PLACE)
def test_an_outside_library_is_imported_in_one_place(library: str) -> None:
    elsewhere = [
        name
        for name, modules in of_package().items()
        if any(module.partition(".")[0] == library for module in modules)
        if layer_of(name) != ONE_PLACE[library]
    ]
    assert elsewhere == []


def test_a_relative_or_upward_import_is_seen(tmp_path: Path) -> None:
    """The reading of imports itself: late ones and those of a whole package are not passed over."""
    file = tmp_path / "file.py"
    file.write_text(
        "def f():\n    from mlperf_suite import session\n    import mlperf_suite.plugin.ci\n"
    )
    assert {"mlperf_suite.session", "mlperf_suite.plugin.ci"} <= set(imports_of(file))


# Names


def places(names: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """By each name that stands in several places, those places."""
    by_name: dict[str, set[str]] = defaultdict(set)
    for name, place in names:
        by_name[name].add(place)
    return {name: folders for name, folders in by_name.items() if len(folders) > 1}


def test_no_file_name_stands_twice() -> None:
    names = ((path.name, str(path.parent.relative_to(PACKAGE))) for path in files(PACKAGE.name))
    twice = {
        name: folders
        for name, folders in places(names).items()
        if name != "__init__.py" and not any(folders <= parallel for parallel in PARALLEL)
    }
    assert twice.keys() <= SAME_FILE, twice


def test_no_public_class_name_stands_twice() -> None:
    names = (
        (node.name, str(path.relative_to(PACKAGE)))
        for path in files(PACKAGE.name)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    twice = places(names)
    assert twice.keys() <= SAME_CLASS, twice
