"""Sessions on scripted engines, in a folder of the test's own, without what takes their time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meta_tests.reports.undrawn import draw_nothing
from meta_tests.session.scripted_session import (
    Make,
    ScriptedSession,
    scripted_session,
    shared_tokenizer,
)
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import StepKey


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Performance runs of a tenth of a second."""
    runs = {name: Shortened(100, 1, samples=4) for name in ("Offline", "Server", "SingleStream")}
    monkeypatch.setattr("mlperf_suite.session.scenario_runs.SMOKE", runs)
    monkeypatch.setattr("mlperf_suite.session.timing.estimate.SMOKE", runs)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions share a tokenizer, and nothing is drawn."""
    monkeypatch.setattr("mlperf_suite.session.inputs.load_tokenizer", shared_tokenizer)
    draw_nothing(monkeypatch.setattr)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What sessions said."""
    said: list[str] = []
    monkeypatch.setattr(ProgressDisplay, "say", lambda self, line: said.append(line))
    return said


@pytest.fixture
def make(tmp_path: Path, quick: None) -> Iterator[Make]:
    sessions: list[ScriptedSession] = []

    def make_session(*keys: StepKey, **options: Any) -> ScriptedSession:
        sessions.append(scripted_session(tmp_path / "results", *keys, **options))
        return sessions[-1]

    yield make_session
    for session in sessions:
        session.suite.close()
