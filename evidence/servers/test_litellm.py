"""What LiteLLM's proxy does to requests, refusals and streams of a server, which is a stand-in."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from evidence.servers.honest_streams import TOKENS, WHOLE, collecting_proxy, measured
from evidence.servers.other_servers import LITELLM, LITELLM_KEY, litellm_proxy
from meta_tests.servers.options import StandIn
from meta_tests.servers.stand_in_server import stand_in_server
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.rules.limits import held_back
from scripts.local_servers import LocalServer


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
