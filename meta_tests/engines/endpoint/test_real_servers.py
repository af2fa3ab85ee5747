"""Real servers measured as a user measures them: vLLM's own, llama.cpp's, transformers serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_tests.conftest import SuiteRun, run_suite
from meta_tests.servers.local_servers import (
    LLAMA_CPP_PYTHON,
    LocalServer,
    llama_cpp_server,
    transformers_server,
    vllm_server,
)
from mlperf_suite.results.run_folder import read_config, read_summary
from mlperf_suite.results.schema import Summary

pytestmark = pytest.mark.slow


def run_scenarios(
    server: LocalServer, results_dir: Path, scenarios: str, *arguments: str
) -> SuiteRun:
    """These scenarios of the datacenter category."""
    selection = ("-m", f"({scenarios}) and datacenter")
    return run_suite(results_dir, *selection, "--endpoint", server.url, *arguments)


def summaries(run: SuiteRun) -> dict[str, Summary]:
    """By scenario."""
    by_scenario = [read_summary(folder) for folder in run.results_dir.glob("2*-*")]
    return {summary.meta.scenario or "": summary for summary in by_scenario if summary is not None}


@pytest.fixture(scope="module")
def on_vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRun]:
    with vllm_server() as server:
        yield run_scenarios(server, tmp_path_factory.mktemp("vllm"), "offline or server")


@pytest.fixture(scope="module")
def on_llama_cpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRun]:
    if not LLAMA_CPP_PYTHON.is_file():
        pytest.skip("llama.cpp's server is not installed: make stacks")
    # One request at a time: a Server run as well would take ten minutes more.
    with llama_cpp_server() as server:
        yield run_scenarios(server, tmp_path_factory.mktemp("llama-cpp"), "offline")


@pytest.fixture(scope="module")
def on_transformers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRun]:
    # Its list of models has no folders.
    with transformers_server() as server:
        model_name = ("--served-model-name", server.model)
        yield run_scenarios(server, tmp_path_factory.mktemp("transformers"), "offline", *model_name)


def test_vllms_server_is_judged_by_every_rule(on_vllm: SuiteRun) -> None:
    assert on_vllm.exit_code == 0, on_vllm.output
    by_scenario = summaries(on_vllm)
    assert set(by_scenario) == {"Offline", "Server"}
    for summary in by_scenario.values():
        assert summary.meta.status == "complete"
        assert {verdict.status for verdict in summary.verdicts} == {"passed", "shortened"}


def test_vllms_route_for_token_ids_is_found_and_judged_by_every_rule(tmp_path: Path) -> None:
    with vllm_server(arguments=["--enable-scale-out"]) as server:
        run = run_scenarios(server, tmp_path, "offline")
    assert run.exit_code == 0, run.output
    config = read_config(run.folder)
    assert config is not None
    assert config["engine"]["settings"]["fields"] == "vllm-generate"
    assert {verdict.status for verdict in run.summary.verdicts} == {"passed", "shortened"}


@pytest.mark.parametrize("stack", ["on_llama_cpp", "on_transformers"])
def test_a_server_of_text_is_judged_but_for_test06(
    stack: str, request: pytest.FixtureRequest
) -> None:
    run: SuiteRun = request.getfixturevalue(stack)
    offline = summaries(run)["Offline"]
    assert offline.meta.status == "complete", run.output
    statuses = {verdict.rule: verdict.status for verdict in offline.verdicts}
    # Such a server does not say whether it decodes speculatively.
    assert statuses.pop("accuracy_generation") == statuses["generation"] == "not judged"
    assert {status for rule, status in statuses.items() if rule.startswith("accuracy_")} <= {
        "passed",
        "shortened",
    }
    assert statuses["test06_eos"] == statuses["test06_token_count"] == "not judged"
