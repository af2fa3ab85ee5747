"""Receives the progress of a session."""

from __future__ import annotations

from collections.abc import Callable

from mlperf_suite.loadgen.runner import Progress


class ProgressDisplay:
    """Shows nothing; a subclass shows the user the progress."""

    def follow(self, left_s: Callable[[], float | None]) -> None:
        """Ask `left_s` at any time how many seconds of the session are left, None if unknown."""

    def step(self, name: str) -> None:
        """Called before a long step."""

    def begin(self, name: str, total: int | None = None) -> None:
        """Something begins, with `total` samples ahead if known."""

    def progress(self, progress: Progress) -> None:
        """Report the progress of the run that began."""

    def requests(self, completed: int, total: int, failed: int) -> None:
        """Report the progress of a client that counts requests alone; `total` is 0 if unknown."""

    def items(self, completed: int, total: int, last: str) -> None:
        """Report how many of what began are done, and the last of them in a word."""

    def idle(self) -> None:
        """What began is over."""

    def say(self, line: str) -> None:
        """Show a line that stays."""
