"""What each kind of server is asked, and what is made of its answers."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite import secrets
from mlperf_suite.engines.messages import Sampling
from mlperf_suite.features.servers.adapters import (
    ADAPTERS,
    STRICT_TEXT,
    TRANSFORMERS,
    VLLM_CHAT,
    Adapter,
    AnswerError,
    PartialAnswer,
    error_words,
    one_line,
)

GREEDY = Sampling(128, 1, 0.0, 1.0, 1, 42, wants_first=True, retries=0)
token_lists = st.lists(st.integers(0, 31_999), min_size=1, max_size=30)


def body(kind: str, sampling: Sampling = GREEDY) -> dict[str, Any]:
    content = json.dumps(ADAPTERS[kind].body([1, 2, 3], sampling, "served", "salt"))
    return cast("dict[str, Any]", json.loads(content))


def read(adapter: Adapter, *events: object) -> PartialAnswer:
    answer = PartialAnswer()
    for event in events:
        adapter.read(event if isinstance(event, bytes) else json.dumps(event).encode(), answer)
    return answer


@pytest.mark.parametrize("kind", [kind for kind in ADAPTERS if ADAPTERS[kind].token_ids])
def test_every_sampling_value_is_sent_so_that_no_server_fills_one_in(kind: str) -> None:
    request = body(kind)
    params = request.get("sampling_params", request)
    if kind == "sglang":
        renamed = {"max_new_tokens": "max_tokens", "min_new_tokens": "min_tokens"}
        renamed |= {"sampling_seed": "seed"}
        params = {renamed.get(name, name): value for name, value in params.items()}
    values = ("max_tokens", "min_tokens", "temperature", "top_p", "top_k", "seed")
    assert [params[name] for name in values] == [128, 1, 0.0, 1.0, 1, 42]
    neutral = ("min_p", "repetition_penalty", "frequency_penalty", "presence_penalty")
    assert [params[name] for name in neutral] == [0.0, 1.0, 0.0, 0.0]
    prompts = [request.get(name) for name in ("prompt", "token_ids", "input_ids")]
    assert request.get("messages") == [1, 2, 3] or [1, 2, 3] in prompts
    assert request["stream"] is True
    assert ("salt" in request.values()) is (kind != "tensorrt-llm")
    ids_alone = kind in ("vllm", "sglang-completions", VLLM_CHAT)
    assert request.get("return_token_ids", False) is ids_alone
    assert params.get("detokenize", True) is (kind not in ("vllm-generate", "tensorrt-llm"))


def test_transformers_is_sent_in_its_generation_config_what_openai_has_no_field_for() -> None:
    """As its own GenerationConfig reads it: nothing is left to the model's but what ends it."""
    from transformers import GenerationConfig

    request = body(TRANSFORMERS, Sampling(128, 5, 0.0, 1.0, 1, 42, True, 0, end_ids=(2, 7)))
    assert set(request) - set(body(STRICT_TEXT)) == {"generation_config"}
    config = GenerationConfig(**json.loads(request["generation_config"]))
    assert (config.max_new_tokens, config.min_new_tokens, config.top_k) == (128, 5, 1)
    assert (config.do_sample, config.num_beams, config.repetition_penalty) == (False, 1, 1.0)
    assert config.eos_token_id == [2, 7]
    sampled = body(TRANSFORMERS, Sampling(128, 1, 0.7, 0.9, 20, 42, True, 0))["generation_config"]
    expected = {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "top_k": 20}
    assert expected.items() <= json.loads(sampled).items()
    # Absent where unknown: null would be no id to end at.
    assert "eos_token_id" not in json.loads(sampled)


@pytest.mark.parametrize("kind", ADAPTERS)
def test_a_stop_is_sent_where_there_is_one_and_stays_in_the_answer(kind: str) -> None:
    """Mixtral's answers of code end after the fence. OpenAI's own fields leave the stop out."""
    with_stop = Sampling(128, 1, 0.0, 1.0, 1, 42, True, 0, stop="\n```\n")
    request, without = body(kind, with_stop), body(kind, GREEDY)
    params = request.get("sampling_params", request)
    assert params["stop"] == ["\n```\n"]
    stop_fields = {"include_stop_str_in_output": True, "no_stop_trim": True}
    stop_values = stop_fields.items() & (params | request).items()
    assert bool(stop_values) is ADAPTERS[kind].token_ids
    assert not ({"stop", *stop_fields} & {*without, *without.get("sampling_params", ())})


