"""Scores on disk: an interrupted run loses nothing, and another run can continue it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.engines.scoring import Likelihood, Score

JOURNAL_NAME = "scored.jsonl"


@dataclass(frozen=True, slots=True)
class Key:
    """Identifies a question: its subject and its number among the subject's test questions."""

    subject: str
    id: int


class Journal:
    """One line for each scored question, written as soon as it is scored.

    `system` describes what is scored (model, data, shots); scores of different ones are never
    mixed.
    """

    def __init__(self, path: Path, system: Mapping[str, object]) -> None:
        self._scores: dict[Key, Score] = {}
        self.system = dict(system)
        self._file = path.open("a", encoding="utf-8")
        self._write(self.system)

    def __contains__(self, key: object) -> bool:
        return key in self._scores

    def __getitem__(self, key: Key) -> Score:
        return self._scores[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, key: Key, score: Score) -> None:
        """Add a score. The first score of a question counts."""
        if key not in self._scores:
            self._scores[key] = score
            self._write({**dataclasses.asdict(key), **dataclasses.asdict(score)})

    def add_from(self, path: Path, keys: Container[Key]) -> int:
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


def read_journal(path: Path, system: Mapping[str, object]) -> list[tuple[Key, Score]]:
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
        scores.append((Key(row["subject"], row["id"]), score))
    return scores
