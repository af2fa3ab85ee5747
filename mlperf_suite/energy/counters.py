"""What tells of energy: one counter for each device, whatever it is read with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Gives = Literal["energy", "power"]
NVML_LABEL = "GPU energy by NVML, not MLPerf Power"
RAPL_LABEL = "CPU energy by RAPL, not MLPerf Power"
SIMULATED_LABEL = "SIMULATED counters: no measurement of energy"
"""Stands in the place of a label, wherever one would stand."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One device's meter. `read` gives joules since some time, or with `gives` "power" the watts
    of now; it may raise any Exception.

    `kind`: what is metered, in a word for a table (GPU, CPU). `label`: what stands beside every
    figure made of it; counters of one label are summed. `range_j`: the joules at which it begins
    again from 0, None where it never does. `most_watts`: more than the device ever draws. `note`:
    why it is read in another way than most, a few words.
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
    """All that can be metered, and what cannot; `close` when the run is over.

    `simulated`: the counters are made up, to try the suite with. `note`: what they are of, a
    sentence; empty where that is plain.
    """

    counters: tuple[Counter, ...] = ()
    absent: tuple[Absent, ...] = ()
    simulated: bool = False
    note: str = ""
    close: Callable[[], None] = lambda: None
