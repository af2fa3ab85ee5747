"""Scoring without an engine: one that hangs, and what is asked of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.datasets.mmlu_questions import load_mmlu
from mlperf_suite.engines import vllm_engine
from mlperf_suite.engines.protocol import ScoreRequest
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.errors import EngineDiedError


def test_an_engine_that_hangs_while_it_scores_is_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*args: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(vllm_engine, "score_one", never)
    engine = VllmEngine(VllmConfig("not loaded", silence_s=0.3))
    try:
        with pytest.raises(
            EngineDiedError, match=r"showed no progress for 0\.005 minutes while 1 req"
        ):
            list(engine.score([ScoreRequest(0, [1, 2], [[3], [4]])]))
    finally:
        engine.close()


def test_the_continuations_are_those_of_lm_eval(tmp_path: Path) -> None:
    from mlperf_suite.mmlu.engine_lm import EngineLM, load_tasks
    from mlperf_suite.mmlu.journal import Journal

    tokenizer = load_tokenizer(str(embedded_model_dir()))
    data = load_mmlu("embedded")
    tasks = load_tasks(data, data.selection(20), 1)["tasks"]
    lm = EngineLM(None, tokenizer, 8192, Journal(tmp_path / "journal", {}), lambda key: None)
    for task in tasks.values():
        task.build_all_requests()
        pairs = [request.args for request in task.instances]
        (result,) = lm._encode_questions([pairs])
        pair_ids = [lm._encode_pair(*pair) for pair in pairs]
        assert result == (pair_ids[0][0], [continuation for _, continuation in pair_ids])
        assert [tokenizer.decode(c) for c in result[1]] == [" A", " B", " C", " D"]
