"""Scoring on the real engine, which has a prefix cache for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.datasets.news import load_news
from mlperf_suite.engines import vllm_scoring
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Score, ScoreRequest
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.errors import EngineError

PROMPT_TOKENS = 200
"""More than a block of the cache, and few enough for a slow machine."""


LETTERS = (" A", " B", " C", " D")


NOISE = 0.01
"""Two ways to the same log-probability differ by rounding: in float32 by 1e-4 at most, whatever the
CPU's instructions; in bf16 it would be a whole 1/8."""


@pytest.fixture(scope="module")
def scoring_engine() -> Iterator[VllmEngine]:
    """The embedded model in float32, as an engine that scores."""
    model = str(embedded_model_dir())
    engine = VllmEngine.load(VllmConfig(model, "fp32", max_model_len=640, role="scoring"))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_tokenizer(str(embedded_model_dir()))


@pytest.fixture(scope="module")
def prompts(tokenizer: Any) -> Sequence[Sequence[int]]:
    whole = EMBEDDED.prompt.encode(load_news("embedded").items[:3], tokenizer)
    return [prompt[:PROMPT_TOKENS] for prompt in whole]


@pytest.fixture(scope="module")
def choices(tokenizer: Any) -> Any:
    return [tokenizer(letter)["input_ids"] for letter in LETTERS]


def score(engine: Any, prompts: Any, continuations: Any) -> list[Score]:
    requests = [ScoreRequest(tag, p, continuations) for tag, p in enumerate(prompts)]
    scores = dict(engine.score(requests))
    return [scores[tag] for tag in range(len(prompts))]


def test_scores_come_from_the_cache_and_the_engine_says_so(
    scoring_engine: Any, prompts: Any, choices: Any
) -> None:
    settings = scoring_engine.description.settings
    assert settings["enable_prefix_caching"] is True
    assert settings["dtype"] == "float32"
    scores = score(scoring_engine, prompts, choices)
    again = score(scoring_engine, prompts, choices)
    assert sum(s.cached_tokens for s in scores) == 0
    assert sum(s.cached_tokens for s in again) > 0
    # Answers would come from it too, and are counted.
    assert scoring_engine.cached_prompt_tokens == 0
    generate_all(scoring_engine, prompts, Generation(max_new_tokens=2))
    assert scoring_engine.cached_prompt_tokens > 0


def test_one_request_scores_all_one_token_choices(
    scoring_engine: Any, prompts: Any, choices: Any
) -> None:
    for prompt, result in zip(prompts, score(scoring_engine, prompts, choices), strict=True):
        assert result.tokens == len(prompt)
        assert len(result.likelihoods) == 4
        assert all(likelihood.logprob < 0 for likelihood in result.likelihoods)
        assert result.latency_ms > 0


def test_longer_choices_take_the_general_path(
    scoring_engine: Any, prompts: Any, choices: Any
) -> None:
    alone = score(scoring_engine, prompts, choices)
    longer = [*choices[:3], [*choices[3], *choices[0]]]
    general = score(scoring_engine, prompts, longer)
    for prompt, a, b in zip(prompts, alone, general, strict=True):
        assert b.tokens == sum(len(prompt) + len(c) for c in longer)
        assert b.cached_tokens == 0
        for likelihood, other_likelihood in zip(a.likelihoods[:3], b.likelihoods[:3], strict=True):
            assert likelihood.logprob == pytest.approx(other_likelihood.logprob, abs=NOISE)
        assert b.likelihoods[3].logprob < a.likelihoods[3].logprob


def test_a_vllm_that_reports_only_the_likeliest_tokens(
    scoring_engine: Any, prompts: Any, choices: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = score(scoring_engine, prompts, choices)
    top_k = vllm_scoring._params(logprobs=vllm_scoring._TOP_K)
    monkeypatch.setattr(vllm_scoring, "_next_token_params", lambda choices: top_k)
    result = score(scoring_engine, prompts, choices)
    for a, b in zip(scores, result, strict=True):
        for likelihood, other_likelihood in zip(a.likelihoods, b.likelihoods, strict=True):
            assert likelihood.logprob == pytest.approx(other_likelihood.logprob, abs=NOISE)


def test_a_prompt_too_long_is_refused_and_the_engine_lives(
    scoring_engine: Any, prompts: Any, choices: Any
) -> None:
    long = prompts[0] * (scoring_engine.description.max_model_len // len(prompts[0]) + 1)
    with pytest.raises(EngineError):
        score(scoring_engine, [prompts[1], long, prompts[2]], choices)
    assert scoring_engine.alive
    assert len(score(scoring_engine, prompts[:1], choices)) == 1
