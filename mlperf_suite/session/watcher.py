"""Who is told how far a session is."""

from __future__ import annotations

from typing import Protocol

from mlperf_suite.loadgen.runner import Progress


class Watcher(Protocol):
    """Shows a person what is going on."""

    def begin(self, name: str, total: int | None = None) -> None:
        """Something begins; `total` samples are ahead where that is known."""

    def progress(self, progress: Progress) -> None:
        """How far the run that began is."""

    def idle(self) -> None:
        """What began is over."""

    def say(self, line: str) -> None:
        """Show a line that stays."""


class Silent:
    """Shows nobody anything."""

    def begin(self, name: str, total: int | None = None) -> None:
        """Nothing to show."""

    def progress(self, progress: Progress) -> None:
        """Nothing to show."""

    def idle(self) -> None:
        """Nothing to show."""

    def say(self, line: str) -> None:
        """Nothing to show."""
