"""`-p evidence.simulated_meters_plugin`: a session whose energy is SIMULATED, to look at what
reports make of it. Two GPUs draw more while the session goes on, a CPU package wraps around."""

from __future__ import annotations

import math
import time

from mlperf_suite.energy import NVML_LABEL, RAPL_LABEL, Counter, Meters

_BEGAN = time.monotonic()
_RANGE_J = 1500.0
_IDLE_S, _IDLE_W = 5.0, 90.0
_first_read: list[float] = []


def _gpu_joules() -> float:
    """90 W while it is watched idle, then 300 W, and 150 W up and down around it every 8 s."""
    now = time.monotonic()
    if not _first_read:
        _first_read.append(now)
    elapsed = now - _first_read[0]
    busy = max(elapsed - _IDLE_S, 0.0)
    swing = 150 * 8 / (2 * math.pi) * (1 - math.cos(2 * math.pi * busy / 8))
    return 1000 + _IDLE_W * min(elapsed, _IDLE_S) + 300 * busy + swing


def _cpu_joules() -> float:
    return (120 * (time.monotonic() - _BEGAN)) % _RANGE_J


def pytest_mlperf_energy_meters() -> Meters:
    gpus = [
        Counter(f"GPU {index} (SIMULATED)", "GPU", NVML_LABEL, _gpu_joules) for index in range(2)
    ]
    cpu = Counter("CPU package-0 (SIMULATED)", "CPU", RAPL_LABEL, _cpu_joules, range_j=_RANGE_J)
    return Meters((*gpus, cpu), simulated=True)
