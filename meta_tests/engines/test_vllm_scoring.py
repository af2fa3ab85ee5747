"""Scoring without an engine: one that hangs, and what is asked of it."""

from __future__ import annotations

import asyncio

import pytest

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
