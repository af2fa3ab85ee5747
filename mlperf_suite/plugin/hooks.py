"""The suite's own hooks: which engine is measured, and how many can be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.session.engines import EngineRequest
    from mlperf_suite.session.inputs import Inputs
    from mlperf_suite.settings import Settings


@pytest.hookspec(firstresult=True)
def pytest_mlperf_load_engine(inputs: Inputs, request: EngineRequest) -> Engine | None:
    """Return a loaded engine; the first plugin that returns one wins.

    `inputs`: settings, benchmarks, samples and prompts of the session. `request`: what the engine
    is for (runs or scoring MMLU) and the file for its output.
    """


@pytest.hookspec(firstresult=True)
def pytest_mlperf_engine_count(settings: Settings) -> int | None:
    """Return how many engines can be loaded at once, to share MMLU among pytest-xdist's workers."""
