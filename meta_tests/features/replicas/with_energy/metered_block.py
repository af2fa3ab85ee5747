"""The energy of a block of a session, by the meters of replicas."""

import time
from collections.abc import Callable
from pathlib import Path

from mlperf_suite.energy import Meters
from mlperf_suite.features.energy.energy_figures import EnergyFigures
from mlperf_suite.features.energy.session import Energy
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.loadgen.runner import LoadRun
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.settings import resolve_settings


def energy_of(
    folder: Path, find: Callable[[], Meters], end: Callable[[], object] = lambda: None
) -> EnergyFigures:
    """The energy of a block that takes a moment; `end` is called in it."""
    energy = Energy(resolve_settings({}, {}), ProgressDisplay(), lambda *_: find())
    energy.loaded(None)  # type: ignore[arg-type]
    with energy.read():
        began = time.monotonic()
        time.sleep(0.01)
        ended = time.monotonic()
        end()
    run = LoadRun(read_logs(Path("nowhere")), 1.0, 4, 12, None, (began, ended))
    figures = energy.run_energy(run, folder)
    energy.close()
    assert figures is not None
    return figures
