"""Writes to pytest's own terminal: a run's progress on one line, and a console for tables.

Imported late, so that collection stays instant.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TextIO

import pytest
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from mlperf_suite.loadgen.runner import Progress
from mlperf_suite.session.plan import duration_words
from mlperf_suite.session.progress_display import ProgressDisplay


def terminal_stream(terminal_writer: Any) -> TextIO:
    """The terminal's stream, to get between tests and use during them.

    While a test runs, pytest redirects the file descriptor of its terminal writer to a file of
    captured output; a copy of the descriptor still leads to the terminal.
    """
    file: TextIO = terminal_writer._file
    try:
        copy = os.dup(file.fileno())
    except (AttributeError, OSError):
        # In-process pytest, as under pytester, writes to a separate file.
        return file
    return os.fdopen(copy, "w", encoding=file.encoding, errors="replace", buffering=1)


def terminal_console(config: pytest.Config) -> Console:
    """pytest's terminal between tests, at most 110 columns wide."""
    writer = config.get_terminal_writer()
    return Console(
        file=writer._file,
        width=min(writer.fullwidth, 110),
        force_terminal=writer.hasmarkup,
        highlight=False,
    )


class _SessionLeft(ProgressColumn):
    """What is left of the session, or, while that is unknown, how long its step has taken."""

    def __init__(self, left_s: Callable[[], float | None]) -> None:
        self._left_s = left_s
        super().__init__()

    def render(self, task: Task) -> Text:
        left_s = self._left_s()
        return Text(
            duration_words(task.elapsed or 0.0)
            if left_s is None
            else f"{duration_words(left_s)} left"
        )


class TerminalDisplay(ProgressDisplay):
    """Shows progress on pytest's own terminal, bypassing its capturing."""

    def __init__(self, terminal_writer: Any) -> None:
        self._file = terminal_stream(terminal_writer)
        self._shown = self._file.isatty()
        self._bar: Bar | None = None
        self._left_s: Callable[[], float | None] = lambda: None

    def follow(self, left_s: Callable[[], float | None]) -> None:
        self._left_s = left_s

    def begin(self, name: str, total: int | None = None) -> None:
        self.idle()
        if not self._shown:
            return
        self._file.write("\n")
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("{task.fields[text]}"),
            _SessionLeft(self._left_s),
            console=Console(file=self._file, force_terminal=True),
            transient=True,
            # Leave other output for pytest to capture: vLLM prints warnings while it loads.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bar.add_task(name, total=total, text="")
        self._bar.start()

    def progress(self, progress: Progress) -> None:
        if self._bar is None:
            return
        (task,) = self._bar.tasks
        # Offline issues all samples at once; in other scenarios the total is not known.
        total = task.total if task.total is not None else progress.samples_issued
        rate = progress.tokens / progress.elapsed_s if progress.elapsed_s else 0.0
        text = f"{progress.samples_done}/{total} samples, {rate:.0f} tok/s"
        self._bar.update(task.id, completed=progress.samples_done, total=total, text=text)

    def requests(self, completed: int, total: int, failed: int) -> None:
        if self._bar is None:
            return
        (task,) = self._bar.tasks
        text = f"{completed:,}{f'/{total:,}' if total else ''} requests"
        text += f", {failed:,} failed" if failed else ""
        self._bar.update(task.id, completed=completed, total=total or None, text=text)

    def step(self, name: str) -> None:
        left_s = self._left_s()
        if not self._shown and left_s is not None:
            self.say(f"{name}: about {duration_words(left_s)} of the session left")

    def items(self, completed: int, total: int, last: str) -> None:
        if self._bar is None:
            return
        (task,) = self._bar.tasks
        text = f"{completed}/{total} {last}"
        self._bar.update(task.id, completed=completed, total=total, text=text)

    def say(self, line: str) -> None:
        """Show a line that stays, even if the output is not a terminal: a search takes minutes."""
        self.idle()
        self._file.write(f"\n{line}\n")
        self._file.flush()

    def idle(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
