"""Log-probabilities of chosen continuations from vLLM's `/v1/completions`.

If each continuation is one token, the log-probabilities of the next token are enough. Longer ones
need the log-probabilities of a prompt that ends with them.
"""

from __future__ import annotations

import functools
import itertools
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mlperf_suite.engines.endpoint.adapters import error_line
from mlperf_suite.engines.protocol import Likelihood, Score, ScoreRequest
from mlperf_suite.errors import EngineError

_TOP_K = 20
"""The most likely tokens that a server reports by default, if it cannot report chosen ones."""
_TOKEN = "token_id:"  # noqa: S105 - how vLLM writes a token's id
_NEUTRAL = {
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""All of these are sent: a server fills in missing ones from the model's own generation config."""
OnBody = Callable[[bytes | EngineError], None]
_AT_ONCE = 128
"""Requests to score that the servers hold at once: enough to fill every step."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A request to score: when it was posted, the number of its parts, the replies so far."""

    request: ScoreRequest
    posted: float
    parts: int
    replies: dict[int, bytes] = field(default_factory=dict)


def score_all(
    requests: Iterable[ScoreRequest], post: Callable[[bytes, OnBody], None], model: str
) -> Iterator[tuple[int, Score]]:
    """Yield each request's tag and score as they come; see `ScoringEngine`.

    `post` sends a request's JSON and passes its reply to the callback once, from any thread. Raises
    EngineError if a request fails.
    """
    replies: queue.SimpleQueue[tuple[_Question, int, bytes | EngineError, float]]
    replies = queue.SimpleQueue()
    outstanding = 0

    def hear(question: _Question, part: int, reply: bytes | EngineError) -> None:
        replies.put((question, part, reply, time.monotonic()))

    for request in itertools.chain(requests, [None]):
        most = _AT_ONCE - 1 if request is not None else 0
        while outstanding > most or not replies.empty():
            question, part, reply, arrived = replies.get()
            if isinstance(reply, EngineError):
                raise reply
            question.replies[part] = reply
            if len(question.replies) == question.parts:
                outstanding -= 1
                yield question.request.tag, _checked_score(question, arrived)
        if request is not None:
            bodies = score_bodies(request, model)
            question = _Question(request, time.monotonic(), len(bodies))
            outstanding += 1
            for part, body in enumerate(bodies):
                post(body, functools.partial(hear, question, part))


def _checked_score(question: _Question, arrived: float) -> Score:
    replies = [question.replies[part] for part in range(question.parts)]
    try:
        return score_of(question.request, replies, (arrived - question.posted) * 1000)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise EngineError(
            "the server gave no log-probabilities that can be read "
            f"({type(error).__name__}: {error})"
        ) from error


def _one_token_each(request: ScoreRequest) -> bool:
    return all(len(continuation) == 1 for continuation in request.continuations)


def score_bodies(request: ScoreRequest, model: str) -> list[bytes]:
    """The JSON of each completion request needed to score `request`."""
    common = {"model": model, "max_tokens": 1, "return_token_ids": True} | _NEUTRAL
    if _one_token_each(request):
        choices = [continuation[0] for continuation in request.continuations]
        choice_fields = {"logprob_token_ids": choices, "return_tokens_as_token_ids": True}
        prompt = list(request.prompt_token_ids)
        fields: list[dict[str, Any]] = [{"prompt": prompt, "logprobs": _TOP_K, **choice_fields}]
    else:
        fields = [
            {"prompt": [*request.prompt_token_ids, *continuation], "prompt_logprobs": 1}
            for continuation in request.continuations
        ]
    return [msgspec.json.encode(common | body) for body in fields]


def score_of(request: ScoreRequest, replies: Sequence[bytes], latency_ms: float) -> Score:
    """The score from the replies to `score_bodies`, in order. Raises ValueError, KeyError,
    TypeError or IndexError if a reply lacks something that was asked for."""
    answers = [msgspec.json.decode(reply) for reply in replies]
    for answer in answers:
        if "choices" not in answer:
            raise ValueError(error_line(answer))
    if _one_token_each(request):
        likelihoods = _of_next_token(answers[0], request.continuations)
    else:
        likelihoods = [
            _of_prompt(answer["choices"][0]["prompt_logprobs"], continuation)
            for answer, continuation in zip(answers, request.continuations, strict=True)
        ]
    usages = [answer["usage"] for answer in answers]
    cached = sum((u.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for u in usages)
    tokens = sum(usage["prompt_tokens"] for usage in usages)
    return Score(tuple(likelihoods), latency_ms, tokens, cached)


def _of_next_token(answer: Any, continuations: Sequence[Sequence[int]]) -> list[Likelihood]:
    (choice,) = answer["choices"]
    (logprobs,) = choice["logprobs"]["top_logprobs"]
    by_id = {
        int(name.removeprefix(_TOKEN)): float(value)
        for name, value in logprobs.items()
        if name.startswith(_TOKEN)
    }
    (greedy,) = choice["token_ids"]
    likelihoods = []
    for (token,) in continuations:
        if token not in by_id:
            raise ValueError(f"token {token} is not among the {len(by_id)} most likely ones")
        likelihoods.append(Likelihood(by_id[token], token == greedy))
    return likelihoods


def _of_prompt(logprobs: Sequence[Any], continuation: Sequence[int]) -> Likelihood:
    total, greedy = 0.0, True
    for token, reports in zip(continuation, logprobs[-len(continuation) :], strict=True):
        report = reports[str(token)]
        total += report["logprob"]
        greedy &= report["rank"] == 1
    return Likelihood(total, greedy)
