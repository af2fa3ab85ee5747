"""Sessions on scripted engines, in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_tests.session.scripted_session import Make, ScriptedSession, scripted_session
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.session.plan import StepKey


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Performance runs of a tenth of a second."""
    runs = {name: Shortened(100, 1) for name in ("Offline", "Server")}
    monkeypatch.setattr("mlperf_suite.session.scenario_runs.SMOKE", runs)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    sessions: list[ScriptedSession] = []

    def make_session(*keys: StepKey, **options: Any) -> ScriptedSession:
        sessions.append(scripted_session(tmp_path / "results", *keys, **options))
        return sessions[-1]

    yield make_session
    for session in sessions:
        session.suite.close()
