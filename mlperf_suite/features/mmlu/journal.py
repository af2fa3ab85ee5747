"""Scores on disk: an interrupted run loses nothing, and another run can continue it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mlperf_suite.engines.protocol import Likelihood, Score, parallel_sets
from mlperf_suite.errors import RunError
from mlperf_suite.hardware import describe_system
from mlperf_suite.settings import Settings

JOURNAL_NAME = "scored.jsonl"


@dataclass(frozen=True, slots=True)
class QuestionKey:
    """Identifies a question: its subject and its number among the subject's test questions."""

    subject: str
    id: int


class Journal:
    """One line for each scored question, written as soon as it is scored.

    `system` describes the run (model, data, shots); scores of different ones are never
    mixed.
    """

    def __init__(self, path: Path, system: Mapping[str, object]) -> None:
        self._scores: dict[QuestionKey, Score] = {}
        self.system = dict(system)
        self._file = path.open("a", encoding="utf-8")
        self._write(self.system)

    def __contains__(self, key: object) -> bool:
        return key in self._scores

    def __getitem__(self, key: QuestionKey) -> Score:
        return self._scores[key]

    def __iter__(self) -> Iterator[QuestionKey]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, key: QuestionKey, score: Score) -> None:
        """Add a score. The first score of a question counts."""
        if key not in self._scores:
            self._scores[key] = score
            self._write({**dataclasses.asdict(key), **dataclasses.asdict(score)})

    def add_from(self, path: Path, keys: Container[QuestionKey]) -> int:
        """Copy the scores of these questions from another journal; returns how many.

        Nothing is copied if the other journal has another model, data or shots. An incomplete last
        line is ignored.
        """
        before = len(self)
        for key, score in read_journal(path, self.system):
            if key in keys:
                self.add(key, score)
        return len(self) - before

    def _write(self, content: Mapping[str, object]) -> None:
        self._file.write(json.dumps(content) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_journal(path: Path, system: Mapping[str, object]) -> list[tuple[QuestionKey, Score]]:
    """The scores in a file; empty if they are for something else or cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines or json.loads(lines[0]) != dict(system):
            return []
    except (OSError, ValueError):
        return []
    scores = []
    for line in lines[1:]:
        try:
            row = json.loads(line)
        except ValueError:
            break
        likelihoods = tuple(Likelihood(**likelihood) for likelihood in row["likelihoods"])
        score = Score(likelihoods, row["latency_ms"], row["tokens"], row["cached_tokens"])
        scores.append((QuestionKey(row["subject"], row["id"]), score))
    return scores


# Several engines
#
# The workers of a session share a folder. Each share has a journal there, and a file that says that
# it is done, or why it failed; the first share's worker waits for the others and merges.


_POLL_S = 0.2
_Numbers = TypeVar("_Numbers", bound=Sequence[int])


@dataclass(frozen=True, slots=True)
class Shares:
    """`count` shares, in `folder`. A share without progress for `patience_s` seconds is given
    up."""

    folder: Path
    count: int
    gpus_per_engine: int
    patience_s: float

    def journal(self, index: int) -> Path:
        """The path of a share's scores; creates its folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"share-{index}.jsonl"

    def engine_log(self, index: int) -> Path:
        return self.folder / f"engine-{index}.log"

    def _end_file(self, index: int) -> Path:
        return self.folder / f"share-{index}.ended"

    def end(self, index: int, failure: str | None = None) -> None:
        """Mark a share as finished; has no effect if the merging run has already ended."""
        part = self._end_file(index).with_suffix(".part")
        with contextlib.suppress(FileNotFoundError):
            part.write_text(failure or "", encoding="utf-8")
            part.replace(self._end_file(index))

    def wait(self) -> None:
        """Wait for all shares but the first. Raises RunError if one failed or hangs."""
        for index in range(1, self.count):
            last_size, last_change = -1, time.monotonic()
            while not self._end_file(index).exists():
                path = self.journal(index)
                size = path.stat().st_size if path.exists() else -1
                if size != last_size:
                    last_size, last_change = size, time.monotonic()
                if time.monotonic() - last_change > self.patience_s:
                    raise RunError(f"share {index}: no progress for {self.patience_s:.0f} s")
                time.sleep(_POLL_S)
            if failure := self._end_file(index).read_text(encoding="utf-8"):
                raise RunError(f"share {index}: {failure}")

    def journals(self) -> list[Path]:
        """The existing journals of all shares but the first."""
        return [p for i in range(1, self.count) if (p := self.journal(i)).exists()]

    def clear(self, into: Path) -> None:
        """Move the engines' logs to a run's folder and delete the rest."""
        for log in self.folder.glob("engine-*.log"):
            shutil.move(log, into / log.name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def use_gpus(self, index: int) -> None:
        """Restrict the engine that this process will load to its share's GPUs."""
        first = index * self.gpus_per_engine
        if gpus := _gpus()[first : first + self.gpus_per_engine]:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)


def engine_count(settings: Settings) -> int:
    """How many engines fit on this machine at once: one for each group of GPUs, else one."""
    return max(1, len(_gpus()) // gpus_per_engine(settings))


def gpus_per_engine(settings: Settings) -> int:
    """The tensor parallel size, as often as pipeline, data and context parallelism need it; by
    default all GPUs, as in every other run."""
    arguments = settings.engine_args
    size = str(arguments.get("tensor_parallel_size", settings.tensor_parallel_size))
    if not size.isdecimal():
        return max(1, len(_gpus()))
    return max(1, int(size)) * parallel_sets(arguments)


def _gpus() -> list[str]:
    """The GPUs that this process may use, named as in CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name]
    count = describe_system()["gpu_count"]
    assert isinstance(count, int)
    return list(map(str, range(count)))


def split_subjects(questions: Mapping[str, _Numbers], count: int) -> list[dict[str, _Numbers]]:
    """Distribute whole subjects among the shares, with about equally many questions in each."""
    parts: list[dict[str, _Numbers]] = [{} for _ in range(count)]
    sizes = [0] * count
    for subject in sorted(questions, key=lambda s: (-len(questions[s]), s)):
        least = sizes.index(min(sizes))
        parts[least][subject] = questions[subject]
        sizes[least] += len(questions[subject])
    return parts
