"""`-p meta_tests.replay_plugin`: the suite on an engine that plays prepared answers back.

REPLAY is JSON: `answers`, a file that maps each sample's input to its answer; `paces`, by mode
(accuracy, performance, test06) what `Pace` takes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mlperf_suite.engines.replay import Pace, ReplayEngine
from mlperf_suite.session.inputs import Inputs


def prepared_answers(inputs: Inputs, by_input: dict[str, str]) -> dict[tuple[int, ...], list[int]]:
    """The output tokens of each prompt, ended as a model ends them."""
    answers: dict[tuple[int, ...], list[int]] = {}
    tokenizer = inputs.tokenizer
    for benchmark in inputs.benchmarks:
        texts = [by_input[item.input] for item in inputs.samples(benchmark).items]
        tokens = tokenizer(texts, add_special_tokens=False)["input_ids"]
        for prompt, answer in zip(inputs.prompts(benchmark), tokens, strict=True):
            answers[tuple(prompt)] = [*answer, tokenizer.eos_token_id]
    return answers


def pytest_mlperf_load_engine(inputs: Inputs) -> ReplayEngine:
    told: dict[str, Any] = json.loads(os.environ["REPLAY"])
    paces = {mode: Pace(**pace) for mode, pace in told["paces"].items()}
    answers = prepared_answers(inputs, json.loads(Path(told["answers"]).read_text()))
    return ReplayEngine(answers, paces, inputs.model_path)
