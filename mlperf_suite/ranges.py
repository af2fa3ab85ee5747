"""Named ranges (NVTX) on the timeline of a profiler that watches this process.

They are off until `turn_on` is called: without it nothing is imported, entering a range does
nothing, and LoadGen's callbacks are not wrapped.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from mlperf_suite.errors import UsageError

DOMAIN = "mlperf_suite"
"""The name under which a profiler shows the suite's own ranges."""
_nvtx: Any = None


def turn_on() -> None:
    """Draw ranges from now on. Raises UsageError if the package nvtx is not installed."""
    global _nvtx
    try:
        import nvtx
    except ImportError as error:
        raise UsageError(
            "--profile-run cuda: the package nvtx, which names the suite's own steps, is not "
            "installed: run '.venv/bin/python -m pip install nvtx'"
        ) from error
    _nvtx = nvtx


def turn_off() -> None:
    """Draw no more ranges."""
    global _nvtx
    _nvtx = None


def are_on() -> bool:
    return _nvtx is not None


def named(name: str) -> AbstractContextManager[None]:
    """A range around a part of the suite's own work."""
    return contextlib.nullcontext() if _nvtx is None else _range(name)


@contextlib.contextmanager
def _range(name: str) -> Iterator[None]:
    phase = Phases()
    phase.begin(name)
    try:
        yield
    finally:
        phase.end()


class Phases:
    """Consecutive ranges, which may begin on one thread and end on another.

    LoadGen calls its callbacks (load samples, issue, flush) on its own threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._name = ""
        self._open: Any = None

    def begin(self, name: str) -> None:
        """End the current range and begin this one; do nothing if it is the current one."""
        # Checked without the lock first, as this is called for each query.
        if name == self._name:
            return
        with self._lock:
            self._end()
            if _nvtx is not None:
                self._name = name
                self._open = _nvtx.start_range(message=name, domain=DOMAIN)

    def end(self) -> None:
        """End the current range, if there is one."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._open is not None and _nvtx is not None:
            _nvtx.end_range(self._open)
        self._open, self._name = None, ""

    def around(self, name: str, callback: Callable[..., None]) -> Callable[..., None]:
        """Wrap a callback so that calling it begins the phase of this name."""

        def call(*arguments: Any) -> None:
            self.begin(name)
            callback(*arguments)

        return call
