"""What the package takes from vLLM is in one list, and the installed release has all of it.

Its sources are read, not imported: that takes seconds, and a build for GPUs cannot be imported
everywhere.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from meta_tests.engines.vllm_contract import (
    IMPORTS,
    MEMBERS,
    METRICS,
    PROCESS_TITLES,
    VARIABLES,
)
from meta_tests.module_imports import PACKAGE, files

NOT_ITS_OWN = {"VLLM_CHAT", "VLLM_DTYPES", "VLLM_TORCH_PROFILER_DIR", "vllm:spec_decode"}
"""Names of the package's, a variable of earlier releases in a comment, the beginning of others."""
_ENDING = re.compile("_(?:total|sum)$")


@cache
def source(module: str) -> str:
    """The source text of a module of the installed vLLM."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).parent.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def missing(names: tuple[str, ...], module: str, *, quoted: bool = False) -> list[str]:
    words = [rf'"{re.escape(name)}"' if quoted else rf"\b{re.escape(name)}\b" for name in names]
    text = source(module)
    return [name for name, word in zip(names, words, strict=True) if not re.search(word, text)]


@pytest.mark.parametrize("module", IMPORTS)
def test_a_module_is_there_with_what_is_imported_of_it(module: str) -> None:
    assert source(module)
    submodules = [name for name in IMPORTS[module] if source(f"{module}.{name}")]
    names = tuple(name for name in IMPORTS[module] if name not in submodules)
    assert missing(names, module) == []


@pytest.mark.parametrize("module", MEMBERS)
def test_arguments_attributes_and_exceptions_are_there(module: str) -> None:
    assert missing(MEMBERS[module], module) == []


def test_its_variables_metrics_and_process_titles_are_there() -> None:
    assert missing(VARIABLES, "vllm.envs") == []
    for module, names in METRICS.items():
        assert missing(names, module, quoted=True) == []
    for module, title in PROCESS_TITLES.items():
        assert missing((title,), module) == []


def test_the_list_names_all_that_the_package_uses() -> None:
    imports: dict[str, set[str]] = defaultdict(set)
    words: set[str] = set()
    for path in files(PACKAGE.name):
        text = path.read_text(encoding="utf-8")
        words.update(re.findall(r"\bVLLM_[A-Z_]+\b|\bvllm:[a-z_]+[a-z]\b", text))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vllm":
                imports[str(node.module)] |= {name.name for name in node.names}
            elif isinstance(node, ast.Import):
                for name in node.names:
                    if name.name.split(".")[0] == "vllm":
                        _ = imports[name.name]
    imports["vllm"].add("__version__")
    assert imports == {module: set(names) for module, names in IMPORTS.items()}
    words -= NOT_ITS_OWN
    metrics = {_ENDING.sub("", word) for word in words if word.startswith("vllm:")}
    assert metrics == {name for names in METRICS.values() for name in names}
    assert {word for word in words if word.startswith("VLLM_")} == {*VARIABLES}
