"""What servers seldom do, at a real socket: one of two dies, one answer stops, text comes alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from meta_tests.engines.recording import RecordingListener
from meta_tests.features.servers.http_requests import text_codec
from meta_tests.features.servers.shared_stand_ins import shared_stand_ins
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import RunningStandIn, engine_on, stand_in_server
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.protocol import Request
from mlperf_suite.errors import RunError
from mlperf_suite.features.servers.engine import EndpointEngine
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings

SAMPLES = 20
ANSWER = 12
SILENCE_S = 10.0
"""Short enough to be waited for. A busy machine must not be silent for so long."""
GUARD_S = 120.0
GENERATION = Generation(max_new_tokens=ANSWER)


def server_of(**options: Any) -> RunningStandIn:
    (server,) = shared_stand_ins(StandIn(**options))
    return server


def ask(engine: EndpointEngine, count: int, prompt: list[int]) -> RecordingListener:
    """What is told of so many streamed requests, without LoadGen, once all have ended."""
    listener = RecordingListener()
    requests = [Request(number, prompt) for number in range(count)]
    engine.submit(requests, GENERATION, listener, stream=True)
    listener.wait(count)
    return listener


def test_one_of_two_that_dies_fails_the_run_with_its_name(tmp_path: Path) -> None:
    plan = plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Server"),
        "performance",
        ROUNDS[DEFAULT_ROUND],
        SAMPLES,
        target_qps=100.0,
        shortened=Shortened(1000, 64, latency_percent=90),
    )
    with (
        stand_in_server() as sound,
        stand_in_server(StandIn(fault="dies", fault_from=10)) as dying,
        engine_on(sound, dying, silence_s=GUARD_S, clients=1) as engine,
    ):
        engine.run_begins("Server", "performance")
        with pytest.raises(RunError) as caught:
            run_loadgen(plan, engine, [[12345] * 3] * SAMPLES, GENERATION, tmp_path)
    assert dying.url in str(caught.value)
    assert sound.url not in str(caught.value)


def test_text_alone_is_counted_with_the_models_tokenizer() -> None:
    """Chunks that begin within a word count the same as the whole."""
    counts = []
    at = {"tokenizer": embedded_model_dir(), "vocabulary": 49_152, "clients": 1}
    for chunk_tokens in (1, None):
        server = server_of(dialect="text", chunk_tokens=chunk_tokens)
        with engine_on(server, silence_s=GUARD_S, **at) as engine:
            counts.append([len(ids) for ids in ask(engine, 5, [1, 2]).answers.values()])
            # Its usage has the server's own count.
            assert "token count" not in str(engine.take_remote_run().departures)
    assert counts[0] == counts[1] and min(counts[0]) >= ANSWER


def test_a_first_piece_with_a_long_prompts_ids_is_no_head() -> None:
    """vLLM repeats a prompt's ids in the first piece, and one read may hold it with the head."""
    with engine_on(server_of(), silence_s=GUARD_S, clients=1) as engine:
        assert len(ask(engine, 5, [12345] * 20_000).answers) == 5
        assert engine.take_remote_run().departures == ()


def test_one_answer_that_is_lost_is_seen_while_others_go_on() -> None:
    listener, tag = RecordingListener(), 0
    server = server_of(fault="stops", fault_from=10, fault_for=1)
    with engine_on(server, silence_s=SILENCE_S, clients=1) as engine:
        began = time.monotonic()
        while not listener.errors and time.monotonic() - began < GUARD_S:
            engine.submit([Request(tag, [1])], GENERATION, listener, stream=True)
            tag += 1
            time.sleep(0.02)
        engine.abort()
    ((_, error),) = listener.errors.items()
    assert f"sent nothing for {SILENCE_S:.0f} s in the middle of an answer" in str(error)
    assert len(listener.answers) > 20


def test_a_prompts_text_is_the_same_tokens_again() -> None:
    settings = resolve_settings({}, {})
    prompts = Inputs(settings, [LLAMA3_1_8B]).prompts(LLAMA3_1_8B)
    tokenizer = Tokenizer.from_file(str(embedded_model_dir() / "tokenizer.json"))
    assert len(prompts) > 10
    for prompt in prompts:
        assert tokenizer.encode(text_codec().prompt(list(prompt))).ids == prompt
