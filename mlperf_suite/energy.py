"""Energy counters, one per device: those of GPUs through NVML, of CPUs and their memory by RAPL.

RAPL as Linux provides it under powercap (the kernel's Documentation/power/powercap/powercap.rst):
`energy_uj` counts µJ, wraps around to 0 after `max_energy_range_uj`, and since Linux 5.10 only root
may read it (CVE-2020-8694).

A thread reads them a few times a second. It shares nothing with the run except the clock: it takes
no lock of the engine or of LoadGen, and the run goes on if it fails.
"""

from __future__ import annotations

import os
import re
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from mlperf_suite.hardware import (
    GpuMeter,
    GpuMeters,
    are_numbered_by_bus,
    gpus_named,
    open_gpu_meters,
)

CounterQuantity = Literal["energy", "power"]
NVML_LABEL = "GPU energy by NVML, not MLPerf Power"
RAPL_LABEL = "CPU energy by RAPL, not MLPerf Power"
SIMULATED_LABEL = "SIMULATED counters: no measurement of energy"
"""Replaces all labels of simulated counters."""

GPU = "GPU"
_PARTED = "a part of a GPU (MIG), and NVML counts whole ones"
CPU = "CPU"
POWERCAP = Path("/sys/class/powercap")
_ZONE = re.compile(r"intel-rapl:\d+(?::\d+)?")
"""A package (intel-rapl:0) or a part of one (intel-rapl:0:1), also on AMD's CPUs. The zones of
intel-rapl-mmio are the same packages again."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One device's meter. `read` returns the joules since some fixed time or, with `gives` "power",
    the current watts; it may raise any Exception.

    `kind`: the kind of device, in one word for a table (GPU, CPU). `label`: shown beside every
    figure; counters with the same label are summed. `range_j`: the joules at which the counter
    wraps around to 0, None if it never does. `most_watts`: more than the device ever draws;
    `limit_watts`: what its driver lets it draw at most, None if that is not known. `note`:
    why it is read differently from most, in a few words. `uuid`: the device's own, which no other
    has on any machine; "" if there is none.
    """

    name: str
    kind: str
    label: str
    read: Callable[[], float]
    gives: CounterQuantity = "energy"
    range_j: float | None = None
    most_watts: float = 2000.0
    limit_watts: float | None = None
    note: str = ""
    uuid: str = ""


@dataclass(slots=True)
class Series:
    """One counter's readings: `times_s` of time.monotonic, `values` in J or W.

    `failure`: what the counter raised at its last reading; empty if it answered.
    """

    counter: Counter
    times_s: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    failure: str = ""

    def read(self) -> None:
        """Add a reading; if the counter fails, try again next time."""
        start_s = time.monotonic()
        try:
            value = float(self.counter.read())
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            return
        self.failure = ""
        # The middle of the call: a slow counter was read at some time within it.
        self.times_s.append((start_s + time.monotonic()) / 2)
        self.values.append(value)

    def copy(self) -> Series:
        """The readings that are complete by now."""
        whole = min(len(self.times_s), len(self.values))
        return Series(self.counter, self.times_s[:whole], self.values[:whole], self.failure)


@dataclass(frozen=True, slots=True)
class Recording:
    """The readings. `busy_s`: CPU time of the reading thread, in s. `hangs`: whether a counter did
    not answer at the end, so that its thread was left behind."""

    series: tuple[Series, ...]
    busy_s: float = 0.0
    hangs: bool = False


class Reader(Protocol):
    """Reads counters."""

    def start(self) -> None:
        """Begin, and return once each counter was read, or did not answer in time."""

    def stop(self) -> Recording:
        """Read a last time and end; do nothing if it never began. Raises nothing."""


class UnmeasuredError(Exception):
    """The energy of a device is not known; the message says why."""


@dataclass(frozen=True, slots=True)
class UnmeteredDevice:
    """A kind of device that cannot be metered, and why."""

    kind: str
    label: str
    why: str


