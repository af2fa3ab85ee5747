"""The suite's own hooks: which engine a session measures, how many there can be, what meters it."""

from __future__ import annotations

import pytest

from mlperf_suite.energy.counters import Meters
from mlperf_suite.engines.protocol import Engine, EngineDescription
from mlperf_suite.session.engines import EngineRequest
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import Settings


@pytest.hookspec(firstresult=True)
def pytest_mlperf_load_engine(inputs: Inputs, request: EngineRequest) -> Engine | None:
    """Return a loaded engine; the first plugin that has one wins.

    `inputs`: settings, benchmarks, samples and prompts of the session. `request`: what the engine
    is for (runs, or scoring MMLU), and the file that takes its output.
    """


@pytest.hookspec(firstresult=True)
def pytest_mlperf_engine_count(settings: Settings) -> int | None:
    """Return how many engines can be loaded at once; pytest-xdist's workers share MMLU by it."""


@pytest.hookspec(firstresult=True)
def pytest_mlperf_energy_meters(
    settings: Settings, description: EngineDescription
) -> Meters | None:
    """Return what tells of the energy of a run on this engine; the first plugin that has some wins.

    Counters that are made up must say so (`simulated`), and every figure of theirs then does.
    """
