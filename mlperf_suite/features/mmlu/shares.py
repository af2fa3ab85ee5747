"""MMLU on several engines, one for each worker of a session.

The workers share a folder. Each share has a journal there, and a file that says that it is done, or
why it failed; the first share's worker waits for the others and merges.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mlperf_suite.engines.protocol import parallel_sets
from mlperf_suite.errors import RunError
from mlperf_suite.hardware import describe_system, visible_variable
from mlperf_suite.settings import Settings

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
            os.environ[visible_variable()] = ",".join(gpus)


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
    """The accelerators that this process may use, named as in their variable."""
    visible = os.environ.get(visible_variable())
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