@dataclass(frozen=True, slots=True)
class Meters:
    """The meters, and the devices without one; call `close` when the run is over.

    `simulated`: whether the counters are simulated, to try the suite with. `note`: a sentence on
    what they measure, empty if that is obvious. `reader`: how to read them; None: a `MeterReader`.
    """

    counters: tuple[Counter, ...] = ()
    absent: tuple[UnmeteredDevice, ...] = ()
    simulated: bool = False
    note: str = ""
    close: Callable[[], None] = lambda: None
    reader: Callable[[], Reader] | None = None


def together(gpus: Meters, cpus: Meters, note: str = "") -> Meters:
    """The meters of a machine's GPUs and CPUs."""
    return Meters(
        (*gpus.counters, *cpus.counters),
        (*gpus.absent, *cpus.absent),
        gpus.simulated or cpus.simulated,
        note,
        gpus.close,
    )


# GPUs


def gpu_counters(
    idle_gpus: int = 0,
    least_gpus: int = 0,
    environment: Mapping[str, str] = os.environ,
    open_meters: Callable[[], GpuMeters] = open_gpu_meters,
) -> Meters:
    """A counter for each GPU of the run. Raises nothing.

    The run has the GPUs that `variables` leave, except the last `idle_gpus`, which the
    engine does not use. If there are fewer than `least_gpus`, it uses other machines as well.

    If one GPU cannot be metered, none is: a sum without it would be too small. The same applies if
    GPU numbers are ambiguous (`are_numbered_by_bus`).
    """
    meters = open_meters()
    try:
        if meters.problem:
            raise UnmeasuredError(meters.problem)
        in_use = _gpus_of_run(meters, idle_gpus, environment)
        counters = [_gpu_counter(gpu, meters.label) for gpu in in_use]
        if (count := len(counters)) < least_gpus:
            raise UnmeasuredError(
                f"the engine has {least_gpus} GPUs, {count} of them on this machine"
            )
    except UnmeasuredError as error:
        meters.close()
        return Meters(absent=(UnmeteredDevice(meters.kind, meters.label, str(error)),))
    return Meters(tuple(counters), close=meters.close)


