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
from mlperf_suite.settings import OPTIONS

ENGLISH, KOREAN = ROOT / "README.md", ROOT / "docs" / "README.ko.md"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


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
    assert "gate ROUGE at 99.9% of its baseline" in told


def test_the_guides_tell_every_option() -> None:
    for guide in (ENGLISH, KOREAN):
        text = guide.read_text()
        assert [spec.flag for spec in OPTIONS if spec.flag not in text] == []


def test_the_tables_of_the_gate_have_the_same_figures() -> None:
    tables = [re.findall(r"\d+\.\d%", guide.read_text()) for guide in (ENGLISH, KOREAN)]
    assert tables[0] == tables[1]
    assert len(tables[0]) >= 20


@pytest.mark.parametrize("guide", [ENGLISH, KOREAN], ids=["English", "Korean"])
def test_every_link_leads_somewhere(guide: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", guide.read_text())
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (guide.parent / link).exists()] == []


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
