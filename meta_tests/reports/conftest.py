"""Fixtures of the tests of reports."""

from pathlib import Path

import pytest

from meta_tests.reports.kept_run import write_kept
from meta_tests.reports.undrawn import draw_nothing


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch.setattr)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder as the suite left it, with a timeline."""
    return write_kept(tmp_path / "20261120-065625-llama3.1-8b-server")