@pytest.mark.parametrize("kind", ADAPTERS)
def test_the_whole_vocabulary_is_asked_for_and_no_seed_where_the_benchmark_sets_none(
    kind: str,
) -> None:
    """top_k 0: SGLang has -1 for it and refuses 0. With a seed, the repeats of a question would be
    one draw."""
    request = body(kind, Sampling(128, 1, 1.0, 1.0, 0, None, True, 0))
    params = request.get("sampling_params", request)
    assert params.get("top_k", 0) == (-1 if kind.startswith("sglang") else 0)
    assert not {"seed", "sampling_seed"} & {*request, *params}


def generated(ids: list[int], count: int, finish: str | None = None) -> dict[str, Any]:
    reason = None if finish is None else {"type": finish, "length": count}
    return {"output_ids": ids, "meta_info": {"completion_tokens": count, "finish_reason": reason}}


@given(token_lists, st.data())
def test_sglangs_tokens_are_found_however_it_streams(
    tokens: list[int], data: st.DataObject
) -> None:
    ends = sorted(data.draw(st.sets(st.integers(1, len(tokens)))) | {len(tokens)})
    pieces = list(zip([0, *ends[:-1]], ends, [None] * (len(ends) - 1) + ["stop"], strict=True))
    cumulative = [tokens[:end] for _, end, _ in pieces]
    deltas = [tokens[start:end] for start, end, _ in pieces]
    shrinking = [tokens[: end - (why is None and end > 1)] for _, end, why in pieces]
    for way in (cumulative, deltas, shrinking):
        events = [generated(ids, end, why) for ids, (_, end, why) in zip(way, pieces, strict=True)]
        answer = read(ADAPTERS["sglang"], *events)
        assert (answer.token_ids, answer.finish_reason) == (tokens, "stop")


@pytest.mark.parametrize("reason", [{"type": "abort", "message": "out of memory"}, "abort"])
def test_an_answer_that_sglang_aborted_is_an_error_in_its_words(reason: object) -> None:
    event = generated([1, 2], 2)
    event["meta_info"]["finish_reason"] = reason
    words = "out of memory" if isinstance(reason, dict) else "abort"
    with pytest.raises(AnswerError, match=f"^answered with an error: {words}$"):
        read(ADAPTERS["sglang"], event)


def test_sglangs_count_is_believed_and_not_its_list() -> None:
    longer = read(ADAPTERS["sglang"], generated([1, 2, 3], 2, "stop"))
    assert longer.token_ids == [1, 2]
    with pytest.raises(AnswerError, match="sent 2 tokens where it counts 4"):
        read(ADAPTERS["sglang"], generated([1, 2], 2), generated([1], 4, "stop"))


@pytest.mark.parametrize("kind", ["vllm", "sglang", "text"])
def test_what_is_no_answer_is_said_in_a_line(kind: str) -> None:
    deep = b'{"metrics":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    for event in (b"{", b'{"choices": [{"text": "\xff\xfe"}], "output_ids": [', deep):
        with pytest.raises(AnswerError, match="invalid JSON"):
            read(ADAPTERS[kind], event)
    for told, words in (
        ({"choices": "none", "meta_info": "none"}, "not a completion"),
        ({"error": {"message": "the\nengine died"}}, "the engine died"),
        ({"error": "Unauthorized"}, "Unauthorized"),
    ):
        with pytest.raises(AnswerError, match=words) as raised:
            read(ADAPTERS[kind], told)
        assert "\n" not in str(raised.value)


@given(st.one_of(st.binary(), st.text(), st.dictionaries(st.text(), st.text())))
def test_a_servers_words_are_one_short_printable_line(message: object) -> None:
    line = one_line(message)
    assert len(line) <= 100
    assert line.isprintable()


def test_a_server_may_tell_how_long_a_request_waited() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    told = read(ADAPTERS["vllm"], usage)
    assert (told.prompt_tokens, told.completion_tokens, told.cached_tokens) == (3, 1, None)
    times = {"queue_time_ms": 250.0, "time_to_first_token_ms": 40, "mean_itl_ms": None}
    assert read(ADAPTERS["vllm"], usage | {"metrics": times}).server_s == (0.25, 0.04)
    unusable: list[Any] = [None, [], {}, {"queue_time_ms": 3}, "4 ms"]
    for metrics in (*unusable, times | {"queue_time_ms": -1}):
        assert read(ADAPTERS["vllm"], usage | {"metrics": metrics}).server_s == ()


def test_no_part_of_a_key_that_a_server_sends_back_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-" + "0123456789abcdefghij" * 5
    monkeypatch.setattr(secrets, "_secrets", set())
    secrets.remember(key)
    for before in range(0, 110, 7):
        words = "x" * before + f" Bearer {key} was refused"
        bodies = (words, {"error": {"message": words}}, json.dumps({"detail": words}).encode())
        for body in bodies:
            assert "0123" not in error_words(body)
            assert "0123" not in one_line(words.encode())
