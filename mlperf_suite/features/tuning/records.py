"""The lines of a tuning's folder: each run that was made, so that an interrupted tuning goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlperf_suite.features.tuning.probing import Work
from mlperf_suite.features.tuning.space import Trial
from mlperf_suite.features.tuning.trial_run import Measured

_KNOWN = ("seconds", "samples", "costs", "work", "probe")
_OF_TRIAL = tuple(Trial.__dataclass_fields__)


class Records:
    """A file of JSON lines. A line that a full disk or a crash cut off is passed over."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, run: Measured, **more: object) -> None:
        """Append a run. Raises OSError if that is not possible."""
        row = {**asdict(run.trial), **asdict(run), **more}
        del row["trial"]
        text = json.dumps(row) + "\n"
        with self._file.open("a+b") as file:
            if file.tell():
                file.seek(-1, 2)
                text = text if file.read() == b"\n" else f"\n{text}"
            file.write(text.encode())

    def __iter__(self) -> Iterator[tuple[Measured, dict[str, Any]]]:
        """The runs in order, each with what was added to it."""
        lines = self._file.read_text(errors="replace").splitlines() if self._file.is_file() else ()
        for line in lines:
            try:
                row = json.loads(line)
                trial = Trial(**{name: row.pop(name) for name in _OF_TRIAL if name in row})
                known = {n: row.pop(n) for n in _KNOWN if n in row}
                if known.get("work"):
                    known["work"] = Work(**known["work"])
                yield Measured(trial, row.pop("folder", ""), **known), row
            except (ValueError, TypeError, AttributeError):
                continue
