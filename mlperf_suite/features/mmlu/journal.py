"""Scores on disk: an interrupted run loses nothing, and another run can continue it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import time
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mlperf_suite.engines.protocol import EngineDescription, Likelihood, Score, parallel_sets
from mlperf_suite.errors import RunError
from mlperf_suite.hardware import describe_system
from mlperf_suite.results.comparability import Aspect, identity_of
from mlperf_suite.results.run_folder import FINAL_STATUSES, read_summary, run_folders
from mlperf_suite.results.schema import Config, EngineFacts, Meta, Summary
from mlperf_suite.settings import Settings

JOURNAL_NAME = "scored.jsonl"


@dataclass(frozen=True, slots=True)
class QuestionKey:
    """Identifies a question: its subject and its number among the subject's test questions."""

    subject: str
    id: int


Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


class LineJournal(Generic[Key, Entry]):
    """One line for each answer, written as soon as it is there.

    `system` describes the run; answers of different ones are never mixed.
    """

    def __init__(self, path: Path, system: Mapping[str, object]) -> None:
        self._entries: dict[Key, Entry] = {}
        self.system = dict(system)
        self._file = path.open("a", encoding="utf-8")
        self._write(self.system)

    def line(self, key: Key, entry: Entry) -> Mapping[str, object]:
        """A line's content, as JSON."""
        raise NotImplementedError

    def entry(self, line: Mapping[str, Any]) -> tuple[Key, Entry]:
        """The key and the answer in a line's content."""
        raise NotImplementedError

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __getitem__(self, key: Key) -> Entry:
        return self._entries[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: Key, entry: Entry) -> None:
        """Add an answer. The first one of a key counts."""
        if key not in self._entries:
            self._entries[key] = entry
            self._write(self.line(key, entry))

    def add_from(self, path: Path, keys: Container[Key] | None = None) -> int:
        """Copy the answers to these keys, or all, from another journal; returns how many.

        Nothing is copied if the other journal is of another system. An incomplete last line is
        ignored.
        """
        before = len(self)
        for line in read_journal(path, self.system):
            key, entry = self.entry(line)
            if keys is None or key in keys:
                self.add(key, entry)
        return len(self) - before

    def go_on(self, results_dir: Path, own: Path, keys: Container[Key] | None = None) -> int:
        """Take over the answers of the newest matching run unless it finished; return how many.

        `own`: the folder of this run.
        """
        for earlier in run_folders(results_dir):
            path = earlier / JOURNAL_NAME
            if earlier == own or not read_journal(path, self.system):
                continue
            summary = read_summary(earlier)
            is_over = summary is not None and summary.meta.status in FINAL_STATUSES
            return 0 if is_over else self.add_from(path, keys)
        return 0

    def _write(self, content: Mapping[str, object]) -> None:
        self._file.write(json.dumps(content) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Journal(LineJournal[QuestionKey, Score]):
    """The scored questions. `system`: model, data, shots."""

    def line(self, key: QuestionKey, entry: Score) -> Mapping[str, object]:
        return {**dataclasses.asdict(key), **dataclasses.asdict(entry)}

    def entry(self, line: Mapping[str, Any]) -> tuple[QuestionKey, Score]:
        likelihoods = tuple(Likelihood(**likelihood) for likelihood in line["likelihoods"])
        score = Score(likelihoods, line["latency_ms"], line["tokens"], line["cached_tokens"])
        return QuestionKey(line["subject"], line["id"]), score


def read_journal(path: Path, system: Mapping[str, object]) -> list[dict[str, Any]]:
    """The lines of a file; empty if they are of another system or cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines or json.loads(lines[0]) != dict(system):
            return []
    except (OSError, ValueError):
        return []
    rows = []
    for line in lines[1:]:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


_ASPECTS: tuple[Aspect, ...] = ("engine", "release")
"""The facts that must be equal for answers of one system: neither the hardware nor the batches."""


def system_of(
    settings: Settings, description: EngineDescription, benchmark: str
) -> dict[str, object]:
    """The identity of the system that answers, as JSON. `benchmark`: of the result."""
    facts = EngineFacts(**dataclasses.asdict(description))
    config = Config(settings=settings.as_json(), engine=facts)
    return identity_of(config, Summary(meta=Meta(benchmark=benchmark))).values(_ASPECTS)


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
