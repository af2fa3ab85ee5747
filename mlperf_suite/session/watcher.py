"""Receives the progress of a session."""

from __future__ import annotations

from mlperf_suite.loadgen.runner import Progress


class Watcher:
    """Shows nothing; a subclass shows the user what is going on."""

    def begin(self, name: str, total: int | None = None) -> None:
        """Something begins, with `total` samples ahead if known."""

    def progress(self, progress: Progress) -> None:
        """Report the progress of the run that began."""

    def idle(self) -> None:
        """What began is over."""

    def say(self, line: str) -> None:
        """Show a line that stays."""
