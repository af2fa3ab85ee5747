"""What a server can do wrong, at a real socket: each ends in one line that names the server."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.endpoint.config import EndpointConfig, parse_endpoint
from mlperf_suite.engines.endpoint.engine import RETRIES, EndpointEngine
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.engines.scoring import ScoreRequest, ScoringEngine
from mlperf_suite.errors import EngineError, RunError
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import LoadRun, abandoned, run_loadgen
from mlperf_suite.testing.options import FAULTS, StandIn
from mlperf_suite.testing.stand_in_server import (
    RunningStandIn,
    make_certificate,
    stand_in_server,
)

VOCABULARY = 32_000
SAMPLES = 20
ANSWER = 12
RATE = 100.0
WITHIN_S = 30.0
LOST = {
    "status-429": "answered with status 429: the stand-in server refuses, as it was told to",
    "status-500": "answered with status 500: the stand-in server refuses, as it was told to",
    "status-503": "answered with status 503: the stand-in server refuses, as it was told to",
    "redirect": "redirects to http://elsewhere: give that URL",
    "garbage": "sent a response that is not HTTP",
    "dies": "(closed the connection|refused the connection|cannot be reached)",
    "no-answer": "sent nothing for 2 s",
    "no-first-token": "sent nothing for 2 s",
    "stops": "sent nothing for 2 s",
    "closes": "closed the connection in the middle of an answer",
    "ends-early": "ended an answer without a finish_reason",
    "error-in-stream": "answered with an error: EngineCore died",
    "no-json": "sent invalid JSON",
    "no-utf8": "sent (JSON that is not a completion|invalid JSON)",
    "endless-line": "sent a line of more than [0-9,]+ bytes",
    "id-beyond": "sent the token id 32000, beyond the vocabulary of 32,000",
    "id-negative": "sent the token id -1, beyond the vocabulary of 32,000",
    "id-huge": "sent (the token id [0-9]+, beyond the vocabulary|JSON that is not a completion)",
    "id-float": "sent JSON that is not a completion",
}
"""By fault, what is said of the first answer that is lost."""
DEPARTURES = {
    "cut": r"answers cut short by the server's own limit \(6 tokens of 12\)",
    "other-model": r"answers made by another model \(another-model\)",
    "miscounted": r"answers with another token count in usage \(19 tokens for 12\)",
}
"""By fault, what is said of a run whose answers are not what was asked for."""
HARMLESS = ("closes-idle", "comments", "torn")


@contextmanager
def engine_at(*servers: RunningStandIn, **config: Any) -> Iterator[EndpointEngine]:
    """An engine on these servers, loaded; its clients end with the context."""
    targets = tuple(parse_endpoint(server.url) for server in servers)
    made = {"tokenizer": None, "vocabulary": VOCABULARY, "silence_s": 2.0, "clients": 1} | config
    engine = EndpointEngine.load(EndpointConfig(targets, "stand-in", **made))
    try:
        yield engine
    finally:
        engine.close()


def run(engine: EndpointEngine, folder: Path, mode: Mode = "performance") -> LoadRun:
    """A second of Server, or each sample once."""
    plan = plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Server"),
        mode,
        ROUNDS[DEFAULT_ROUND],
        SAMPLES,
        target_qps=RATE,
        shortened=Shortened(1000, 64, latency_percent=90),
    )
    prompts = [[1, 2, 3]] * SAMPLES
    engine.run_begins("Server", mode)
    return run_loadgen(plan, engine, prompts, Generation(max_new_tokens=ANSWER), folder)


def fails(engine: EndpointEngine, folder: Path, mode: Mode = "performance") -> str:
    """The one line of a run that fails in time, its logs kept."""
    began = time.monotonic()
    with pytest.raises(RunError) as caught:
        run(engine, folder, mode)
    assert time.monotonic() - began < WITHIN_S
    line = str(caught.value)
    assert "\n" not in line
    assert (folder / "mlperf_log_detail.txt").exists()
    return line


def remote_run(engine: EndpointEngine) -> RemoteRun:
    return engine.take_remote_run()


def faulty(fault: Any, **options: Any) -> StandIn:
    """A server that has the fault once the engine is loaded."""
    after_trial: dict[str, Any] = {"fault_from": 10, "redirect_to": "http://elsewhere"}
    return StandIn(fault=fault, **(after_trial | options))


def test_every_fault_is_tried() -> None:
    assert {*LOST, *DEPARTURES, *HARMLESS, "cached"} == set(FAULTS)


@pytest.mark.parametrize("fault", LOST)
def test_the_first_lost_request_fails_a_performance_run(fault: str, tmp_path: Path) -> None:
    with stand_in_server(faulty(fault)) as server, engine_at(server) as engine:
        line = fails(engine, tmp_path)
        assert server.url in line
        assert re.search(LOST[fault], line), line


@pytest.mark.parametrize("fault", ["status-429", "status-500", "status-503"])
def test_a_performance_run_is_never_sent_again(fault: str, tmp_path: Path) -> None:
    with stand_in_server(faulty(fault, fault_for=1)) as server, engine_at(server) as engine:
        assert "status" in fails(engine, tmp_path)


@pytest.mark.parametrize("fault", ["status-429", "status-500", "status-503"])
def test_an_accuracy_run_is_sent_again_what_was_refused_for_now(fault: str, tmp_path: Path) -> None:
    with stand_in_server(faulty(fault, fault_for=2)) as server, engine_at(server) as engine:
        assert run(engine, tmp_path, "accuracy").samples == SAMPLES
        assert remote_run(engine).client.resent == 2


def test_an_accuracy_run_is_not_sent_again_for_ever(tmp_path: Path) -> None:
    # Refusals are no signs of life; all pauses between them together must be shorter.
    with stand_in_server(faulty("status-503")) as server, engine_at(server, silence_s=20) as engine:
        asked = server.seen()["completions"]
        assert "status 503" in fails(engine, tmp_path, "accuracy")
        assert server.seen()["completions"] - asked <= SAMPLES * (1 + RETRIES)


@pytest.mark.parametrize("fault", DEPARTURES)
def test_answers_that_are_not_as_asked_are_told(fault: str, tmp_path: Path) -> None:
    with stand_in_server(faulty(fault)) as server, engine_at(server) as engine:
        answered = run(engine, tmp_path)
        departures = remote_run(engine).departures
        assert answered.samples > 10
        assert len(departures) == 1
        assert re.search(DEPARTURES[fault], departures[0]), departures


def test_tokens_from_a_cache_are_told(tmp_path: Path) -> None:
    with stand_in_server(faulty("cached")) as server, engine_at(server) as engine:
        answered = run(engine, tmp_path)
        # The first nine answers of the run are right, and say nothing of a cache.
        assert engine.cached_prompt_tokens == 3 * (answered.samples - 9)
        assert remote_run(engine).endpoints[0].cached_tokens == engine.cached_prompt_tokens


@pytest.mark.parametrize("fault", HARMLESS)
def test_what_a_server_may_do_does_no_harm(fault: str, tmp_path: Path) -> None:
    with stand_in_server(faulty(fault)) as server, engine_at(server) as engine:
        answered = run(engine, tmp_path)
        assert answered.tokens == ANSWER * answered.samples
        assert remote_run(engine).departures == ()


@pytest.mark.parametrize(
    "options",
    [
        {"dialect": "vllm", "chunk_tokens": 1},
        {"dialect": "sglang"},
        {"dialect": "sglang", "chunk_tokens": 2, "sglang_ids": "delta"},
        {"dialect": "sglang", "chunk_tokens": 2, "sglang_ids": "shrinking"},
        {"dialect": "tensorrt-llm"},
        {"dialect": "vllm", "chunk_tokens": 2, "scale_out": True},
        {"dialect": "sglang", "chunk_tokens": 2, "native": False},
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_each_kind_of_server_is_found_out_and_understood(
    options: dict[str, Any], tmp_path: Path
) -> None:
    with stand_in_server(StandIn(**options)) as server, engine_at(server) as engine:
        answered = run(engine, tmp_path)
        assert engine.description.stand_in
        assert engine.description.settings["server"] == options["dialect"]
        assert answered.tokens == ANSWER * answered.samples
        assert remote_run(engine).departures == ()


ROUTES = [
    ({"scale_out": True}, None, "vllm-generate", "/inference/v1/generate"),
    ({"scale_out": True}, "vllm", "vllm", "/v1/completions"),
    ({"scale_out": True}, "vllm-generate", "vllm-generate", "/inference/v1/generate"),
    ({}, None, "vllm", "/v1/completions"),
    ({"dialect": "sglang"}, None, "sglang", "/generate"),
    ({"dialect": "sglang"}, "sglang-completions", "sglang-completions", "/v1/completions"),
    ({"dialect": "sglang", "native": False}, None, "sglang-completions", "/v1/completions"),
]


@pytest.mark.parametrize(("options", "given", "fields", "path"), ROUTES)
def test_the_route_is_that_which_is_mounted_or_was_given(
    options: dict[str, Any], given: Any, fields: str, path: str
) -> None:
    with stand_in_server(StandIn(**options)) as server:
        with engine_at(server, kind=given) as engine:
            settings = engine.description.settings
        asked = {one: count for one, count in server.seen()["requests"].items() if count}
    assert settings["fields"] == fields
    assert settings["server"] == options.get("dialect", "vllm")
    assert path in asked
    # Whoever names the kind is taken at the word.
    assert given is None or "/inference/v1/generate" not in asked or given == "vllm-generate"


def test_probabilities_are_asked_of_completions_whatever_the_route_for_answers() -> None:
    """The stand-in has none, and says so; the other route has them in another form."""
    asked = ScoreRequest(0, [1, 2, 3], [[4], [5]])
    with stand_in_server(StandIn(scale_out=True)) as server, engine_at(server) as engine:
        assert isinstance(engine, ScoringEngine)
        with pytest.raises(EngineError, match="no log-probabilities"):
            list(engine.score([asked]))
        assert server.seen()["requests"]["/v1/completions"] == 1


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({}, "vllm-generate", "refused the key|status 403"),
        ({"dialect": "sglang", "native": False}, "sglang", "status 404"),
    ],
)
def test_a_route_that_was_given_and_is_not_there_is_said(
    options: dict[str, Any], given: Any, words: str
) -> None:
    with (
        stand_in_server(StandIn(**options)) as server,
        pytest.raises(EngineError, match=words) as caught,
        engine_at(server, kind=given),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_transformers_is_told_the_shortest_answer_and_what_ends_one(tmp_path: Path) -> None:
    options = StandIn(dialect="transformers", tokens=2, chunk_tokens=1)
    at = {"tokenizer": embedded_model_dir(), "vocabulary": 49_152, "end_ids": (2,)}
    with stand_in_server(options) as server, engine_at(server, **at) as engine:
        assert engine.description.settings["fields"] == "text, with a generation_config"
        run(engine, tmp_path)
        config = json.loads(json.loads(server.seen()["body"])["generation_config"])
    assert (config["eos_token_id"], config["min_new_tokens"], config["top_k"]) == ([2], 1, 1)


def test_text_alone_is_counted_with_the_models_tokenizer(tmp_path: Path) -> None:
    """Chunks that begin within a word count the same as the whole."""
    found = []
    for chunk_tokens in (1, None):
        options = StandIn(dialect="text", chunk_tokens=chunk_tokens)
        folder = tmp_path / str(chunk_tokens)
        with (
            stand_in_server(options) as server,
            engine_at(server, tokenizer=embedded_model_dir(), vocabulary=49_152) as engine,
        ):
            answered = run(engine, folder)
            found.append(answered.tokens / answered.samples)
    assert found[0] == found[1] >= ANSWER


def test_a_refused_connection_is_found_before_anything_is_loaded() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(EngineError, match=f"{url}: refused the connection"):
            EndpointEngine.load(
                EndpointConfig((parse_endpoint(url),), "stand-in", None, VOCABULARY)
            )


@pytest.mark.parametrize(
    ("key", "words"), [(None, "wants a key"), ("wrong-key-of-mine", "refused the key")]
)
def test_a_wrong_key_is_found_when_loading_and_never_said(key: str | None, words: str) -> None:
    with (
        stand_in_server(StandIn(key="right")) as server,
        pytest.raises(EngineError, match=words) as caught,
        engine_at(server, key=key),
    ):
        pass
    assert server.url in str(caught.value)
    assert "wrong-key-of-mine" not in str(caught.value)


def test_the_right_key_is_sent_with_every_request(tmp_path: Path) -> None:
    with stand_in_server(StandIn(key="right")) as server, engine_at(server, key="right") as engine:
        run(engine, tmp_path)
        assert server.seen()["authorizations"] == ["Bearer right"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("redirect", "redirects to"),
        ("status-503", "answered with status 503"),
        ("garbage", "not HTTP"),
        ("dies", "cannot be reached|closed|not HTTP"),
        ("no-answer", "did not answer within 10 s"),
    ],
)
def test_a_server_that_cannot_be_used_is_found_when_loading(fault: Any, words: str) -> None:
    began = time.monotonic()
    with (
        stand_in_server(StandIn(fault=fault, everywhere=True, redirect_to="http://x")) as server,
        pytest.raises(EngineError, match=words) as caught,
        engine_at(server),
    ):
        pass
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < WITHIN_S


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_redirect_is_never_followed(everywhere: bool, tmp_path: Path) -> None:
    with stand_in_server() as other:
        options = faulty("redirect", redirect_to=other.url, everywhere=everywhere, key="secret-key")
        with stand_in_server(options) as server:
            if everywhere:
                with (
                    pytest.raises(EngineError, match=other.url),
                    engine_at(server, key="secret-key"),
                ):
                    pass
            else:
                with engine_at(server, key="secret-key") as engine:
                    assert other.url in fails(engine, tmp_path)
        seen = other.seen()
    assert (seen["requests"], seen["authorizations"]) == ({}, [])


def test_tls_is_verified(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    options = StandIn(certificate=str(certificate), certificate_key=str(key))
    with stand_in_server(options) as server:
        with (
            pytest.raises(EngineError, match="TLS certificate does not verify") as caught,
            engine_at(server),
        ):
            pass
        assert server.url in str(caught.value)
        with engine_at(server, ca_file=certificate) as engine:
            answered = run(engine, tmp_path / "run")
            assert answered.tokens == ANSWER * answered.samples


def test_one_of_two_that_dies_fails_the_run_with_its_name(tmp_path: Path) -> None:
    with (
        stand_in_server() as sound,
        stand_in_server(faulty("dies")) as dying,
        engine_at(sound, dying) as engine,
    ):
        line = fails(engine, tmp_path)
        assert dying.url in line
        assert sound.url not in line


@pytest.mark.parametrize("fault", ["dies", "no-answer", "closes"])
def test_a_run_that_failed_tells_what_was_answered_until_then(fault: Any, tmp_path: Path) -> None:
    with stand_in_server(faulty(fault)) as server, engine_at(server) as engine:
        fails(engine, tmp_path)
        asked = server.process.poll() is None and server.seen()["requests"].get("/metrics", 0)
        told = remote_run(engine)
        # A server that failed is not asked again, which may take ten seconds.
        if server.process.poll() is None:
            assert server.seen()["requests"].get("/metrics", 0) == asked
    # One of the ten was the trial's.
    assert (told.endpoints[0].requests, told.endpoints[0].tokens) == (9, 9 * ANSWER)
    assert told.client.busy_share >= 0


def test_nothing_is_left_of_an_engine_that_was_closed(tmp_path: Path) -> None:
    with stand_in_server(faulty("stops")) as server:
        with engine_at(server) as engine:
            fails(engine, tmp_path)
        deadline = time.monotonic() + WITHIN_S
        # The connection that asks is open as well.
        while server.seen()["open"] > 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def wait_for_loadgen() -> None:
    """LoadGen issues what is left before another run can be made in this process."""
    deadline = time.monotonic() + 60
    while abandoned() and time.monotonic() < deadline:
        time.sleep(0.1)


def _run_at(
    engine: EndpointEngine, folder: Path, rate: float, duration_ms: int, prompt: int
) -> None:
    """A Server performance run over prompts of so many tokens."""
    shortened = Shortened(duration_ms, 64, latency_percent=90)
    scenario, round_ = LLAMA3_1_8B.scenario("Server"), ROUNDS[DEFAULT_ROUND]
    plan = plan_run(
        LLAMA3_1_8B,
        scenario,
        "performance",
        round_,
        SAMPLES,
        target_qps=rate,
        shortened=shortened,
    )
    prompts = [[12345] * prompt] * SAMPLES
    run_loadgen(plan, engine, prompts, Generation(max_new_tokens=ANSWER), folder)


def test_a_first_piece_with_a_long_prompts_ids_is_no_head(tmp_path: Path) -> None:
    """vLLM repeats a prompt's ids in the first piece, and one read may hold it with the head."""
    with stand_in_server(StandIn()) as server, engine_at(server) as engine:
        _run_at(engine, tmp_path, 20, 1000, 20_000)
        told = remote_run(engine)
    assert told.endpoints[0].requests > 0 and told.departures == ()


