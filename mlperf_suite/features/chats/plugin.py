"""The fixtures `replay_run` and `function_calls_run`: both parts of a benchmark of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlperf_suite.plugin.cases import RUNS_OF_FIXTURES, RunsOfFixture
from mlperf_suite.plugin.outcomes import SessionRun

if TYPE_CHECKING:
    from mlperf_suite.session.executor import Session

RUNS_OF_FIXTURES["replay_run"] = RunsOfFixture(("performance",), ("SingleStream",))
RUNS_OF_FIXTURES["function_calls_run"] = RunsOfFixture(("accuracy",), ("SingleStream",))


@pytest.fixture(scope="session")
def replay_run(request: pytest.FixtureRequest, suite: Session) -> SessionRun:
    """Recorded conversations: one turn after another, with the recorded history."""
    return SessionRun(request.config, request.param.key)


@pytest.fixture(scope="session")
def function_calls_run(request: pytest.FixtureRequest, suite: Session) -> SessionRun:
    """Every question of function calling asked once, and the calls checked."""
    return SessionRun(request.config, request.param.key)
