"""The guides say the same, and what they and the workflows name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from meta_tests.conftest import ROOT
from meta_tests.test_layers import ONE_PLACE, ORDER, PACKAGE, files, imports_of
from mlperf_suite.benchmarks.registry import default_benchmarks
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.reports.markdown import report_markdown
from mlperf_suite.results.schema import Meta, Summary
from mlperf_suite.settings import OPTIONS

ENGLISH, KOREAN = ROOT / "README.md", ROOT / "docs" / "README.ko.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
GUIDES = [ENGLISH, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "perf").glob("*.md"))]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FOLDERS = (
    *("mlperf_suite", "fixtures", "tests", "meta_tests", "perf", "proof", "scripts", "docs"),
    "requirements",
)
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|yml|csv|jsonl|toml|sh|ini|lock|j2))")


def commands(guide: Path) -> list[str]:
    """The lines of a guide's bash blocks, without their comments."""
    blocks = re.findall(r"```bash\n(.*?)```", guide.read_text(), re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines()]


def spans(guide: Path) -> set[str]:
    """What a guide sets as code within its sentences and tables, but for the names of files."""
    text = re.sub(r"```.*?```", "", guide.read_text(), flags=re.DOTALL)
    return {span for span in re.findall(r"`([^`\n]+)`", text) if " " in span or "-" in span}


def test_the_korean_guide_has_the_same_commands() -> None:
    assert commands(KOREAN) == commands(ENGLISH)
    assert len(commands(ENGLISH)) > 10
    said = {s for s in spans(ENGLISH) if s.startswith(("--", "make ", ".venv", "python"))}
    assert said - spans(KOREAN) == set()


def test_the_help_tells_every_option() -> None:
    command = [sys.executable, "-m", "pytest", "--help"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [spec.flag for spec in OPTIONS if spec.flag not in told] == []
    assert "require 99.9% of the reference accuracy" in " ".join(told.split())


def test_the_guides_tell_every_option() -> None:
    for guide in (ENGLISH, KOREAN):
        text = guide.read_text()
        assert [spec.flag for spec in OPTIONS if spec.flag not in text] == []


def test_the_tables_of_the_gate_have_the_same_figures() -> None:
    tables = [re.findall(r"\d+\.\d%", guide.read_text()) for guide in (ENGLISH, KOREAN)]
    assert tables[0] == tables[1]
    assert len(tables[0]) >= 20


def code(guide: Path) -> list[str]:
    """What a guide sets as code: its blocks, and the spans of its sentences and tables."""
    blocks = re.findall(r"```.*?```", guide.read_text(), re.DOTALL)
    rest = re.sub(r"```.*?```", "", guide.read_text(), flags=re.DOTALL)
    return [*blocks, *re.findall(r"`([^`\n]+)`", rest)]


def is_there(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(guide: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", guide.read_text())
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (guide.parent / link).exists()] == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_guide_names_is_there(guide: Path) -> None:
    """Files in the repository's folders, modules, targets of make."""
    text = "\n".join(code(guide))
    paths = re.findall(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    modules = re.findall(r"python -m ((?:mlperf_suite|perf|proof|meta_tests)[\w.]*)", text)
    modules += re.findall(r"\bmlperf_suite(?:\.\w+)+", text)
    assert [module for module in modules if not is_there(module)] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) - {"commands"} <= targets


def test_the_guides_name_the_benchmarks_and_rounds_that_there_are() -> None:
    names = [*ROUNDS, *(benchmark.id for benchmark in default_benchmarks())]
    for guide in (ENGLISH, KOREAN):
        text = guide.read_text()
        assert [name for name in names if name not in text] == []


# docs/architecture.md


def test_every_path_on_the_page_is_the_repositorys_or_the_packages() -> None:
    words = re.split(r'\s|<br/>|["\[\]]', "\n".join(code(ARCHITECTURE)))
    paths = {word for word in words if _PATH.fullmatch(word)}
    assert len(paths) > 50
    missing = [p for p in paths if not any((base / p).exists() for base in (ROOT, PACKAGE))]
    assert missing == []


def test_the_page_has_the_layers_in_their_order() -> None:
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", ARCHITECTURE.read_text(), re.MULTILINE)
    assert tuple(rows) == ORDER


def test_the_page_names_the_place_of_each_outside_library() -> None:
    (paragraph,) = re.findall(r"^An outside library.*?\n\n", ARCHITECTURE.read_text(), re.M | re.S)
    told: dict[str, list[str]] = {}
    for part in paragraph.partition(":")[2].split(";"):
        places = re.findall(r"`([^`]+)`", part)
        told |= dict.fromkeys(re.findall(r"\w+", re.sub(r"`[^`]+`", "", part)), places)
    assert set(ONE_PLACE) - {"_pytest"} <= set(told)
    for path in files():
        for library in {module.partition(".")[0] for module in imports_of(path)} & set(told):
            assert str(path.relative_to(PACKAGE)).startswith(tuple(told[library])), library


def test_the_page_has_one_picture() -> None:
    (picture,) = re.findall(r"```mermaid\n(.*?)```", ARCHITECTURE.read_text(), re.DOTALL)
    assert picture.startswith("flowchart")


# The workflows


def _steps(path: Path) -> list[dict[str, Any]]:
    workflow = yaml.safe_load(path.read_text())
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_targets_options_and_secrets_that_are_there(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    flags = {spec.flag for spec in OPTIONS} | {"--junitxml", "--alluredir", "--benchmark-json"}
    for step in _steps(path):
        run = step.get("run", "")
        # What strangers can write must not stand in a shell's text.
        assert "github.event.pull_request.title" not in run
        assert "secrets." not in run
        for called in re.findall(r"^\s*make (.+)$", run, re.MULTILINE):
            assert set(called.split()) <= targets
        for line in run.replace("\\\n", " ").splitlines():
            if "-m pytest" in line:
                assert set(re.findall(r"(?<=\s)--[a-z-]+", line)) <= flags


def test_the_workflows_are_the_two() -> None:
    assert [path.name for path in WORKFLOWS] == ["gpu.yml", "test.yml"]


def test_the_table_of_a_workflow_takes_its_lines_from_the_report() -> None:
    (expression,) = re.findall(r"sed -n '(1s.*?)' ", (WORKFLOWS[0]).read_text())
    failed = Summary(meta=Meta(benchmark="llama3.1-8b", status="failed", reason="it died"))
    done = subprocess.run(
        ["sed", "-n", expression],
        input=report_markdown(failed),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["#### llama3.1-8b ? ?: failed", "- The run failed: it died"]
