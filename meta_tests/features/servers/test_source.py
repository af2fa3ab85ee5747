"""When the settings choose servers, and how they say to reach them."""

import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.benchmarks.made_model_folder import model_folder
from meta_tests.plugin.pytest_output import pytest_output
from meta_tests.session.timing.kept_offline_run import (
    check_no_other_takes_its_rate,
    config_of,
    takes_a_kept_rate,
)
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import UsageError
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.source import endpoint_config
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.results.schema import Config
from mlperf_suite.session import engines
from mlperf_suite.session.engine_source import EngineRequest, source_of
from mlperf_suite.session.engines import load_engine
from mlperf_suite.session.executor import Session
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Selection
from mlperf_suite.session.timing.earlier_runs import kept_rate
from mlperf_suite.settings import Settings, resolve_settings

URL = "http://host:8000"
PACKAGE = "mlperf_suite.features.servers"


def settings_of(environment: dict[str, str] | None = None, **options: Any) -> Settings:
    return resolve_settings(options, environment or {})


def inputs_of(settings: Settings) -> Inputs:
    return Inputs(settings, [LLAMA3_1_8B])


def test_vllm_is_loaded_without_an_endpoint(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    loaded: list[EndpointConfig] = []
    connecting = SimpleNamespace(EndpointEngine=SimpleNamespace(load=loaded.append))
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.engine", connecting)
    monkeypatch.setattr(engines, "load_vllm", lambda inputs, request: "vLLM")
    request = EngineRequest("runs", tmp_path / "engine.log")
    assert load_engine(inputs_of(settings_of()), request) == "vLLM"
    assert not loaded
    load_engine(inputs_of(settings_of(endpoint=[URL])), request)
    assert [config.log_file for config in loaded] == [request.log_file]
    source = source_of(settings_of(endpoint=[URL]))
    assert (source.takes("picture"), source.takes("sound")) == (True, False)
    model = str(model_folder(tmp_path / "model", LLAMA3_1_8B))
    at_a_server = inputs_of(settings_of(profile="official", model=model, endpoint=[URL]))
    words = at_a_server.possible_models(LLAMA3_1_8B)
    assert words.endswith(": its files are not on this machine")


def test_an_endpoint_is_reached_as_the_settings_say() -> None:
    # What was not said is left to the engine.
    config = endpoint_config(inputs_of(settings_of(endpoint=[URL])))
    defaults = (config.served_model, config.kind, config.key, config.ca_file, config.clients)
    assert (*defaults, config.requests) == (None,) * 6
    assert (config.routing, config.headers, config.silence_s) == ("fewest-tokens", {}, 22.0)
    words: dict[str, Any] = {
        **{"server": "sglang", "routing": "round-robin", "ca": __file__, "clients": "3"},
        **{"requests": "30", "header": ["X-Team=blue"]},
    }
    settings = settings_of(
        {"API_KEY": "sk-secret"},
        endpoint=[URL, "https://other/v1"],
        served_model_name="small",
        engine_silence="7",
        **{f"endpoint_{name}": value for name, value in words.items()},
    )
    assert endpoint_config(inputs_of(settings)) == EndpointConfig(
        targets=(parse_endpoint(URL), parse_endpoint("https://other")),
        model=str(embedded_model_dir()),
        tokenizer=embedded_model_dir(),
        vocabulary=49152,
        served_model="small",
        kind="sglang",
        routing="round-robin",
        key="sk-secret",
        headers={"X-Team": "blue"},
        ca_file=Path(__file__),
        clients=3,
        requests=30,
        context_needed=8192,
        silence_s=7.0,
    )


# Before anything is loaded


def checked(
    settings: Settings, monkeypatch: MonkeyPatch, says: str = "", context: int | None = None
) -> list[str]:
    """The endpoints that a session's check asked; they answer with their context, or are refused as
    said."""
    urls: list[str] = []

    def check_reachable(config: EndpointConfig) -> int | None:
        urls.extend(target.url for target in config.targets)
        if says:
            raise UsageError(says)
        return context

    def load(inputs: Inputs, request: EngineRequest) -> Engine:
        raise AssertionError("a check loads nothing")

    server_facts = SimpleNamespace(check_reachable=check_reachable)
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.server_facts", server_facts)
    plan = plan_session(Selection([RunKey(LLAMA3_1_8B.id, "Offline", "performance")]))
    if obstacles := Session(settings, plan, load, ProgressDisplay()).obstacles():
        raise UsageError("; ".join(obstacles))
    return urls


def test_each_endpoint_is_asked_before_a_load(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    results = str(tmp_path / "results")
    two = settings_of(results_dir=results, endpoint=[URL, "http://other"])
    assert checked(two, monkeypatch) == [URL, "http://other"]
    assert checked(settings_of(results_dir=results), monkeypatch) == []
    with pytest.raises(UsageError, match="connection refused"):
        checked(two, monkeypatch, f"--endpoint {URL}: connection refused")
    longest = max(map(len, Inputs(two, [LLAMA3_1_8B]).prompts(LLAMA3_1_8B)))
    assert checked(two, monkeypatch, context=longest + 1)
    with pytest.raises(
        UsageError, match=f"prompt of {longest} tokens .* context of {longest}: start"
    ):
        checked(two, monkeypatch, context=longest)
    # No endpoint is asked where something here is wrong.
    nowhere = str(tmp_path / "nowhere")
    wrong = settings_of(results_dir=results, endpoint=[URL], model=nowhere)
    with pytest.raises(UsageError, match=f"^--model {nowhere}: no such folder") as caught:
        checked(wrong, monkeypatch, "never said")
    assert "never said" not in str(caught.value)
    # Nor is the hub, of a model that the server refuses.
    for name in ("tokenizer", "_model_facts"):
        asked = property(lambda inputs: pytest.fail("the hub is asked"))
        monkeypatch.setattr(Inputs, name, asked)
    refused = settings_of(results_dir=results, endpoint=[URL], model="owner/name")
    with pytest.raises(UsageError, match=r"^it serves another$"):
        checked(refused, monkeypatch, "it serves another")


def test_a_collection_for_an_endpoint_asks_nobody_and_a_plan_asks(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        output = pytest_output(
            *("--collect-only", "-q", "-m", "server", f"--endpoint={url}"),
            f"--results-dir={tmp_path}/results",
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    answered = "estimated once the endpoint answered and was probed"
    for words in ("1. connect to the endpoint", answered):
        assert words in output
    assert "load the engine" not in output
    refused = pytest_output("--plan", "-m", "server", f"--endpoint={url}", code=4)
    assert f"ERROR: {url}: " in refused
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "other",
    [
        {"endpoint": ["http://two:8000"]},
        {"endpoint": [URL], "endpoint_server": "vllm"},
        {"endpoint": [URL], "endpoint_routing": "round-robin"},
        {"endpoint": [URL], "served_model_name": "small"},
    ],
)
def test_no_other_system_takes_the_rate_of_servers(tmp_path: Path, other: dict[str, Any]) -> None:
    check_no_other_takes_its_rate(tmp_path, {"endpoint": [URL]}, other)
    # Neither says anything of the system.
    silence: dict[str, Any] = {"endpoint_clients": "2", "engine_silence": "9"}
    same = settings_of(endpoint=[f"{URL}/v1"], results_dir=str(tmp_path), **silence)
    assert takes_a_kept_rate(same)
    config = Config.read(config_of(same, clients=2))
    assert kept_rate(tmp_path, LLAMA3_1_8B.id, config) == 5.0
