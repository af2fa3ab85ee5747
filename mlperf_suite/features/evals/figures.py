"""A task's figures in summary.json, and its score in the regression gate."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from mlperf_suite.results.regression import FeatureGate, Metric, Score
from mlperf_suite.results.schema import Summary
from mlperf_suite.untrusted_files import open_regular

PART = "run.evals"
"""The name of the figures in summary.json."""
DOCUMENTS_JSONL = "documents.jsonl"
"""The file with each document's score, which the gate reads, and no text."""
RESPONSES_JSONL = "responses.jsonl"
"""The file with the texts: each document's answer, target and responses."""


@dataclass(frozen=True, slots=True)
class EvalScore:
    """A mean over documents in percent, with its standard error in percentage points, or another
    figure as lm-eval gives it, without one. `unit`: "%" or empty."""

    value: float | None = None
    stderr: float | None = None
    unit: str = ""
    documents: int | None = None


@dataclass(frozen=True, slots=True)
class EvalFigures:
    """The run of a task or a group of tasks.

    `metric`: the first of its metrics and filters, which `score` and `by_task` are of. `planned`:
    the documents to answer, `available`: those that the task has. `resumed`: the requests that an
    earlier run answered; there is a rate only without any. `cut`: the generated answers that ended
    at the task's limit of tokens. `chat_template`: whether prompts were in the model's.
    `departures`: how a server's answers differ from what was asked.
    """

    task: str | None = None
    metric: str | None = None
    score: EvalScore = EvalScore()
    scores: dict[str, EvalScore] = field(default_factory=dict)
    by_task: dict[str, EvalScore] = field(default_factory=dict)
    shots: int | None = None
    chat_template: bool | None = None
    data: str | None = None
    model: str | None = None
    lm_eval_version: str | None = None
    planned: int | None = None
    available: int | None = None
    requests: int | None = None
    resumed: int | None = None
    elapsed_s: float | None = None
    documents_per_sec: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None
    cut: int | None = None
    departures: tuple[str, ...] = ()


def evals_of(summary: Summary) -> EvalFigures | None:
    """The figures of a summary's run of a task; None if it has none."""
    figures: EvalFigures | None = summary.parts.get(PART)
    return figures


def _score(summary: Summary) -> Score | None:
    figures = evals_of(summary)
    if figures is None or figures.score.unit != "%":
        return None
    return figures.score.value, figures.score.stderr


def _answers_by_key(folder: Path) -> dict[object, float]:
    """Each document's score, in percent; an answer's key is its task and document."""
    scores: dict[object, float] = {}
    with (
        contextlib.suppress(OSError, ValueError, KeyError, TypeError),
        open_regular(folder / DOCUMENTS_JSONL) as file,
    ):
        for line in file:
            row = json.loads(line)
            scores[str(row["task"]), int(row["document"])] = float(row["score"])
        return scores if all(map(math.isfinite, scores.values())) else {}
    return {}


class EvalGate(FeatureGate):
    metrics = (
        Metric(
            *("evals", "score", "%", "evals"),
            True,
            "evals",
            of_summary=_score,
            of_answers=_answers_by_key,
        ),
    )


GATE = EvalGate()
