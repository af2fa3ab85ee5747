"""The suite's own hooks: which engine a session measures, and how many there can be."""

from __future__ import annotations

import pytest

from mlperf_suite.engines.protocol import Engine
from mlperf_suite.session.executor import Session
from mlperf_suite.settings import Settings


@pytest.hookspec(firstresult=True)
def pytest_mlperf_load_engine(suite: Session) -> Engine | None:
    """Return the loaded engine that the session measures; the first plugin that has one wins."""


@pytest.hookspec(firstresult=True)
def pytest_mlperf_engine_count(settings: Settings) -> int | None:
    """Return how many engines can be loaded at once; pytest-xdist's workers share MMLU by it."""
