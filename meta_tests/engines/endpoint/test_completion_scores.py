"""Log-probabilities as vLLM's server gives them: what is asked for, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mlperf_suite.engines.endpoint.completion_scores import (
    OnBody,
    score_all,
    score_bodies,
    score_of,
)
from mlperf_suite.engines.protocol import Likelihood, ScoreRequest
from mlperf_suite.errors import EngineDiedError, EngineError

CHOICES = ScoreRequest(7, [1, 2, 3], [[10], [11], [12]])
LONGER = ScoreRequest(8, [1, 2], [[10, 11], [12]])
USAGE = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}


def next_token(token: int, **logprobs: float) -> bytes:
    top = {name.replace("t", "token_id:"): value for name, value in logprobs.items()}
    choice = {"token_ids": [token], "logprobs": {"top_logprobs": [top]}}
    return json.dumps({"choices": [choice], "usage": USAGE}).encode()


def of_prompt(*tokens: tuple[int, float, int]) -> bytes:
    rows: list[Any] = [None]
    rows += [
        {str(token): {"logprob": value, "rank": rank}, "29": {"logprob": -0.1, "rank": 1}}
        for token, value, rank in tokens
    ]
    choice = {"prompt_logprobs": rows, "token_ids": [1]}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": len(rows)}}).encode()


REPLIES = [
    of_prompt((2, -9.0, 5), (10, -1.0, 1), (11, -0.5, 1)),
    of_prompt((2, -9.0, 5), (12, -2.0, 4)),
]
"""To `LONGER`."""


def test_one_request_asks_for_all_continuations_of_one_token() -> None:
    (body,) = map(json.loads, score_bodies(CHOICES, "served"))
    assert (body["model"], body["prompt"], body["max_tokens"]) == ("served", [1, 2, 3], 1)
    assert body["logprob_token_ids"] == [10, 11, 12] and body["logprobs"] == 20
    assert "stream" not in body


def test_longer_continuations_are_asked_for_one_by_one() -> None:
    bodies = [json.loads(body) for body in score_bodies(LONGER, "served")]
    assert [body["prompt"] for body in bodies] == [[1, 2, 10, 11], [1, 2, 12]]
    assert all(body["prompt_logprobs"] == 1 for body in bodies)


def test_the_next_tokens_likelihoods_are_those_of_the_choices() -> None:
    score = score_of(CHOICES, [next_token(11, t10=-2.0, t11=-0.5, t12=-3.0, t99=-0.4)], 1.5)
    logprobs = [(likelihood.logprob, likelihood.greedy) for likelihood in score.likelihoods]
    assert logprobs == [(-2.0, False), (-0.5, True), (-3.0, False)]
    assert (score.latency_ms, score.tokens, score.cached_tokens) == (1.5, 3, 2)


def test_a_longer_continuation_is_the_sum_of_its_tokens() -> None:
    score = score_of(LONGER, REPLIES, 1.0)
    assert score.likelihoods == (Likelihood(-1.5, True), Likelihood(-2.0, False))
    assert score.tokens == 4 + 3


def test_a_choice_that_the_server_left_out_is_no_score() -> None:
    with pytest.raises(ValueError, match="token 12 is not among the 2 most likely ones"):
        score_of(CHOICES, [next_token(11, t10=-2.0, t11=-0.5)], 1.0)


def test_each_request_is_scored_once_whatever_the_order_of_its_replies() -> None:
    posted: list[OnBody] = []

    def post(body: bytes, on_body: OnBody) -> None:
        posted.append(on_body)
        if len(posted) == 2:
            for hear, reply in zip(reversed(posted), reversed(REPLIES), strict=True):
                hear(reply)

    ((tag, score),) = score_all([LONGER], post, "served")
    assert tag == 8
    assert [reply_body.logprob for reply_body in score.likelihoods] == [-1.5, -2.0]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (EngineDiedError("http://a refused the connection"), "refused the connection"),
        (b"{}", "no log-probabilities that can be read"),
        (b"[]", "no log-probabilities that can be read"),
        (b'{"error": {"message": "no such model"}}', "answered with an error: no such model"),
        (b'{"detail": "not found"}', "answered with an error: not found"),
        (next_token(11, t10=-1.0), "no log-probabilities that can be read"),
    ],
)
def test_what_is_no_score_ends_the_scoring(reply: bytes | EngineError, words: str) -> None:
    post: Callable[[bytes, OnBody], None] = lambda body, on_body: on_body(reply)  # noqa: E731
    with pytest.raises(EngineError, match=words):
        list(score_all([CHOICES], post, "served"))
