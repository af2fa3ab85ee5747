"""Log-probabilities of chosen continuations, as vLLM's `/v1/completions` gives them.

Where each continuation is one token, the next token's log-probabilities are all that is needed.
Longer ones take the log-probabilities of a prompt that ends with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mlperf_suite.engines.scoring import Likelihood, Score, ScoreRequest

_TOP_K = 20
"""The most likely tokens that a server reports by default, where it cannot report chosen ones."""
_TOKEN = "token_id:"  # noqa: S105 - how vLLM writes a token's id


def _one_token_each(request: ScoreRequest) -> bool:
    return all(len(continuation) == 1 for continuation in request.continuations)


def score_bodies(request: ScoreRequest, model: str) -> list[bytes]:
    """The JSON of each request that scoring takes."""
    common = {"model": model, "max_tokens": 1, "temperature": 0.0, "return_token_ids": True}
    if _one_token_each(request):
        chosen = [continuation[0] for continuation in request.continuations]
        wanted: list[dict[str, Any]] = [
            {
                "prompt": list(request.prompt_token_ids),
                "logprobs": _TOP_K,
                "logprob_token_ids": chosen,
                "return_tokens_as_token_ids": True,
            }
        ]
    else:
        wanted = [
            {"prompt": [*request.prompt_token_ids, *continuation], "prompt_logprobs": 1}
            for continuation in request.continuations
        ]
    return [msgspec.json.encode(common | one) for one in wanted]


def score_of(request: ScoreRequest, replies: Sequence[bytes], latency_ms: float) -> Score:
    """The score from the replies to `score_bodies`, in order. Raises ValueError, KeyError,
    TypeError or IndexError where a reply lacks what was asked for."""
    answers = [msgspec.json.decode(reply) for reply in replies]
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
    (made,) = choice["token_ids"]
    found = []
    for (token,) in continuations:
        if token not in by_id:
            raise ValueError(f"token {token} is not among the {len(by_id)} most likely ones")
        found.append(Likelihood(by_id[token], token == made))
    return found


def _of_prompt(logprobs: Sequence[Any], continuation: Sequence[int]) -> Likelihood:
    total, greedy = 0.0, True
    for token, reported in zip(continuation, logprobs[-len(continuation) :], strict=True):
        one = reported[str(token)]
        total += one["logprob"]
        greedy &= one["rank"] == 1
    return Likelihood(total, greedy)
