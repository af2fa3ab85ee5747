"""The judges of files under a folder of --logs, besides loose LoadGen logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.feature import features
from mlperf_suite.judging.verdict_group import VerdictGroup

Folders = Sequence[tuple[Path, list[str]]]
"""The folder itself and the visible folders below it, parents first, with the names in each
that are not folders."""


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """What the user asks; see `judge_folder`. `own`: the folders that judges have found."""

    round: Round | None
    high_accuracy: bool
    smoke: bool
    tokenizer: Path | None
    own: frozenset[Path]

    def is_loose(self, folder: Path) -> bool:
        """Whether no judge has found it or a folder above it."""
        return self.own.isdisjoint({folder, *folder.parents})


@dataclass(frozen=True, slots=True)
class FoundResults:
    """What a judge has found. `own`: the folders in which no log is loose."""

    own: frozenset[Path]
    verdicts: Callable[[JudgeRequest], list[VerdictGroup]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judges what it finds under a folder. `rank`: its place in the order of verdicts.

    `find` takes the folder's absolute path and its folders. `files`: names of files, besides
    LoadGen's, that make a folder one to judge.
    """

    rank: int
    find: Callable[[Path, Folders], FoundResults]
    files: frozenset[str] = frozenset()


@cache
def judges() -> tuple[Judge, ...]:
    """Every judge, in the order of their verdicts."""
    modules = [feature.judge for feature in features() if feature.judge]
    found: list[Judge] = [import_module(name).JUDGE for name in modules]
    return tuple(sorted(found, key=lambda judge: judge.rank))


def folders_below(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """The folder and the visible folders below it; see `Folders`.

    os.walk calls itself for each level, and ends at the thousandth.
    """
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=attrgetter("name"))
        except OSError:
            continue
        inside, names = list[str](), list[str]()
        for entry in entries:
            (inside if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
        yield folder, names
        waiting += [folder / name for name in reversed(inside) if not name.startswith(".")]
