"""The suite's own hook: which engine is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.session.engine_source import EngineRequest
    from mlperf_suite.session.inputs import Inputs


@pytest.hookspec(firstresult=True)
def pytest_mlperf_load_engine(inputs: Inputs, request: EngineRequest) -> Engine | None:
    """Return a loaded engine; the first plugin that returns one wins.

    `inputs`: settings, benchmarks, samples and prompts of the session. `request`: what the engine
    is for (runs or scoring) and the file for its output.
    """
