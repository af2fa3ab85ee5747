"""Energy counters: one per device, however it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Gives = Literal["energy", "power"]
NVML_LABEL = "GPU energy by NVML, not MLPerf Power"
RAPL_LABEL = "CPU energy by RAPL, not MLPerf Power"
SIMULATED_LABEL = "SIMULATED counters: no measurement of energy"
"""Replaces all labels of simulated counters."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One device's meter. `read` returns the joules since some fixed time or, with `gives` "power",
    the current watts; it may raise any Exception.

    `kind`: the kind of device, in one word for a table (GPU, CPU). `label`: shown beside every
    figure; counters with the same label are summed. `range_j`: the joules at which the counter
    wraps around to 0, None if it never does. `most_watts`: more than the device ever draws. `note`:
    why it is read differently from most, in a few words.
    """

    name: str
    kind: str
    label: str
    read: Callable[[], float]
    gives: Gives = "energy"
    range_j: float | None = None
    most_watts: float = 2000.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """A kind of device that cannot be metered, and why."""

    kind: str
    label: str
    why: str


@dataclass(frozen=True, slots=True)
class Meters:
    """What can be metered, and what cannot; call `close` when the run is over.

    `simulated`: whether the counters are simulated, to try the suite with. `note`: a sentence on
    what they measure, empty if that is obvious.
    """

    counters: tuple[Counter, ...] = ()
    absent: tuple[Absent, ...] = ()
    simulated: bool = False
    note: str = ""
    close: Callable[[], None] = lambda: None
