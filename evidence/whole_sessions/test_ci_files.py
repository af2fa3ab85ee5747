"""The files of CI: what can be seen of them without running them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.gate import Job
from meta_tests.suite_runs import ROOT
from mlperf_suite.settings import OPTIONS


def _yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


FILES = ("action.yml", ".github/workflows/gpu.yml", ".github/workflows/test.yml")


@pytest.mark.parametrize("name", FILES)
def test_actions_are_pinned_and_no_input_is_part_of_a_script(name: str) -> None:
    text = (ROOT / name).read_text()
    for action_used in re.findall(r"uses: (\S+)", text):
        assert (
            action_used == "./"
            or action_used.startswith("OWNER/")
            or re.search(r"@[0-9a-f]{40}$", action_used)
        )
    content = _yaml(name)
    jobs = content.get("jobs", {"action": content.get("runs")}).values()
    for step in [line for job_steps in jobs for line in job_steps["steps"]]:
        assert "${{" not in step.get("run", "")
        assert not re.search(r"\bgh ", step.get("run", ""))


def test_no_waiting_pull_request_is_cancelled_by_another() -> None:
    group = _yaml(".github/workflows/gpu.yml")["concurrency"]
    assert group["cancel-in-progress"] is False
    assert "github.ref" in group["group"] and "github.run_id" in group["group"]


def test_the_action_has_the_recommended_repeats_and_names_of_its_own_for_each_job() -> None:
    (recommended,) = set(re.findall(r"default of (\d+) repeats", (ROOT / "docs/ci.md").read_text()))
    action = _yaml("action.yml")
    assert action["inputs"]["repeat"]["default"] == recommended == Job.of({}).repeat
    assert "strategy.job-index" in action["inputs"]["name"]["default"]
    (upload,) = [line for line in action["runs"]["steps"] if line["name"] == "Upload"]
    assert "inputs.name" in upload["with"]["name"]
    text = (ROOT / "action.yml").read_text()
    assert [name for name in action["inputs"] if f"inputs.{name}" not in text] == []


@pytest.mark.parametrize("name", ["action.yml", "ci/gitlab.yml"])
def test_nothing_is_installed_or_kept_outside_the_lock(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text.count("ci/job.sh") == 1
    assert not re.search(r"install\.sh|gate\.py\"? (measure|keep)|set_up\.sh", text)


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _steps(path: Path) -> list[dict[str, Any]]:
    workflow = yaml.safe_load(path.read_text())
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_targets_options_and_secrets_that_are_there(path: Path) -> None:
    flags = {spec.flag for spec in OPTIONS} | {"--junitxml", "--alluredir", "--benchmark-json"}
    for step in _steps(path):
        run = step.get("run", "")
        # Untrusted text must not stand in a shell's text.
        assert "github.event.pull_request.title" not in run
        assert "secrets." not in run
        for targets_named in re.findall(r"^\s*make (.+)$", run, re.MULTILINE):
            assert set(targets_named.split()) <= TARGETS
        for line in run.replace("\\\n", " ").splitlines():
            if "-m pytest" in line:
                assert set(re.findall(r"(?<=\s)--[a-z-]+", line)) <= flags
