"""Log-probabilities of chosen continuations from vLLM's `/v1/completions` and SGLang's `/generate`.

If each continuation is one token, the log-probabilities of the next token are enough. Longer ones
need the log-probabilities of a prompt that ends with them.

Sources: vllm/entrypoints/openai/completion/protocol.py of vLLM 0.32; SGLang's page on sampling
parameters (docs.sglang.io, basic_usage/sampling_params) and sglang/srt/managers/io_struct.py.
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

from mlperf_suite.engines.protocol import Likelihood, Score, ScoreRequest
from mlperf_suite.errors import EngineError
from mlperf_suite.features.servers.adapters import ADAPTERS, COMPLETIONS, error_line

_TOP_K = 20
"""The most likely tokens that vLLM reports by default, if it cannot report chosen ones."""
_TOKEN = "token_id:"  # noqa: S105 - how vLLM writes a token's id
_NEUTRAL = {
    "temperature": 0.0,
    "top_p": 1.0,
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
    requests: Iterable[ScoreRequest],
    post: Callable[[bytes, OnBody], None],
    model: str,
    form: ScoreForm,
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
                yield question.request.tag, _checked_score(question, arrived, form)
        if request is not None:
            bodies = score_bodies(request, model, form)
            question = _Question(request, time.monotonic(), len(bodies))
            outstanding += 1
            for part, body in enumerate(bodies):
                post(body, functools.partial(hear, question, part))


def _checked_score(question: _Question, arrived: float, form: ScoreForm) -> Score:
    replies = [question.replies[part] for part in range(question.parts)]
    try:
        return score_of(question.request, replies, (arrived - question.posted) * 1000, form)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise EngineError(
            "the server gave no log-probabilities that can be read "
            f"({type(error).__name__}: {error})"
        ) from error


def _one_token_each(request: ScoreRequest) -> bool:
    return all(len(continuation) == 1 for continuation in request.continuations)


def score_bodies(request: ScoreRequest, model: str, form: ScoreForm) -> list[bytes]:
    """The JSON of each request to the server needed to score `request`."""
    prompt = list(request.prompt_token_ids)
    if _one_token_each(request):
        bodies = [form.choices_body(model, prompt, [token for (token,) in request.continuations])]
    else:
        bodies = [form.end_body(model, prompt, list(end)) for end in request.continuations]
    return [msgspec.json.encode(body) for body in bodies]


def score_of(
    request: ScoreRequest, replies: Sequence[bytes], latency_ms: float, form: ScoreForm
) -> Score:
    """The score from the replies to `score_bodies`, in order. Raises ValueError, KeyError,
    TypeError or IndexError if a reply lacks something that was asked for."""
    answers = [msgspec.json.decode(reply) for reply in replies]
    for answer in answers:
        if form.member not in answer:
            raise ValueError(error_line(answer))
    if _one_token_each(request):
        logprobs, greedy = form.next_logprobs(answers[0])
        likelihoods = [
            _choice_likelihood(logprobs, greedy, token) for (token,) in request.continuations
        ]
    else:
        likelihoods = list(map(form.end_likelihood, answers, request.continuations))
    counts = [form.prompt_counts(answer) for answer in answers]
    tokens, cached = (sum(count) for count in zip(*counts, strict=True))
    return Score(tuple(likelihoods), latency_ms, tokens, cached)


def _choice_likelihood(logprobs: dict[int, float], greedy: int, token: int) -> Likelihood:
    if token not in logprobs:
        raise ValueError(f"token {token} is not among the {len(logprobs)} most likely ones")
    return Likelihood(logprobs[token], token == greedy)


class ScoreForm:
    """How log-probabilities are asked for and answered: vLLM's `/v1/completions`.

    `path`: where requests go; `member`: what every answer has that is no error.
    """

    path, member = COMPLETIONS, "choices"

    def choices_body(self, model: str, prompt: list[int], choices: list[int]) -> dict[str, Any]:
        """The request for the log-probabilities of these choices of the next token."""
        by_id = {"logprob_token_ids": choices, "return_tokens_as_token_ids": True}
        return self._body(model, prompt) | {"logprobs": _TOP_K} | by_id

    def end_body(self, model: str, prompt: list[int], end: list[int]) -> dict[str, Any]:
        """The request for the log-probabilities of the tokens `end` after the prompt."""
        return self._body(model, prompt + end) | {"prompt_logprobs": 1}

    def _body(self, model: str, prompt: list[int]) -> dict[str, Any]:
        common = {"model": model, "prompt": prompt, "max_tokens": 1, "return_token_ids": True}
        return common | _NEUTRAL | {"top_k": 0}

    def next_logprobs(self, answer: Any) -> tuple[dict[int, float], int]:
        """The log-probabilities of the next token by token, and the likeliest token."""
        (choice,) = answer["choices"]
        (logprobs,) = choice["logprobs"]["top_logprobs"]
        (greedy,) = choice["token_ids"]
        by_id = {
            int(name.removeprefix(_TOKEN)): float(value)
            for name, value in logprobs.items()
            if name.startswith(_TOKEN)
        }
        return by_id, greedy

    def end_likelihood(self, answer: Any, end: Sequence[int]) -> Likelihood:
        """The likelihood of these tokens after the prompt."""
        total, greedy = 0.0, True
        logprobs = answer["choices"][0]["prompt_logprobs"][-len(end) :]
        for token, reports in zip(end, logprobs, strict=True):
            report = reports[str(token)]
            total += report["logprob"]
            greedy &= report["rank"] == 1
        return Likelihood(total, greedy)

    def prompt_counts(self, answer: Any) -> tuple[int, int]:
        """The tokens of the prompt, and how many of them came from a cache."""
        usage = answer["usage"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return usage["prompt_tokens"], cached


class SglangScores(ScoreForm):
    """SGLang's `/generate`. Each log-probability is a list: value, token id, and text or null."""

    path, member = ADAPTERS["sglang"].path, "meta_info"

    def choices_body(self, model: str, prompt: list[int], choices: list[int]) -> dict[str, Any]:
        return self._body(model, prompt) | {"token_ids_logprob": choices}

    def end_body(self, model: str, prompt: list[int], end: list[int]) -> dict[str, Any]:
        # The first position of those reported has no log-probability.
        reports = {"logprob_start_len": len(prompt) - 1, "top_logprobs_num": 1}
        return self._body(model, prompt + end) | reports

    def _body(self, model: str, prompt: list[int]) -> dict[str, Any]:
        sampling = _NEUTRAL | {"max_new_tokens": 1, "top_k": -1}
        return {"input_ids": prompt, "sampling_params": sampling, "return_logprob": True}

    def next_logprobs(self, answer: Any) -> tuple[dict[int, float], int]:
        (choices,) = answer["meta_info"]["output_token_ids_logprobs"]
        ((_, greedy, *_),) = answer["meta_info"]["output_token_logprobs"]
        return {token: float(value) for value, token, *_ in choices}, greedy

    def end_likelihood(self, answer: Any, end: Sequence[int]) -> Likelihood:
        logprobs = answer["meta_info"]["input_token_logprobs"][-len(end) :]
        likeliest = answer["meta_info"]["input_top_logprobs"][-len(end) :]
        if [token for _, token, *_ in logprobs] != list(end):
            raise ValueError("the log-probabilities are those of other tokens")
        greedy = [token for ((_, token, *_),) in likeliest] == list(end)
        return Likelihood(sum(float(value) for value, *_ in logprobs), greedy)

    def prompt_counts(self, answer: Any) -> tuple[int, int]:
        meta = answer["meta_info"]
        return meta["prompt_tokens"], meta.get("cached_tokens") or 0


SCORE_FORMS = {"vllm": ScoreForm(), "vllm-generate": ScoreForm(), "sglang": SglangScores()}
"""By the key of `ADAPTERS`: the servers that return log-probabilities of chosen tokens."""
