"""The clock that pytest-benchmark reads."""

from __future__ import annotations


class LoadGenClock:
    """The time that a run took, as pytest-benchmark asks for it: it goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __repr__(self) -> str:
        return "LoadGen's clock"

    def __call__(self) -> float:
        return self.now_s
