"""Real servers measured as users measure them: vLLM's, SGLang's, llama.cpp's, transformers'."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from evidence.servers.other_servers import (
    LLAMA_CPP_PYTHON,
    SGLANG_PYTHON,
    llama_cpp_server,
    sglang_server,
    transformers_server,
)
from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.engine import EndpointEngine
from mlperf_suite.results.run_folder import read_config, read_summary
from mlperf_suite.results.schema import Summary
from scripts.local_servers import LocalServer, vllm_server

SILENCE_S = 1800.0
"""A machine under load may let a server wait long."""


def run_scenarios(
    server: LocalServer, results_dir: Path, scenarios: str, *arguments: str
) -> SuiteRun:
    """These scenarios of the datacenter category."""
    selection = ("-m", f"({scenarios}) and datacenter")
    measured = ("--endpoint", server.url, f"--engine-silence={SILENCE_S}")
    return run_suite(results_dir, *selection, *measured, *arguments)


def summaries(run: SuiteRun) -> dict[str, Summary]:
    """By scenario."""
    by_scenario = [read_summary(folder) for folder in run.results_dir.glob("2*-*")]
    return {summary.meta.scenario or "": summary for summary in by_scenario if summary is not None}


def check_every_rule(run: SuiteRun, fields: str) -> None:
    """Every rule judged the run, through the route of this kind of server, and none failed."""
    assert run.exit_code == 0, run.output
    config = read_config(run.folder)
    assert config is not None
    assert config["engine"]["settings"]["fields"] == fields
    assert {verdict.status for verdict in run.summary.verdicts} == {"passed", "shortened"}


@pytest.fixture(scope="module")
def vllm() -> Iterator[LocalServer]:
    with vllm_server() as server:
        yield server


@pytest.fixture(scope="module")
def on_vllm(vllm: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return run_scenarios(vllm, tmp_path_factory.mktemp("vllm"), "offline or server")


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


def test_several_client_processes_lose_nothing_on_a_real_server(
    vllm: LocalServer, tmp_path: Path
) -> None:
    run = run_scenarios(vllm, tmp_path, "offline", "--endpoint-clients", "3")
    assert run.exit_code == 0, run.output
    summary = run.summary
    assert {verdict.status for verdict in summary.verdicts} == {"passed", "shortened"}
    performance = summary.run.performance
    assert performance is not None and "performance" in summary.run.remote
    for mode, remote in summary.run.remote.items():
        (endpoint,) = remote.endpoints
        assert (remote.client.processes, remote.departures) == (3, ())
        assert remote.client.connections >= 3 and endpoint.requests > 0
        if mode == "performance":
            assert endpoint.tokens == performance.total_new_tokens


def test_the_figures_of_several_client_processes_are_those_of_all(vllm: LocalServer) -> None:
    tokenizer = load_tokenizer(vllm.model, None)
    prompts = [tokenizer(f"The number after {n} is")["input_ids"] for n in range(60)]
    config = EndpointConfig(
        (parse_endpoint(vllm.url),),
        vllm.model,
        embedded_model_dir(),
        49_152,
        clients=3,
        silence_s=SILENCE_S,
    )
    generation = Generation(max_new_tokens=8)
    with contextlib.closing(EndpointEngine.load(config)) as engine:
        answers = generate_all(engine, prompts, generation).token_ids
        busy_s = [psutil.Process(client.pid).cpu_times().user for client in engine._clients]
        connections = dict(engine._client_account._connections)
        remote = engine.take_remote_run()
    assert all(answers) and len(answers) == len(prompts)
    (endpoint,) = remote.endpoints
    assert (endpoint.requests, endpoint.tokens) == (60, sum(map(len, answers)))
    assert sorted(connections) == [0, 1, 2] and all(connections.values())
    assert remote.client.connections == sum(connections.values())
    assert len(busy_s) == remote.client.processes == 3 and all(busy_s)
    with contextlib.closing(EndpointEngine.load(replace(config, clients=1))) as engine:
        alone = generate_all(engine, prompts, generation).token_ids
    # Other batches may round otherwise; another's answer would begin differently nearly always.
    same = sum(one[0] == several[0] for one, several in zip(alone, answers, strict=True))
    assert same >= 54


def test_vllms_route_for_token_ids_is_found_and_judged_by_every_rule(tmp_path: Path) -> None:
    with vllm_server(arguments=["--enable-scale-out"]) as server:
        check_every_rule(run_scenarios(server, tmp_path, "offline"), "vllm-generate")


@pytest.mark.skipif(not SGLANG_PYTHON.is_file(), reason="no SGLang: make evidence")
def test_sglangs_server_is_judged_by_every_rule(tmp_path: Path) -> None:
    with sglang_server() as server:
        check_every_rule(run_scenarios(server, tmp_path, "offline"), "sglang")


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
