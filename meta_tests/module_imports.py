"""What each Python file of the repository imports, and where the package's parts may."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from meta_tests.suite_runs import ROOT

PACKAGE = ROOT / "mlperf_suite"
ORDER = (
    *("feature", "untrusted_files", "secrets", "errors", "strict_json", "random_models", "assets"),
    *("hardware", "energy", "ranges", "datasets", "scorers", "benchmarks", "engines"),
    *("loadgen", "rules", "option_specs", "settings"),
    *("results", "judging", "reports", "session", "commands", "plugin", "features"),
    "__main__",
)
"""Low to high: each imports only what stands before it, and itself."""
PLACES = {
    **dict.fromkeys(("pytest", "allure"), ("plugin",)),
    "vllm": ("engines", "features/accelerators", "features/chats", "features/tuning"),
    **dict.fromkeys(("httptools", "uvloop", "prometheus_client"), ("features/servers",)),
    **dict.fromkeys(("rouge_score", "nltk"), ("scorers",)),
    **dict.fromkeys(("sympy", "pylatexenc"), ("features/code_grading",)),
    "ray": ("features/replicas",),
    "mlperf_loadgen": ("loadgen",),
    "lm_eval": ("features/evals", "features/mmlu"),
    "mlflow": ("features/tracking",),
    **dict.fromkeys(("pynvml", "amdsmi", "pyhlml", "tpu_info"), ("features/accelerators",)),
    "nvtx": ("ranges",),
    "pyarrow": ("datasets", "features/conversion"),
    "yaml": ("features/submission_check",),
    "jinja2": ("reports",),
    "matplotlib": ("features/comparing", "features/mmlu", "features/peak_search", "reports"),
    "scipy": ("features/aggregate", "features/replicas", "features/tuning", "results"),
    "tokenizers": ("features/servers", "random_models"),
}
"""Every outside library that could be replaced, and the parts of the package that import it."""


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


@cache
def is_module(name: str) -> bool:
    """Whether it is a file or a folder of the repository."""
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def files(*folders: str) -> list[Path]:
    return sorted(path for name in folders for path in (ROOT / name).rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str:
    """The part of the package that a module belongs to; empty for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def imports(*folders: str) -> dict[str, frozenset[str]]:
    """By the name of each module in these folders, the modules that it imports."""
    return {module_of(path): _imports_once(path) for path in files(*folders)}


@cache
def _imports_once(path: Path) -> frozenset[str]:
    return frozenset(imports_of(path))
