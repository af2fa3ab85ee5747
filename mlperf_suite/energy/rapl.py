"""The energy counters of CPUs and their memory: RAPL, as Linux provides it under powercap.

Source: the kernel's Documentation/power/powercap/powercap.rst. `energy_uj` counts µJ, wraps around
to 0 after `max_energy_range_uj`, and since Linux 5.10 only root may read it (CVE-2020-8694).
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from mlperf_suite.energy.counters import RAPL_LABEL, Absent, Counter, Meters

CPU = "CPU"
POWERCAP = Path("/sys/class/powercap")
_ZONE = re.compile(r"intel-rapl:\d+(?::\d+)?")
"""A package (intel-rapl:0) or a part of one (intel-rapl:0:1), also on AMD's CPUs. The zones of
intel-rapl-mmio are the same packages again."""


def cpu_counters(root: Path = POWERCAP) -> Meters:
    """A counter for each package, and for each package's memory (dram) if it is counted apart.

    Their sum counts nothing twice: core and uncore are parts of their package, and psys covers the
    whole platform. Raises nothing; if one counter cannot be read, none is returned.
    """
    if not root.is_dir():
        return _absent(f"this machine has no {root} (RAPL)")
    try:
        zones = sorted(path for path in root.iterdir() if _ZONE.fullmatch(path.name))
    except OSError as error:
        return _absent(f"{root}: {error.strerror}")
    counters = []
    for zone in zones:
        try:
            name = (zone / "name").read_text().strip()
            if not (name.startswith("package") or name == "dram"):
                continue
            range_j = int((zone / "max_energy_range_uj").read_text()) / 1e6
            _joules(zone / "energy_uj")
        except PermissionError as error:
            return _absent(f"{error.filename} is not this user's to read")
        except (OSError, ValueError) as error:
            return _absent(f"{zone}: {error}")
        said = name if name.startswith("package") else f"{name} of {zone.name.rpartition(':')[0]}"
        read = partial(_joules, zone / "energy_uj")
        counters.append(Counter(f"CPU {said}", CPU, RAPL_LABEL, read, range_j=range_j))
    return Meters(tuple(counters)) if counters else _absent(f"no package in {root}")


def _joules(energy_uj: Path) -> float:
    return int(energy_uj.read_text()) / 1e6


def _absent(why: str) -> Meters:
    return Meters(absent=(Absent(CPU, RAPL_LABEL, why),))
