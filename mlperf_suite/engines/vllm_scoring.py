"""Scoring with vLLM: one request for all continuations of a prompt if each is one token.

Such a question needs only the log-probabilities of the next token, and the beginning of the prompt
can come from the prefix cache. Longer continuations need log-probabilities of prompt tokens, which
cannot come from the cache: vLLM computes the whole prompt once for each continuation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from mlperf_suite.engines.protocol import Likelihood, Score, ScoreRequest

_TOP_K = 20
"""The most likely tokens that every vLLM reports, if it cannot report chosen tokens."""


async def score_one(llm: Any, new_id: Callable[[], str], request: ScoreRequest) -> Score:
    """Score one request with vLLM's AsyncLLM. Raises what vLLM raises."""
    start = time.perf_counter()
    outputs = []
    likelihoods: list[Likelihood] | None = None
    if all(len(continuation) == 1 for continuation in request.continuations):
        choices = [continuation[0] for continuation in request.continuations]
        outputs.append(
            await _only_output(llm, new_id, request.prompt_token_ids, _next_token_params(choices))
        )
        likelihoods = _choice_likelihoods(outputs[0].outputs[0], choices)
    if likelihoods is None:
        # All at once: one after the other, a few questions would not fill the engine's steps.
        wholes = ([*request.prompt_token_ids, *part] for part in request.continuations)
        asked = (_only_output(llm, new_id, whole, _params(prompt_logprobs=1)) for whole in wholes)
        answered = await asyncio.gather(*asked)
        outputs += answered
        pairs = zip(answered, request.continuations, strict=True)
        likelihoods = [_prompt_likelihood(of.prompt_logprobs, part) for of, part in pairs]
    return Score(
        tuple(likelihoods),
        (time.perf_counter() - start) * 1000,
        sum(len(output.prompt_token_ids) for output in outputs),
        sum(output.num_cached_tokens or 0 for output in outputs),
    )


async def _only_output(
    llm: Any, new_id: Callable[[], str], token_ids: Sequence[int], params: Any
) -> Any:
    from vllm.inputs import TokensPrompt

    prompt = TokensPrompt(prompt_token_ids=list(token_ids))
    last = None
    async for output in llm.generate(prompt, params, new_id()):
        last = output
    return last


def _next_token_params(choices: Sequence[int]) -> Any:
    from vllm import SamplingParams

    reports_chosen = "logprob_token_ids" in SamplingParams.__struct_fields__
    fields = {"logprob_token_ids": list(choices)} if reports_chosen else {"logprobs": _TOP_K}
    return _params(**fields)


def _params(**fields: Any) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=0.0,
        max_tokens=1,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        **fields,
    )


def _choice_likelihoods(completion: Any, choices: Sequence[int]) -> list[Likelihood] | None:
    """Each choice's likelihood; None if vLLM did not report one of them."""
    (logprobs,) = completion.logprobs
    if any(choice not in logprobs for choice in choices):
        return None
    greedy = completion.token_ids[0]
    return [Likelihood(logprobs[choice].logprob, choice == greedy) for choice in choices]


def _prompt_likelihood(logprobs: Sequence[Any], continuation: Sequence[int]) -> Likelihood:
    """The likelihood of the prompt's last tokens. vLLM reports each token next to the likeliest."""
    total, greedy = 0.0, True
    for token, reports in zip(continuation, logprobs[-len(continuation) :], strict=True):
        total += reports[token].logprob
        greedy &= reports[token].rank == 1
    return Likelihood(total, greedy)
