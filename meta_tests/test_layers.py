"""The layers of the package: imports go down the order of docs/architecture.md, no cycle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_tests.conftest import ROOT

PACKAGE = ROOT / "mlperf_suite"
ORDER = (
    *("secrets", "errors", "assets", "hardware", "energy", "profiling", "datasets", "scorers"),
    *("benchmarks",),
    *("engines", "loadgen", "rules", "settings", "results", "judging", "reports", "mmlu"),
    *("submission", "session", "plugin", "__main__"),
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
}
"""Where an outside library is imported, and nowhere else."""


def imports_of(path: Path, package: str = "mlperf_suite") -> Iterator[str]:
    """Every module that a file imports, also in a function or for type checking alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: a relative import"
            yield node.module
            if node.module == package:
                yield from (f"{package}.{alias.name}" for alias in node.names)


def layer(module: str) -> str:
    """The part of the package that a module belongs to; empty for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_part_has_its_place_in_the_order() -> None:
    parts = {layer_of(path) for path in files()} - {"__init__"}
    assert parts == set(ORDER)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_the_order(path: Path) -> None:
    own = layer_of(path)
    if own == "__init__":
        return
    allowed = {*ORDER[: ORDER.index(own) + 1], "__version__", "__init__"}
    upwards = [
        module
        for module in imports_of(path)
        if module.startswith("mlperf_suite.") and layer(module) not in allowed
    ]
    assert upwards == []


def test_no_two_files_import_each_other() -> None:
    known = {name_of(path): path for path in files()}
    graph = {
        name: {module for module in imports_of(path) if module in known and module != name}
        for name, path in known.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for other in graph[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("library", ONE_PLACE)
def test_an_outside_library_is_imported_in_one_place(library: str) -> None:
    elsewhere = [
        str(path.relative_to(ROOT))
        for path in files()
        for module in imports_of(path)
        if module.split(".")[0] == library
        if layer_of(path) != ONE_PLACE[library]
    ]
    assert elsewhere == []


def test_a_relative_or_upward_import_is_seen(tmp_path: Path) -> None:
    """The reading of imports itself: late ones and those of a whole package are not passed over."""
    file = tmp_path / "file.py"
    file.write_text(
        "def f():\n    from mlperf_suite import session\n    import mlperf_suite.plugin.ci\n"
    )
    assert {"mlperf_suite.session", "mlperf_suite.plugin.ci"} <= set(imports_of(file))
