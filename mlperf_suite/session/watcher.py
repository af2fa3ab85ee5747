"""Receives the progress of a session."""

from __future__ import annotations

from typing import Protocol

from mlperf_suite.loadgen.runner import Progress


class Watcher(Protocol):
    """Shows the user what is going on."""

    def begin(self, name: str, total: int | None = None) -> None:
        """Something begins, with `total` samples ahead if known."""

    def progress(self, progress: Progress) -> None:
        """Report the progress of the run that began."""

    def idle(self) -> None:
        """What began is over."""

    def say(self, line: str) -> None:
        """Show a line that stays."""


class Silent:
    """Shows nothing."""

    def begin(self, name: str, total: int | None = None) -> None:
        """Nothing to show."""

    def progress(self, progress: Progress) -> None:
        """Nothing to show."""

    def idle(self) -> None:
        """Nothing to show."""

    def say(self, line: str) -> None:
        """Nothing to show."""
