"""LiteLLM's proxy, measured as docs/endpoints.md says: in front of vLLM's own server, and what it
does to requests and refusals in front of a stand-in."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from evidence.servers.honest_streams import (
    ANSWERS,
    SILENCE_S,
    TOKENS,
    WHOLE,
    collecting_proxy,
    measured,
)
from evidence.servers.other_servers import LITELLM, LITELLM_KEY, litellm_proxy
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import stand_in_server
from meta_tests.suite_runs import run_suite
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.results.run_folder import read_config, read_summary, run_folders
from mlperf_suite.rules.limits import held_back
from scripts.local_servers import LocalServer, vllm_server


@pytest.fixture(scope="module")
def vllm() -> Iterator[LocalServer]:
    if not LITELLM.is_file():
        pytest.skip("LiteLLM is not installed: make evidence")
    with vllm_server() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(vllm: LocalServer) -> Iterator[LocalServer]:
    with litellm_proxy(vllm) as proxy:
        yield proxy


def completion(gateway: LocalServer, prompt: str | list[int]) -> tuple[int, str]:
    """The status and the body of a streamed answer; LiteLLM sends others again."""
    body = json.dumps({"model": gateway.model, "prompt": prompt, "stream": True})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {LITELLM_KEY}"}
    request = urllib.request.Request(f"{gateway.url}/v1/completions", body.encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_it_passes_a_stream_on_neither_retries_nor_caches_and_takes_text_alone() -> None:
    if not LITELLM.is_file():
        pytest.skip("LiteLLM is not installed: make evidence")
    name = str(embedded_model_dir())
    options = StandIn(
        model=name,
        max_model_len=8192,
        tokens=TOKENS,
        chunk_tokens=1,
        first_token_s=0.1,
        rest_s=1.0,
        fault="status-500",
        fault_from=1,
        fault_for=1,
    )
    with stand_in_server(options) as stand_in:
        server = LocalServer(stand_in.url, name, Path(), psutil.Process())
        with litellm_proxy(server) as gateway:
            assert [completion(gateway, "The")[0] for _ in range(3)] == [200, 500, 200]
            status, body = completion(gateway, [504, 1000])
            assert (status, "Unmapped prompt format" in body) == (500, True)
            passed_on = measured(gateway).stream
        with collecting_proxy(server, WHOLE) as proxy:
            collected = measured(proxy).stream
    assert passed_on is not None and held_back(passed_on) == ""
    assert collected is not None and held_back(collected).startswith("answers were held back")


def test_its_answers_are_text_and_have_vllms_tokens(
    vllm: LocalServer, gateway: LocalServer
) -> None:
    run = measured(gateway)
    (endpoint,) = run.endpoints
    assert endpoint.requests == ANSWERS
    assert run.departures == ()
    assert measured(vllm).endpoints[0].tokens == ANSWERS * TOKENS
    assert endpoint.tokens == pytest.approx(ANSWERS * TOKENS, rel=0.02)


def test_ttft_and_tpot_are_judged(gateway: LocalServer, tmp_path: Path) -> None:
    run = run_suite(
        tmp_path / "results",
        *("-m", "(offline or server) and datacenter and performance"),
        *("--endpoint", gateway.url, f"--engine-silence={SILENCE_S}"),
        API_KEY=LITELLM_KEY,
    )
    assert run.exit_code == 0, run.output
    by_scenario = {}
    for folder in run_folders(run.results_dir):
        summary, config = read_summary(folder), read_config(folder)
        assert summary is not None and config is not None
        by_scenario[summary.meta.scenario] = summary
        settings = config["engine"]["settings"]
        assert (settings["fields"], settings["tokens"]) == ("text", "text")
        assert all(remote.departures == () for remote in summary.run.remote.values())
    statuses = {v.rule: v.status for v in by_scenario["Server"].verdicts}
    assert statuses["streamed_answers"] == "passed"
    assert {statuses["ttft_limit"], statuses["tpot_limit"]} <= {"passed", "shortened"}