def _gpus_of_run(
    meters: GpuMeters, idle_gpus: int, environment: Mapping[str, str]
) -> list[GpuMeter]:
    """The GPUs of the run. Raises UnmeasuredError if they are not known."""
    gpus, limits = meters.gpus, [name for name in meters.variables if name in environment]
    if len({environment[name] for name in limits}) > 1:
        raise UnmeasuredError(f"{' and '.join(limits)} name different GPUs")
    variable = (*limits, "")[0]
    visible = environment.get(variable)
    names = None if visible is None else [name.strip() for name in visible.split(",")]
    if names and any(name.startswith("MIG-") for name in names):
        raise UnmeasuredError(f"{variable} names {_PARTED}")
    visible_gpus = list(gpus) if names is None else gpus_named(gpus, names)
    if names is not None and len(visible_gpus) < len(list(filter(None, names))):
        raise UnmeasuredError(f"{variable}={visible} names a GPU that the driver does not list")
    in_use = visible_gpus[: max(len(visible_gpus) - idle_gpus, 0)]
    by_number = names is None or any(name.isdecimal() for name in names)
    if not in_use:
        raise UnmeasuredError("the run has no GPU")
    if any(gpu.parted for gpu in in_use):
        raise UnmeasuredError(f"the run has {_PARTED}")
    if meters.unnumbered and len(in_use) < len(gpus):
        raise UnmeasuredError(meters.unnumbered)
    if by_number and len(in_use) < len(gpus) and not are_numbered_by_bus(gpus, environment):
        raise UnmeasuredError(
            "of several kinds of GPU, which one is number 0 is not known: "
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    return in_use


def _gpu_counter(gpu: GpuMeter, label: str) -> Counter:
    """The GPU's energy counter, else its power draw. Raises UnmeasuredError if it has neither."""
    name, limit = f"GPU {gpu.index} {gpu.name}", None
    with suppress(Exception):
        limit = gpu.limit_mw() / 1e3
    counter = Counter(
        name, GPU, label, lambda: gpu.energy_mj() / 1e3, limit_watts=limit, uuid=gpu.uuid
    )
    try:
        gpu.energy_mj()
        return counter
    except Exception as error:
        no_counter = str(error)
    try:
        gpu.power_mw()
    except Exception as error:
        raise UnmeasuredError(
            f"{name}: neither an energy counter ({no_counter}) nor a power draw ({error})"
        ) from error
    note = f"{name} by its power draw, summed up: it has no energy counter ({no_counter})"
    return replace(counter, read=lambda: gpu.power_mw() / 1e3, gives="power", note=note)


# CPUs


def cpu_counters(root: Path = POWERCAP) -> Meters:
    """A counter for each package, and for each package's memory (dram) if it is counted apart.

    Their sum counts nothing twice: core and uncore are parts of their package, and psys covers the
    whole platform. Raises nothing; if one counter cannot be read, none is returned.
    """
    try:
        return Meters(tuple(_cpu_counters(root)))
    except UnmeasuredError as error:
        return Meters(absent=(UnmeteredDevice(CPU, RAPL_LABEL, str(error)),))


def _cpu_counters(root: Path) -> list[Counter]:
    if not root.is_dir():
        raise UnmeasuredError(f"this machine has no {root} (RAPL)")
    try:
        zones = sorted(path for path in root.iterdir() if _ZONE.fullmatch(path.name))
    except OSError as error:
        raise UnmeasuredError(f"{root}: {error.strerror}") from error
    counters = []
    for zone in zones:
        try:
            name = (zone / "name").read_text().strip()
            if not (name.startswith("package") or name == "dram"):
                continue
            range_j = int((zone / "max_energy_range_uj").read_text()) / 1e6
            _joules(zone / "energy_uj")
        except PermissionError as error:
            raise UnmeasuredError(f"{error.filename} is not this user's to read") from error
        except (OSError, ValueError) as error:
            raise UnmeasuredError(f"{zone}: {error}") from error
        part = name if name.startswith("package") else f"{name} of {zone.name.rpartition(':')[0]}"
        read = partial(_joules, zone / "energy_uj")
        counters.append(Counter(f"CPU {part}", CPU, RAPL_LABEL, read, range_j=range_j))
    if not counters:
        raise UnmeasuredError(f"no package in {root}")
    return counters


def _joules(energy_uj: Path) -> float:
    return int(energy_uj.read_text()) / 1e6


INTERVAL_S = 0.25
"""Time between readings: NVML updates its counter about ten times a second, RAPL a thousand."""
STOP_S = 2.0
"""How long to wait for a counter at the end; a driver in trouble may never answer."""


class MeterReader:
    """Reads each counter every `interval_s` from `start` to `stop`, and once at each of them."""

    def __init__(self, counters: Sequence[Counter], interval_s: float = INTERVAL_S) -> None:
        self._series = tuple(map(Series, counters))
        self._interval_s = interval_s
        self._begun, self._ended = threading.Event(), threading.Event()
        self._busy_s = 0.0
        self._thread = threading.Thread(target=self._read_on, name="energy", daemon=True)

    def start(self) -> None:
        """Return once each counter was read, or did not answer in time."""
        self._thread.start()
        self._begun.wait(STOP_S)

    def stop(self) -> Recording:
        """Read a last time and end; do nothing if the thread never started. Returns whatever the
        counters do."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        hangs = self._thread.is_alive()
        # If the thread goes on, only what it has read by now.
        return Recording(tuple(map(Series.copy, self._series)), self._busy_s, hangs)

    def _read_on(self) -> None:
        self._read_each()
        self._begun.set()
        while not self._ended.wait(self._interval_s):
            self._read_each()
        self._read_each()

    def _read_each(self) -> None:
        for series in self._series:
            series.read()
        self._busy_s = time.thread_time()
