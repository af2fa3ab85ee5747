"""A hidden cache of answers before a real HTTP server, and the caching audit, which finds it."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from evidence.caching_audit.with_servers.caching_proxy import caching_proxy
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import RunningStandIn, stand_in_server
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.features.caching_audit.kind import CachingKey
from mlperf_suite.session.engines import load_engine
from mlperf_suite.session.executor import Session
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Selection
from mlperf_suite.settings import resolve_settings

KEY = CachingKey("llama3.1-8b", "Offline")
SLOW_S = 0.1
"""Of each answer of the server: far from what the proxy takes, however busy the machine."""


def audited(url: str, folder: Path) -> dict[str, str]:
    """The status of each rule of an audit of that server."""
    settings = resolve_settings({"results_dir": str(folder), "endpoint": [url]}, {})
    suite = Session(
        settings, plan_session(Selection([KEY], remote=True)), load_engine, ProgressDisplay()
    )
    try:
        assert not suite.obstacles()
        outcome = suite.make(KEY)
        assert outcome.ok, outcome.failure
        return {verdict.rule: verdict.status for verdict in suite.recorder.verdicts(KEY)}
    finally:
        suite.close()


def stand_in() -> StandIn:
    return StandIn(model=str(embedded_model_dir()), max_model_len=8192, first_token_s=SLOW_S)


@pytest.mark.parametrize("cached", [True, False], ids=["proxy", "the server behind it"])
def test_the_audit_finds_a_hidden_cache_of_answers(cached: bool, tmp_path: Path) -> None:
    with stand_in_server(stand_in()) as server, caching_proxy(server.url) as url:
        result = audited(url if cached else server.url, tmp_path)
    assert result.pop("caching_speed") in (("failed",) if cached else ("passed", "not judged"))
    assert result.pop("caching_prompt_tokens") == "not judged"
    assert set(result.values()) == {"passed"}


# The proxy itself


def answer_of(url: str, **body: object) -> bytes:
    request = urllib.request.Request(
        f"{url}/v1/completions",
        json.dumps({"model": str(embedded_model_dir()), "max_tokens": 2, **body}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        content: bytes = answer.read()
    return content


def completions(server: RunningStandIn) -> int:
    return int(server.account()["completions"])


def test_it_asks_once_for_what_it_has_seen_whatever_the_salt() -> None:
    with stand_in_server(stand_in()) as server, caching_proxy(server.url) as url:
        first = answer_of(url, prompt=[1, 2, 3], cache_salt="a")
        assert answer_of(url, prompt=[1, 2, 3], cache_salt="b") == first
        assert completions(server) == 1
        answer_of(url, prompt=[1, 2, 4], cache_salt="a")
        assert completions(server) == 2


def test_it_passes_on_what_is_no_question() -> None:
    with stand_in_server() as server, caching_proxy(server.url) as url:
        for _ in range(2):
            with urllib.request.urlopen(f"{url}/v1/models", timeout=120) as answer:
                assert json.load(answer)["data"]
        assert server.account()["requests"]["/v1/models"] == 2
