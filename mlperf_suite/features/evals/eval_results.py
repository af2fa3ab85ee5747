"""One result of a task: lm-eval's scores of its documents, and its files."""

from __future__ import annotations

import importlib.metadata
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite.features.evals.figures import (
    DOCUMENTS_JSONL,
    RESPONSES_JSONL,
    EvalFigures,
    EvalScore,
)
from mlperf_suite.features.mmlu.score_files import ScoreRecord
from mlperf_suite.secrets import redact

if TYPE_CHECKING:
    from mlperf_suite.features.evals.lm_eval_tasks import EvalTask

_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class EvalDocument:
    """A document's answer. `number`: among its task's documents. `answer`: the choice's number, or
    the text that the main metric's filter left. `responses`: log-probabilities with whether they
    are greedy, or texts. `metrics`: by "metric,filter". `weight`: its share in the group's score
    as a multiple of the mean one.
    """

    task: str
    number: int
    answer: object
    target: object
    responses: list[Any]
    metrics: dict[str, Any]
    weight: float = 1.0

    def score(self, metric: str, *, weighted: bool = True) -> float | None:
        """A metric in percent; None if it is no number from 0 to 1."""
        value = _share(self.metrics.get(metric))
        return None if value is None else 100 * value * (self.weight if weighted else 1.0)


@dataclass(frozen=True, slots=True)
class EvalScores:
    """lm-eval's scores. `metric`: the main one, as "metric,filter"."""

    metric: str
    scores: Mapping[str, EvalScore]
    by_task: Mapping[str, EvalScore]
    documents: Sequence[EvalDocument]


def scores_of(task: EvalTask, evaluation: Mapping[str, Any]) -> EvalScores:
    """The scores of `lm_eval.evaluate`'s result: of the task, and of each task of a group.

    A group's score is lm-eval's aggregate, or the mean over all documents where it has none.
    """
    results = evaluation["results"]
    names = list(task.loaded["tasks"])
    metrics = [name for name in results[names[0]] if "," in name and "_stderr," not in name]
    by_size = _weights_by_size(task, metrics[0])
    total = task.planned
    documents: list[EvalDocument] = []
    for name in names:
        weight = 1.0 if by_size else total / (len(names) * len(task.chosen[name]))
        documents += _documents(name, task.chosen[name], evaluation["samples"][name], weight)
    whole = results.get(task.name, {})
    scores = {m: _score(documents, m, whole.get(m), weighted=True) for m in metrics}
    by_task = {}
    for name in names if len(names) > 1 else ():
        own = [document for document in documents if document.task == name]
        by_task[name] = _score(own, metrics[0], results[name].get(metrics[0]), weighted=False)
    return EvalScores(metrics[0], scores, by_task, documents)


def _weights_by_size(task: EvalTask, metric: str) -> bool:
    """Whether each document counts alike in the group's score."""
    group = task.loaded["groups"].get(task.name)
    aggregates = (group.aggregate_metric_list or ()) if group is not None else ()
    name = metric.partition(",")[0]
    return all(aggregate.weight_by_size for aggregate in aggregates if aggregate.metric == name)


def _documents(
    task: str, numbers: Sequence[int], logged: Sequence[Mapping[str, Any]], weight: float
) -> Iterator[EvalDocument]:
    """A task's documents from the samples of all its filters, the first of which is the main
    one's."""
    by_number: dict[int, list[Mapping[str, Any]]] = {number: [] for number in numbers}
    for sample in logged:
        by_number[sample["doc_id"]].append(sample)
    for number, samples in by_number.items():
        metrics = {f"{m},{s['filter']}": s[m] for s in samples for m in s["metrics"]}
        first = samples[0]
        responses = [response for of_request in first["resps"] for response in of_request]
        yield EvalDocument(
            *(task, number, _answer(first), first["target"]), responses, metrics, weight
        )


