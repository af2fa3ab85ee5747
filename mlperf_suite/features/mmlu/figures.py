"""MMLU's figures in summary.json, and its score in the regression gate."""

from __future__ import annotations

import contextlib
import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

from mlperf_suite.results.regression import FeatureGate, Metric, Score
from mlperf_suite.results.schema import Percentiles, Summary
from mlperf_suite.untrusted_files import open_regular

PART = "run.mmlu"
"""The name of the figures in summary.json."""


@dataclass(frozen=True, slots=True)
class MmluScore:
    """The share of correct answers in percent, and its standard error in percentage points."""

    accuracy: float | None = None
    stderr: float | None = None
    correct: int | None = None
    questions: int | None = None


@dataclass(frozen=True, slots=True)
class MmluFigures(MmluScore):
    """An MMLU run. `planned`: the number of questions to score; `resumed`: the number of them that
    an earlier run scored. There are rates only if this run scored all of them."""

    shots: int | None = None
    subjects: int | None = None
    data: str | None = None
    model: str | None = None
    lm_eval_version: str | None = None
    planned: int | None = None
    resumed: int | None = None
    elapsed_s: float | None = None
    questions_per_sec: float | None = None
    tokens: int | None = None
    cached_tokens: int | None = None
    latency_ms: Percentiles = field(default_factory=dict)
    by_domain: dict[str, MmluScore] = field(default_factory=dict)


def mmlu_of(summary: Summary) -> MmluFigures | None:
    """The figures of a summary's MMLU run; None if it has none."""
    figures: MmluFigures | None = summary.parts.get(PART)
    return figures


def _score(summary: Summary) -> Score | None:
    mmlu = mmlu_of(summary)
    return None if mmlu is None else (mmlu.accuracy, mmlu.stderr)


def _answers_by_key(folder: Path) -> dict[object, float]:
    """An answer's key is its subject and question."""
    with (
        contextlib.suppress(OSError, ValueError, KeyError, csv.Error),
        open_regular(folder / "samples.csv") as file,
    ):
        table = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        names = list(table.fieldnames or ())
        if len(set(names)) < len(names):
            raise ValueError("two columns of one name")
        return {
            (row["subject"], row["question_id"]): 100.0 * (row["correct"] in ("1", "True", "true"))
            for row in table
        }
    return {}


class MmluGate(FeatureGate):
    metrics = (
        Metric(
            *("mmlu", "MMLU", "%", "mmlu"),
            True,
            "mmlu",
            of_summary=_score,
            of_answers=_answers_by_key,
        ),
    )


GATE = MmluGate()
