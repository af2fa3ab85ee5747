"""Log-probabilities as vLLM's server and SGLang's give them: what is asked for, and what is made of
it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import engine_on, stand_in_server
from mlperf_suite.engines.protocol import Likelihood, Score, ScoreRequest, ScoringEngine
from mlperf_suite.errors import EngineDiedError, EngineError
from mlperf_suite.features.servers.completion_scores import (
    SCORE_FORMS,
    OnBody,
    score_all,
    score_bodies,
    score_of,
)

VLLM, SGLANG = SCORE_FORMS["vllm"], SCORE_FORMS["sglang"]
CHOICES = ScoreRequest(7, [1, 2, 3], [[10], [11], [12]])
LONGER = ScoreRequest(8, [1, 2], [[10, 11], [12]])
USAGE = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}


def next_token(token: int, **logprobs: float) -> bytes:
    top = {name.replace("t", "token_id:"): value for name, value in logprobs.items()}
    choice = {"token_ids": [token], "logprobs": {"top_logprobs": [top]}}
    return json.dumps({"choices": [choice], "usage": USAGE}).encode()


def prompt_reply(*tokens: tuple[int, float, int]) -> bytes:
    rows: list[Any] = [None]
    rows += [
        {str(token): {"logprob": value, "rank": rank}, "29": {"logprob": -0.1, "rank": 1}}
        for token, value, rank in tokens
    ]
    choice = {"prompt_logprobs": rows, "token_ids": [1]}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": len(rows)}}).encode()


REPLIES = [
    prompt_reply((2, -9.0, 5), (10, -1.0, 1), (11, -0.5, 1)),
    prompt_reply((2, -9.0, 5), (12, -2.0, 4)),
]
"""To `LONGER`."""
OF_CHOICES = Likelihood(-2.0, False), Likelihood(-0.5, True), Likelihood(-3.0, False)
OF_LONGER = Likelihood(-1.5, True), Likelihood(-2.0, False)


def test_choices_of_one_token_are_asked_for_at_once_and_longer_ones_one_by_one() -> None:
    (body,) = map(json.loads, score_bodies(CHOICES, "served", VLLM))
    assert (body["model"], body["prompt"], body["max_tokens"]) == ("served", [1, 2, 3], 1)
    assert body["logprob_token_ids"] == [10, 11, 12] and body["logprobs"] == 20
    assert body["return_token_ids"] is True
    assert "stream" not in body
    bodies = [json.loads(body) for body in score_bodies(LONGER, "served", VLLM)]
    assert [body["prompt"] for body in bodies] == [[1, 2, 10, 11], [1, 2, 12]]
    assert all(body["prompt_logprobs"] == 1 for body in bodies)


def test_likelihoods_are_those_of_the_choices_or_the_sums_of_their_tokens() -> None:
    score = score_of(CHOICES, [next_token(11, t10=-2.0, t11=-0.5, t12=-3.0, t99=-0.4)], 1.5, VLLM)
    assert score == Score(OF_CHOICES, 1.5, 3, 2)
    score = score_of(LONGER, REPLIES, 1.0, VLLM)
    assert (score.likelihoods, score.tokens) == (OF_LONGER, 4 + 3)


# SGLang's


def generated(**meta: Any) -> bytes:
    counts = {"prompt_tokens": 3, "cached_tokens": 2, "completion_tokens": 1}
    return json.dumps({"output_ids": [11], "meta_info": counts | meta}).encode()


def next_tokens(*choices: tuple[float, int]) -> bytes:
    rows = [[value, token, None] for value, token in choices]
    return generated(output_token_ids_logprobs=[rows], output_token_logprobs=[[-0.5, 11, None]])


def input_reply(*tokens: tuple[int, float, int]) -> bytes:
    """For each: the token, its log-probability, and the likeliest token there."""
    rows = [[value, token, None] for token, value, _ in tokens]
    tops = [[[-0.1, likeliest, None]] for *_, likeliest in tokens]
    return generated(
        input_token_logprobs=[[None, 2, None], *rows],
        input_top_logprobs=[None, *tops],
        output_token_logprobs=[[-0.5, 11, None]],
    )


def test_sglang_is_asked_for_the_choices_by_their_ids_and_for_longer_ones_as_prompts() -> None:
    (body,) = map(json.loads, score_bodies(CHOICES, "served", SGLANG))
    assert (body["input_ids"], body["token_ids_logprob"]) == ([1, 2, 3], [10, 11, 12])
    assert body["return_logprob"] is True and "stream" not in body
    sampling = body["sampling_params"]
    assert (sampling["max_new_tokens"], sampling["temperature"]) == (1, 0.0)
    assert (sampling["top_k"], sampling["repetition_penalty"]) == (-1, 1.0)
    bodies = [json.loads(body) for body in score_bodies(LONGER, "served", SGLANG)]
    assert [body["input_ids"] for body in bodies] == [[1, 2, 10, 11], [1, 2, 12]]
    # The first position that is reported has no log-probability.
    assert [(body["logprob_start_len"], body["top_logprobs_num"]) for body in bodies] == [
        (1, 1)
    ] * 2


UNREADABLE = "no log-probabilities that can be read"
NONE: list[tuple[str, ScoreRequest, bytes | EngineError, str]] = [
    ("vllm", CHOICES, EngineDiedError("http://a refused the connection"), "refused the connection"),
    ("vllm", CHOICES, b"{}", UNREADABLE),
    ("vllm", CHOICES, b"[]", UNREADABLE),
    ("vllm", CHOICES, b'{"error": {"message": "no such model"}}', "with an error: no such model"),
    ("vllm", CHOICES, b'{"detail": "not found"}', "answered with an error: not found"),
    ("vllm", CHOICES, next_token(11, t10=-1.0), UNREADABLE),
    # Left out, not reported, another token, too few.
    ("sglang", CHOICES, next_tokens((-2.0, 10), (-0.5, 11)), UNREADABLE),
    ("sglang", CHOICES, generated(output_token_logprobs=[[-0.5, 11, None]]), UNREADABLE),
    ("sglang", LONGER, input_reply((10, -1.0, 10), (12, -0.5, 11)), UNREADABLE),
    ("sglang", LONGER, input_reply((11, -0.5, 11)), UNREADABLE),
    ("sglang", CHOICES, b'{"choices": []}', UNREADABLE),
]


@pytest.mark.parametrize(("form", "request_", "reply", "words"), NONE)
def test_what_is_no_score_ends_the_scoring(
    form: Any, request_: ScoreRequest, reply: bytes | EngineError, words: str
) -> None:
    post: Callable[[bytes, OnBody], None] = lambda body, on_body: on_body(reply)  # noqa: E731
    with pytest.raises(EngineError, match=words):
        list(score_all([request_], post, "served", SCORE_FORMS[form]))


def test_a_server_of_sglangs_kind_scores_and_its_completions_do_not() -> None:
    requests = [ScoreRequest(0, [1, 2, 3], [[10], [100]]), ScoreRequest(1, [1], [[10, 100], [7]])]
    with stand_in_server(StandIn(dialect="sglang")) as server, engine_on(server) as engine:
        assert isinstance(engine, ScoringEngine)
        scores = dict(engine.score(requests))
        assert server.account()["requests"]["/generate"] == 1 + 3
    assert scores[0].likelihoods == (Likelihood(-0.01, False), Likelihood(-0.1, True))
    assert [likelihood.logprob for likelihood in scores[1].likelihoods] == [-0.11, -0.007]
    assert (scores[0].tokens, scores[0].cached_tokens) == (3, 2)
    without = StandIn(dialect="sglang", native=False)
    with stand_in_server(without) as server, engine_on(server) as engine:
        assert not isinstance(engine, ScoringEngine)
