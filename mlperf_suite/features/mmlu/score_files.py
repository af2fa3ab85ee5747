"""One MMLU result: its questions, scores and files. Scores are in percent, latencies in ms."""

from __future__ import annotations

import csv
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.request_times import percentile
from mlperf_suite.features.mmlu.figures import MmluFigures, MmluScore
from mlperf_suite.features.mmlu.journal import QuestionKey
from mlperf_suite.features.mmlu.mmlu_questions import CHANCE, DOMAIN_OF, Mmlu
from mlperf_suite.results.run_folder import RunFolder, write_json
from mlperf_suite.rules.verdict import Verdict

SUBJECTS_PLOT = "plots/score_by_subject.png"
_COLUMNS = ("subject", "domain", "question_id", "answer", "pred", "correct", "latency_ms", "tokens")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A share of right answers, in percent, with its standard error; None if lm-eval has none.

    The standard error of a group pools those of its subjects, so one subject with a single question
    leaves it without one.
    """

    accuracy: float
    stderr: float | None
    correct: int
    questions: int


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """One scored question. `answer` and `pred` are letters; `logprobs` are natural, one per
    choice."""

    key: QuestionKey
    answer: str
    pred: str
    correct: bool
    latency_ms: float
    tokens: int
    cached_tokens: int
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MmluScores:
    """lm-eval's scores: overall, by domain, by subject, by question."""

    overall: Accuracy
    by_domain: Mapping[str, Accuracy]
    by_subject: Mapping[str, Accuracy]
    samples: tuple[ScoredQuestion, ...]


@dataclass(frozen=True, slots=True)
class MmluTask:
    """The questions to score: by subject, the numbers in `chosen`, after `shots` examples."""

    data: Mmlu
    shots: int
    chosen: Mapping[str, range]

    @property
    def planned(self) -> int:
        """The number of questions."""
        return sum(map(len, self.chosen.values()))

    @property
    def meta(self) -> dict[str, Any]:
        """What the meta of its summary says of them."""
        return {"dataset": self.data.name, "questions": self.planned, "shots": self.shots}

    @property
    def keys(self) -> frozenset[QuestionKey]:
        return frozenset(
            QuestionKey(s, number) for s, numbers in self.chosen.items() for number in numbers
        )


@dataclass(slots=True, kw_only=True)
class ScoreRecord:
    """A score of a session, made or not. `ended`: when it ended, `elapsed_s`: the time of scoring,
    None until then. `resumed`: the answers that another run left. `died`: why the run failed.
    `unwritten`: why its files could not all be written."""

    folder: RunFolder
    started: datetime
    ended: str | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    elapsed_s: float | None = None
    resumed: int = 0
    died: str | None = None
    unwritten: str | None = None

    @property
    def failure(self) -> str | None:
        """Why the score failed or was not written, or None."""
        return self.died or self.unwritten

    @property
    def status(self) -> str:
        """failed (did not finish), running, invalid (a rule failed), or complete."""
        if self.failure is not None:
            return "failed"
        if not self.verdicts:
            return "running"
        return "invalid" if any(v.status == "failed" for v in self.verdicts) else "complete"


@dataclass(slots=True, kw_only=True)
class MmluRecord(ScoreRecord):
    """The MMLU score of a session."""

    task: MmluTask
    scores: MmluScores | None = None

    def figures(self, model: str) -> MmluFigures | None:
        """The score in percent and the measurements; rates only if all was scored in this run."""
        if self.scores is None:
            return None
        samples = self.scores.samples
        newly_scored = len(samples) - self.resumed
        latencies = sorted(s.latency_ms for s in samples)
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
        return MmluFigures(
            **asdict(self.scores.overall),
            **self._about(model, self.scores),
            planned=self.task.planned,
            resumed=self.resumed,
            elapsed_s=self.elapsed_s,
            questions_per_sec=newly_scored / self.elapsed_s if self.elapsed_s else None,
            tokens=sum(s.tokens for s in samples),
            cached_tokens=sum(s.cached_tokens for s in samples),
            latency_ms={
                **{name: percentile(latencies, share) for name, share in shares.items()},
                "max": latencies[-1],
            },
            by_domain={d: MmluScore(**asdict(a)) for d, a in self.scores.by_domain.items()},
        )

    def _about(self, model: str, scores: MmluScores) -> dict[str, Any]:
        return {
            "shots": self.task.shots,
            "subjects": len(scores.by_subject),
            "data": self.task.data.name,
            "model": model,
            "lm_eval_version": importlib.metadata.version("lm_eval"),
        }

    def write_scores(self, model: str, label: str, *, details: bool) -> None:
        """Write overall.json, by_domain.json, by_subject.json, samples.csv and the plot of the
        scores so far, if there are any; `details`: also details.jsonl.

        Raises OSError.
        """
        if self.scores is None:
            return
        about = self._about(model, self.scores)
        about = {"planned": self.task.planned, "chance": CHANCE, **about}
        title = f"MMLU, {model}, {self.task.shots} shots: {label}"
        _write_scores(self.folder.path, self.scores, about, title)
        if details:
            _write_details(self.folder.path / "details.jsonl", self.scores, self.task.data)


def _write_scores(
    folder: Path, scores: MmluScores, about: Mapping[str, object], title: str
) -> None:
    """`about`: further entries of overall.json. Its `overall_accuracy` is a fraction, as mmlu.py
    wrote it (docs/from-run-py.md)."""
    from mlperf_suite.features.mmlu.report import plot_subjects

    fraction = {"overall_accuracy": scores.overall.accuracy / 100}
    write_json(folder / "overall.json", {**asdict(scores.overall), **fraction, **about})
    write_json(folder / "by_domain.json", {d: asdict(a) for d, a in scores.by_domain.items()})
    subjects = {s: {"domain": DOMAIN_OF[s], **asdict(a)} for s, a in scores.by_subject.items()}
    write_json(folder / "by_subject.json", subjects)
    with (folder / "samples.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for sample in scores.samples:
            subject = sample.key.subject
            correct = int(sample.correct)
            latency = f"{sample.latency_ms:.3f}"
            row = [subject, DOMAIN_OF[subject], sample.key.id, sample.answer, sample.pred]
            writer.writerow([*row, correct, latency, sample.tokens])
    percent = {subject: accuracy.accuracy for subject, accuracy in scores.by_subject.items()}
    plot_subjects(percent, scores.overall.accuracy, title, folder / SUBJECTS_PLOT)


def _write_details(path: Path, scores: MmluScores, data: Mmlu) -> None:
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
