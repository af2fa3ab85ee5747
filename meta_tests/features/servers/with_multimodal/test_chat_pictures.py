"""Prompts with pictures on the route of chat completions, under the driver and its clients."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from meta_tests.engines.recording import RecordingListener
from meta_tests.features.servers.chat_stand_in import ChatStandIn, Events, chat_server, delta, last
from meta_tests.features.servers.replies import Refusal
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.datasets.media import MediaPrompt, PictureFile
from mlperf_suite.engines.protocol import MODEL_CHANGES, Request
from mlperf_suite.errors import EngineError, UsageError
from mlperf_suite.features.multimodal.product_prompts import ProductPrompt
from mlperf_suite.features.multimodal.qwen3_vl import QWEN3_VL, load_products
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.engine import EndpointEngine
from mlperf_suite.features.servers.picture_messages import chat_prompt, trial_prompt
from mlperf_suite.features.servers.server_facts import check_reachable
from mlperf_suite.rules.facts import find_deviations

GENERATION = Generation(max_new_tokens=9, temperature=0.7, top_p=0.8, top_k=20, seed=None)


def prompts(count: int = 2) -> list[MediaPrompt]:
    samples = load_products("embedded").items[:count]
    prompt = ProductPrompt("v6.1")
    return [
        MediaPrompt([1, 2, 3], sample.media, partial(prompt._messages, sample))
        for sample in samples
        if sample.media
    ]


def vllm(body: dict[str, Any]) -> Events:
    """As vLLM streams: a role first, then content with its token ids, then the usage."""
    yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    for number, text in ((5, "a"), (6, "b")):
        event = delta(content=text)
        event["choices"][0]["token_ids"] = [number]
        yield event
    yield from last(prompt=321, tokens=2)


def pages(owner: str, info: object = None) -> dict[str, Callable[[], str]]:
    card = {"id": "m", "owned_by": owner, "max_model_len": 4096}
    pages = {"/v1/models": lambda: json.dumps({"data": [card]})}
    if info is not None:
        pages["/server_info?config_format=json"] = lambda: json.dumps(info)
    return pages


@contextmanager
def engine(
    answer: Callable[[dict[str, Any]], Events] = vllm,
    owner: str = "vllm",
    info: object = None,
    tokenizer: Path | None = None,
) -> Iterator[tuple[EndpointEngine, ChatStandIn]]:
    """An engine on a chat server with these answers, and the server."""
    with chat_server(answer, pages=pages(owner, info)) as server:
        config = EndpointConfig((parse_endpoint(server.url),), "m", tokenizer, 1000, chat=True)
        with closing(EndpointEngine.load(config)) as loaded:
            yield loaded, server


def answers_of(loaded: EndpointEngine, asked: Sequence[Sequence[int]]) -> RecordingListener:
    listener = RecordingListener()
    requests = [Request(number, prompt) for number, prompt in enumerate(asked)]
    loaded.submit(requests, GENERATION, listener, stream=True)
    listener.wait(len(asked))
    return listener


def test_a_name_is_refused_also_where_the_server_does_not_repeat_it() -> None:
    """It answers the same request under the name that it lists."""

    def answer(body: dict[str, Any]) -> Events:
        if body["model"] not in served:
            raise Refusal(404, "unknown model")
        return vllm(body)

    served = ["m"]
    with chat_server(answer, pages=pages("vllm")) as server:
        target = parse_endpoint(server.url)
        config = EndpointConfig((target,), "m", None, 1, served_model="no-such", chat=True)
        with pytest.raises(UsageError, match=r"serves m, and refuses .* no-such: unknown model$"):
            check_reachable(config)
        served.clear()
        with pytest.raises(UsageError, match=r"unknown model: is the path .* and no-such a model"):
            check_reachable(config)


def test_the_picture_is_sent_as_it_is_and_the_answer_is_token_ids() -> None:
    asked = prompts()
    with engine() as (loaded, server):
        listener = answers_of(loaded, asked)
        assert listener.answers == {0: [5, 6], 1: [5, 6]}
        assert listener.first == {0: [5], 1: [5]}
        assert loaded.description.settings["tokens"] == "ids"
        assert loaded.take_remote_run().departures == ()
    bodies = {json.dumps(body["messages"]): body for body in server.bodies[1:]}
    for prompt in asked:
        body = bodies[json.dumps(json.loads(chat_prompt(prompt, str)))]
        assert body["return_token_ids"] and body["top_k"] == 20 and body["max_tokens"] == 9
        assert "seed" not in body and "prompt" not in body
        system, user = body["messages"]
        assert system["role"] == "system" and user["content"][0]["type"] == "text"
        head, _, data = user["content"][1]["image_url"]["url"].partition(",")
        assert head == "data:image/png;base64"
        assert isinstance(prompt.media, PictureFile)
        assert base64.b64decode(data) == prompt.media.content


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content", "tool_calls"])
def test_an_answer_elsewhere_than_in_content_is_refused(name: str) -> None:
    def elsewhere(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield delta(**{name: "hm" if name != "tool_calls" else [{"index": 0}]})
        yield from last()

    with pytest.raises(EngineError, match=f"answered in `{name}`"), engine(elsewhere):
        pytest.fail("it was taken")


def test_a_server_that_returns_text_needs_a_tokenizer_to_count_by() -> None:
    with pytest.raises(EngineError, match="its tokens cannot be counted"), engine(owner="someone"):
        pytest.fail("it was taken")


def test_a_prompt_of_tokens_alone_is_a_users_text() -> None:
    assert json.loads(chat_prompt([1, 2], str)) == [{"role": "user", "content": "[1, 2]"}]
    assert b"image_url" in chat_prompt(trial_prompt(), str)
    with engine(tokenizer=embedded_model_dir()) as (loaded, server):
        answers_of(loaded, [[12345] * 3])
        assert isinstance(server.bodies[1]["messages"][0]["content"], str)


# What a server makes of a picture


@pytest.mark.parametrize("counted", [None, 321, 322])
def test_a_picture_of_other_tokens_is_a_departure(counted: int | None) -> None:
    (prompt,) = prompts(1)
    prompt.counted = counted
    with engine() as (loaded, _):
        answers_of(loaded, [prompt])
        deviations = loaded.take_remote_run().departures
    words = "1 of 1 answers with another prompt length in usage (321 tokens for 322)"
    assert deviations == ((words,) if counted == 322 else ())


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ({"mm_processor_kwargs": {"max_pixels": 50_176}}, "mm_processor_kwargs"),
        ({"media_io_kwargs": {"image": {"rgba": 1}}, "limit_per_prompt": {}}, "media_io_kwargs"),
        ({"mm_processor_kwargs": None, "media_io_kwargs": {}}, None),
        ("damaged", None),
    ],
)
def test_an_argument_that_changes_pictures_departs_from_the_model(
    arguments: object, changes: str | None
) -> None:
    info = {"vllm_config": {"model_config": {"multimodal_config": arguments}}}
    with engine(info=info) as (loaded, _):
        settings = loaded.description.settings
    assert settings.get(MODEL_CHANGES) == changes
    assert QWEN3_VL.workload is not None
    deviations = find_deviations(QWEN3_VL.by_round["v6.1"](QWEN3_VL.workload), 150, settings)
    expected = (f"a model that is changed by {changes}",) if changes else ()
    assert deviations == expected
