"""The clock that pytest-benchmark reads."""

from __future__ import annotations


class LoadGenClock:
    """A clock for pytest-benchmark that only advances by the durations of runs."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __repr__(self) -> str:
        return "LoadGen's clock"

    def __call__(self) -> float:
        return self.now_s
