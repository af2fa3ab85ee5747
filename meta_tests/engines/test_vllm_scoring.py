"""Scoring on the real engine, and the prefix cache that answers must not profit from."""

from __future__ import annotations

import asyncio

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import encode_prompts, load_tokenizer
from mlperf_suite.benchmarks.workload import EMBEDDED, Generation
from mlperf_suite.datasets.mmlu_questions import load_mmlu
from mlperf_suite.datasets.news import load_news
from mlperf_suite.engines import vllm_engine, vllm_scoring
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.scoring import Score, ScoreRequest
from mlperf_suite.errors import EngineDiedError, EngineError

LETTERS = (" A", " B", " C", " D")
BF16_STEP = 0.13
"""Logits between 16 and 32 are multiples of 1/8 in bf16."""


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(str(embedded_model_dir()))


@pytest.fixture(scope="module")
def prompts(tokenizer) -> list[list[int]]:
    return encode_prompts(load_news("embedded").items[:4], EMBEDDED, tokenizer)


@pytest.fixture(scope="module")
def choices(tokenizer) -> list[list[int]]:
    return [tokenizer(letter)["input_ids"] for letter in LETTERS]


def score(engine, prompts, continuations) -> list[Score]:
    requests = [ScoreRequest(tag, p, continuations) for tag, p in enumerate(prompts)]
    scores = dict(engine.score(requests))
    return [scores[tag] for tag in range(len(prompts))]


def test_answers_never_come_from_the_cache_and_scores_do(real_engine, prompts, choices) -> None:
    assert real_engine.description.settings["enable_prefix_caching"] is True
    few = Generation(max_new_tokens=2)
    first = generate_all(real_engine, prompts, few)
    scores = score(real_engine, prompts, choices)
    again = score(real_engine, prompts, choices)
    assert sum(s.cached_tokens for s in scores) == 0
    assert sum(s.cached_tokens for s in again) > 0
    assert generate_all(real_engine, prompts, few).token_ids == first.token_ids
    assert real_engine.cached_prompt_tokens == 0


def test_one_request_scores_all_one_token_choices(real_engine, prompts, choices) -> None:
    for prompt, found in zip(prompts, score(real_engine, prompts, choices), strict=True):
        assert found.tokens == len(prompt)
        assert len(found.likelihoods) == 4
        assert all(one.logprob < 0 for one in found.likelihoods)
        assert found.latency_ms > 0


def test_longer_choices_take_the_general_path(real_engine, prompts, choices) -> None:
    alone = score(real_engine, prompts, choices)
    longer = [*choices[:3], [*choices[3], *choices[0]]]
    general = score(real_engine, prompts, longer)
    for prompt, a, b in zip(prompts, alone, general, strict=True):
        assert b.tokens == sum(len(prompt) + len(c) for c in longer)
        assert b.cached_tokens == 0
        for one, other in zip(a.likelihoods[:3], b.likelihoods[:3], strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=BF16_STEP)
        assert b.likelihoods[3].logprob < a.likelihoods[3].logprob


def test_a_vllm_that_reports_only_the_likeliest_tokens(
    real_engine, prompts, choices, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = score(real_engine, prompts, choices)
    top_k = vllm_scoring._params(logprobs=vllm_scoring._TOP_K)
    monkeypatch.setattr(vllm_scoring, "_next_token_params", lambda choices: top_k)
    found = score(real_engine, prompts, choices)
    for a, b in zip(told, found, strict=True):
        for one, other in zip(a.likelihoods, b.likelihoods, strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=BF16_STEP)


def test_a_prompt_too_long_is_refused_and_the_engine_lives(real_engine, prompts, choices) -> None:
    long = prompts[0] * (real_engine.description.max_model_len // len(prompts[0]) + 1)
    with pytest.raises(EngineError):
        score(real_engine, [prompts[1], long, prompts[2]], choices)
    assert real_engine.alive
    assert len(score(real_engine, prompts[:1], choices)) == 1


def test_an_engine_that_hangs_while_it_scores_is_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*asked: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(vllm_engine, "score_one", never)
    monkeypatch.setattr(vllm_engine, "SILENCE_S", 0.3)
    engine = vllm_engine.VllmEngine(vllm_engine.VllmConfig("not loaded"))
    try:
        with pytest.raises(EngineDiedError, match=r"gave no sign for 0\.005 minutes"):
            score(engine, [[1, 2]], [[3], [4]])
    finally:
        engine.close()


def test_the_continuations_are_those_of_lm_eval(tokenizer, tmp_path) -> None:
    from mlperf_suite.mmlu.engine_lm import EngineLM
    from mlperf_suite.mmlu.journal import Journal
    from mlperf_suite.mmlu.lm_eval_tasks import load_tasks

    data = load_mmlu("embedded")
    tasks = load_tasks(data, data.chosen(20), 1)["tasks"]
    lm = EngineLM(None, tokenizer, 8192, Journal(tmp_path / "journal", {}), lambda key: None)
    for task in tasks.values():
        task.build_all_requests()
        pairs = [request.args for request in task.instances]
        (found,) = lm._encode_questions([pairs])
        expected = [lm._encode_pair(*pair) for pair in pairs]
        assert found == (expected[0][0], [continuation for _, continuation in expected])
        assert [tokenizer.decode(c) for c in found[1]] == list(LETTERS)
