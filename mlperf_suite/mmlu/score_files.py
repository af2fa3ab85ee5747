"""The files of an MMLU result. Scores are in percent, latencies in ms."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path

from mlperf_suite.datasets.mmlu_questions import DOMAIN_OF, Mmlu
from mlperf_suite.mmlu.evaluation import Scores
from mlperf_suite.reports.plots import plot_subjects
from mlperf_suite.results.run_folder import write_json

_COLUMNS = ("subject", "domain", "question_id", "answer", "pred", "correct", "latency_ms", "tokens")


def write_scores(folder: Path, scores: Scores, about: Mapping[str, object], title: str) -> None:
    """Write overall.json, by_domain.json, by_subject.json, samples.csv and the plot.

    `about`: further entries of overall.json. Its `overall_accuracy` is a fraction, as mmlu.py wrote
    it (docs/from-run-py.md).
    """
    fraction = {"overall_accuracy": scores.overall.accuracy / 100}
    write_json(folder / "overall.json", {**scores.overall.as_json(), **fraction, **about})
    write_json(
        folder / "by_domain.json",
        {domain: accuracy.as_json() for domain, accuracy in scores.by_domain.items()},
    )
    write_json(
        folder / "by_subject.json",
        {
            subject: {"domain": DOMAIN_OF[subject], **accuracy.as_json()}
            for subject, accuracy in scores.by_subject.items()
        },
    )
    _write_samples(folder / "samples.csv", scores)
    plot_subjects(
        {subject: accuracy.accuracy for subject, accuracy in scores.by_subject.items()},
        scores.overall.accuracy,
        title,
        folder / "plots" / "score_by_subject.png",
    )


def _write_samples(path: Path, scores: Scores) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for sample in scores.samples:
            subject = sample.key.subject
            correct = int(sample.correct)
            latency = f"{sample.latency_ms:.3f}"
            row = [subject, DOMAIN_OF[subject], sample.key.id, sample.answer, sample.pred]
            writer.writerow([*row, correct, latency, sample.tokens])


def write_details(path: Path, scores: Scores, data: Mmlu) -> None:
    """Write each question with its choices and their log-probabilities, one JSON object per
    line."""
    with path.open("w", encoding="utf-8") as file:
        for sample in scores.samples:
            question = data.test[sample.key.subject][sample.key.id]
            content = {
                "subject": sample.key.subject,
                "question_id": sample.key.id,
                "question": question.question,
                "choices": question.choices,
                "answer": sample.answer,
                "pred": sample.pred,
                "logprobs": sample.logprobs,
                "latency_ms": sample.latency_ms,
                "tokens": sample.tokens,
                "cached_tokens": sample.cached_tokens,
            }
            file.write(json.dumps(content, ensure_ascii=False) + "\n")
