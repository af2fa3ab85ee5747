"""Scores the engine's answers with lm-eval's evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlperf_suite.datasets.mmlu_questions import DOMAIN_OF, LETTERS
from mlperf_suite.mmlu.journal import Journal, Key

_ACC, _STDERR = "acc,none", "acc_stderr,none"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A share of right answers, in percent, with its standard error; None if lm-eval has none.

    The standard error of a group pools those of its subjects, so one subject with a single question
    leaves it without one.
    """

    accuracy: float
    stderr: float | None
    questions: int

    def as_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy,
            "stderr": self.stderr,
            "correct": round(self.accuracy * self.questions / 100),
            "questions": self.questions,
        }


@dataclass(frozen=True, slots=True)
class Sample:
    """One scored question. `answer` and `pred` are letters; `logprobs` are natural, one per
    choice."""

    key: Key
    answer: str
    pred: str
    correct: bool
    latency_ms: float
    tokens: int
    cached_tokens: int
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """lm-eval's scores: overall, by domain, by subject, by question."""

    overall: Accuracy
    by_domain: Mapping[str, Accuracy]
    by_subject: Mapping[str, Accuracy]
    samples: tuple[Sample, ...]


def evaluate(lm: Any, tasks: dict[str, Any], journal: Journal) -> Scores:
    """Score every question of the tasks. Raises whatever the model raises."""
    import lm_eval

    from mlperf_suite.mmlu.engine_lm import GROUP_OF_DOMAIN, TASK_PREFIX, quiet_lm_eval

    with quiet_lm_eval():
        evaluation = lm_eval.evaluate(lm, tasks, bootstrap_iters=1, log_samples=True)
    results = evaluation["results"]
    counts = {name: results[name]["sample_len"] for name in tasks["tasks"]}
    groups = {
        name: sum(counts[task.task_name] for task in group.get_all_tasks())
        for name, group in tasks["groups"].items()
    }

    def accuracy(name: str) -> Accuracy:
        stderr = results[name].get(_STDERR)
        return Accuracy(
            100 * results[name][_ACC],
            100 * float(stderr) if isinstance(stderr, float) else None,
            counts.get(name) or groups[name],
        )

    return Scores(
        accuracy("mmlu"),
        {d: accuracy(name) for d, name in GROUP_OF_DOMAIN.items() if name in groups},
        {name.removeprefix(TASK_PREFIX): accuracy(name) for name in sorted(counts)},
        tuple(_sample(s, journal) for name in sorted(counts) for s in evaluation["samples"][name]),
    )


def _sample(logged: Mapping[str, Any], journal: Journal) -> Sample:
    key = Key(logged["doc"]["subject"], logged["doc"]["id"])
    score = journal[key]
    logprobs = [response[0] for response in logged["filtered_resps"]]
    return Sample(
        key,
        LETTERS[logged["target"]],
        LETTERS[_argmax(logprobs)],
        logged["acc"] == 1.0,
        score.latency_ms,
        score.tokens,
        score.cached_tokens,
        tuple(logprobs),
    )


def _argmax(values: Sequence[float]) -> int:
    """The index of the first maximum, as lm-eval chooses an answer (numpy.argmax)."""
    return max(range(len(values)), key=values.__getitem__)


def domain_of(sample: Sample) -> str:
    return DOMAIN_OF[sample.key.subject]
