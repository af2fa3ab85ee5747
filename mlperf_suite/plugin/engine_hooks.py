"""The suite's own hooks: which engine a session measures, and how many there can be."""

from __future__ import annotations

import pytest

from mlperf_suite.engines.protocol import Engine
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