def _answer(sample: Mapping[str, Any]) -> object:
    """The number of the likeliest choice, the first as lm-eval takes it (numpy.argmax), or text."""
    left = sample["filtered_resps"]
    if isinstance(left[0], str | list):
        return left[0] if len(left) == 1 else left
    logprobs = [response[0] for response in left]
    return logprobs.index(max(logprobs))


def _score(
    documents: Sequence[EvalDocument], metric: str, aggregate: object, *, weighted: bool
) -> EvalScore:
    """The mean over the documents in percent if lm-eval's figure is one, else its figure."""
    shares = [document.score(metric, weighted=weighted) for document in documents]
    own = [share for share in shares if share is not None]
    figure = float(aggregate) if isinstance(aggregate, int | float) else None
    count = len(documents)
    if len(own) == count:
        mean = statistics.fmean(own)
        if figure is None or math.isclose(mean, 100 * figure, rel_tol=_SAME, abs_tol=_SAME):
            spread = statistics.stdev(own) / math.sqrt(count) if count > 1 else None
            return EvalScore(mean, spread, "%", count)
    # A mean of several answers of each document, such as IFEval's instructions.
    parts = [_share(p) for d in documents for p in _parts(d.metrics.get(metric))]
    if figure is not None and parts and None not in parts:
        mean = statistics.fmean(part for part in parts if part is not None)
        if math.isclose(mean, figure, rel_tol=_SAME, abs_tol=_SAME):
            return EvalScore(100 * figure, None, "%", count)
    return EvalScore(figure, None, "", count)


def _parts(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _share(value: object) -> float | None:
    """A number from 0 to 1, also of numpy; None if it is none."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if 0 <= number <= 1 else None


@dataclass(slots=True, kw_only=True)
class EvalRecord(ScoreRecord):
    """The result of a task in a session. `asked_sha256`: the fingerprint of its requests, known
    once they were made. `requests` to `departures`: as in `EvalFigures`."""

    task: EvalTask
    scores: EvalScores | None = None
    asked_sha256: str | None = None
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    cut: int = 0
    departures: tuple[str, ...] = ()

    def figures(self, model: str) -> EvalFigures | None:
        """The scores and measurements; a rate only if this run answered everything."""
        if self.scores is None:
            return None
        task, elapsed_s = self.task, self.elapsed_s
        is_whole = elapsed_s and not self.resumed
        return EvalFigures(
            task=task.name,
            metric=self.scores.metric,
            score=self.scores.scores[self.scores.metric],
            scores=dict(self.scores.scores),
            by_task=dict(self.scores.by_task),
            shots=task.shots,
            chat_template=task.as_chat,
            data=task.data,
            model=model,
            lm_eval_version=importlib.metadata.version("lm_eval"),
            planned=task.planned,
            available=sum(task.available.values()),
            requests=self.requests,
            resumed=self.resumed,
            elapsed_s=elapsed_s,
            documents_per_sec=task.planned / elapsed_s if elapsed_s and is_whole else None,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            generated_tokens=self.generated_tokens,
            cut=self.cut,
            departures=self.departures,
        )


def write_documents(folder: Path, scores: EvalScores) -> None:
    """Write each document's score, and beside it the texts. `score`: in percent, weighted as in the
    group's score; absent where the main metric is no share. Raises OSError."""
    with (
        (folder / DOCUMENTS_JSONL).open("w", encoding="utf-8") as numbers,
        (folder / RESPONSES_JSONL).open("w", encoding="utf-8") as texts,
    ):
        for document in scores.documents:
            score = document.score(scores.metric)
            place = {"task": document.task, "document": document.number}
            numbers.write(json.dumps(place | ({} if score is None else {"score": score})) + "\n")
            row = place | {
                "answer": document.answer,
                "target": document.target,
                "responses": document.responses,
                # Of some tasks, the texts that are scored together.
                "metrics": document.metrics,
            }
            texts.write(redact(json.dumps(row, ensure_ascii=False, default=_plain)) + "\n")


def _plain(value: Any) -> object:
    """What JSON has no type for: numpy's numbers, dates."""
    return value.item() if hasattr(value, "item") else str(value)
