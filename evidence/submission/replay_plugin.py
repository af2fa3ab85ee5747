"""`-p evidence.submission.replay_plugin`: an engine that plays prepared answers back.

REPLAY is JSON: `answers`, a file that maps each sample's input to its answer, or
`answers_by_mode`, one that has by mode for each sample the opening and the closing of its answer
and how many tokens it has with a thought of fillers between them and its EOS; `paces`, by mode
(accuracy, performance, an audit) what `Pace` takes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.submission.model import FILLER
from evidence.submission.replay import Pace, ReplayEngine
from mlperf_suite.datasets.media import identity_of
from mlperf_suite.session.inputs import Inputs

Answers = dict[tuple[int, ...], list[int]]


def prepared_answers(inputs: Inputs, by_input: dict[str, str]) -> Answers:
    """The output tokens of each prompt, ended as a model ends them."""
    answers: Answers = {}
    tokenizer = inputs.tokenizer
    for benchmark in inputs.benchmarks:
        texts = [by_input[item.input] for item in inputs.samples(benchmark).items]
        tokens = tokenizer(texts, add_special_tokens=False)["input_ids"]
        for prompt, answer in zip(inputs.prompts(benchmark), tokens, strict=True):
            answers[identity_of(prompt)] = [*answer, tokenizer.eos_token_id]
    return answers


def thought_out_answers(
    inputs: Inputs, by_mode: Mapping[str, Sequence[tuple[str, str, int]]]
) -> Answers:
    """As `prepared_answers`, of answers that are filled up to a length."""
    answers: Answers = {}
    tokenizer = inputs.tokenizer
    (filler,) = tokenizer.encode(FILLER, add_special_tokens=False)
    (benchmark,) = inputs.benchmarks
    for mode, prepared in by_mode.items():
        openings, closings = (
            tokenizer([str(answer[part]) for answer in prepared], add_special_tokens=False)[
                "input_ids"
            ]
            for part in (0, 1)
        )
        prompts = inputs.prompts(benchmark, mode)
        for prompt, opening, closing, (_, _, length) in zip(
            prompts, openings, closings, prepared, strict=True
        ):
            thinking = [filler] * (length - len(opening) - len(closing) - 1)
            answers[identity_of(prompt)] = [*opening, *thinking, *closing, tokenizer.eos_token_id]
    return answers


def pytest_mlperf_load_engine(inputs: Inputs) -> ReplayEngine:
    options: dict[str, Any] = json.loads(os.environ["REPLAY"])
    paces = {mode: Pace(**sizing) for mode, sizing in options["paces"].items()}
    if "answers" in options:
        answers = prepared_answers(inputs, json.loads(Path(options["answers"]).read_text()))
    else:
        by_mode = json.loads(Path(options["answers_by_mode"]).read_text())
        answers = thought_out_answers(inputs, by_mode)
    return ReplayEngine(answers, paces, inputs.model_path)
