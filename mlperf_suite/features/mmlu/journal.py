"""Scores on disk: an interrupted run loses nothing, and another run can continue it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mlperf_suite.engines.protocol import EngineDescription, Likelihood, Score
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
