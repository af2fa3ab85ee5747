"""A session on a real engine whose device a platform plugin of vLLM brings."""

import json
import os
from collections import Counter

import pytest

from meta_tests.features.accelerators.made_up_platform import COUNTS, DEVICE, install
from meta_tests.suite_runs import SuiteRun, run_suite


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    """Offline in smoke with the plugin on the path."""
    folder = tmp_path_factory.mktemp("made-up")
    install(folder)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    variables = {"PYTHONPATH": path, COUNTS: str(folder / "counts")}
    # Compiling takes the CPU long, and says nothing of the platform.
    marker = ("-m", "offline and datacenter", "--engine-arg", "enforce_eager=true")
    return run_suite(folder / "results", *marker, **variables)


def test_the_session_is_one_on_the_device_and_not_on_a_cpu(run: SuiteRun) -> None:
    assert run.exit_code == 0, run.output
    summary = run.summary
    assert summary.machines == [DEVICE]
    assert summary.meta.gpus == {DEVICE: 1}
    assert summary.system["gpus"] == [DEVICE]
    assert str(summary.system["accelerator_platform"]).startswith(
        "made_up (vLLM's platform plugin)"
    )
    report = (run.folder / "report.md").read_text()
    assert DEVICE in report.partition("Is it valid?")[0]
    assert "(vLLM's platform plugin), device type cpu" in report
    assert "no counter for this device" in report
    engine = json.loads((run.folder / "config.json").read_text())["engine"]["settings"]
    assert engine["tensor_parallel_why"] == "auto: the only accelerator"
    assert (engine["gpus_used"], engine["idle_gpus"]) == (1, 0)


def test_the_engine_ran_on_the_platform_and_the_suite_asked_it_once(run: SuiteRun) -> None:
    lines = (run.results_dir.parent / "counts").read_text().splitlines()
    asked = Counter(line.partition(" ")[2] for line in lines)
    assert asked["get_device_name"] >= 1
    assert asked["check_and_update_config"] >= 1
    of_names = {line.split()[0] for line in lines if line.endswith("get_device_name")}
    of_engine = {line.split()[0] for line in lines if line.endswith("check_and_update_config")}
    # One process was started to ask; vLLM itself asks in those that it runs in.
    assert len(of_names - of_engine) == 1