def test_one_answer_that_stops_is_seen_while_others_go_on(tmp_path: Path) -> None:
    with stand_in_server(faulty("stops", fault_for=1)) as server, engine_at(server) as engine:
        with pytest.raises(RunError, match="sent nothing for 2 s in the middle of an answer"):
            _run_at(engine, tmp_path, 50, 12_000, 3)
        assert server.seen()["completions"] < 400, "the run went on to its end"
    wait_for_loadgen()


def test_one_request_without_a_first_token_is_seen_while_others_are_answered(
    tmp_path: Path,
) -> None:
    options = faulty("no-first-token", fault_for=1)
    with stand_in_server(options) as server, engine_at(server) as engine:
        with pytest.raises(RunError, match=r"sent no first token for \d+ s while requests sent"):
            _run_at(engine, tmp_path, 100, 6_000, 3)
        assert server.seen()["completions"] < 500, "the run went on to its end"
    wait_for_loadgen()


def test_a_server_that_was_slow_before_it_fell_silent_is_not_waited_for_longer(
    tmp_path: Path,
) -> None:
    """Every answer comes after a pause that is a large part of the limit."""
    options = faulty("no-answer", first_token_s=1.5)
    with stand_in_server(options) as server, engine_at(server, silence_s=4.0) as engine:
        assert "sent nothing for 4 s" in fails(engine, tmp_path)


@pytest.mark.parametrize("fault", ["id-beyond", "error-in-stream", "status-500"])
def test_a_server_that_fails_the_first_prompt_is_not_taken_for_one_of_text(fault: str) -> None:
    wrong = StandIn(vocabulary=VOCABULARY, fault=fault)  # type: ignore[arg-type]
    with stand_in_server(wrong) as server, pytest.raises(EngineError, match=LOST[fault]):
        target = parse_endpoint(server.url)
        folder = embedded_model_dir()
        EndpointEngine.load(EndpointConfig((target,), "stand-in", folder, VOCABULARY)).close()
