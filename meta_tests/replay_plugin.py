"""`-p meta_tests.replay_plugin`: the suite on an engine that plays prepared answers back.

REPLAY is JSON: `answers`, a file that maps each article to its answer; `paces`, by mode (accuracy,
performance, test06) what `Pace` takes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mlperf_suite.engines.replay import Pace, ReplayEngine
from mlperf_suite.loadgen.load_plan import Mode
from mlperf_suite.session.executor import Session


def mode_under_way(suite: Session) -> Mode:
    """The mode of the run that the session makes now: the one begun last."""
    newest = list(suite.results.values())[-1]
    return list(newest.stages)[-1]


def prepared_answers(
    suite: Session, by_article: dict[str, str]
) -> dict[tuple[int, ...], list[int]]:
    """The output tokens of each prompt, ended as a model ends them."""
    answers: dict[tuple[int, ...], list[int]] = {}
    for category in sorted({key.category for key in suite.planned}):
        texts = [by_article[item.article] for item in suite.news(category).items]
        tokens = suite.tokenizer(texts, add_special_tokens=False)["input_ids"]
        for prompt, answer in zip(suite.prompts(category), tokens, strict=True):
            answers[tuple(prompt)] = [*answer, suite.tokenizer.eos_token_id]
    return answers


def pytest_mlperf_load_engine(suite: Session) -> ReplayEngine:
    told: dict[str, Any] = json.loads(os.environ["REPLAY"])
    paces = {mode: Pace(**pace) for mode, pace in told["paces"].items()}
    answers = prepared_answers(suite, json.loads(Path(told["answers"]).read_text()))
    return ReplayEngine(answers, lambda: paces[mode_under_way(suite)], suite.model_path)
