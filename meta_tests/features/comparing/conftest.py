"""Comparisons as the command makes them, but undrawn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_tests.reports.undrawn import draw_nothing
from mlperf_suite.__main__ import main
from mlperf_suite.features.comparing import comparison
from mlperf_suite.reports.sections import save_figure


@pytest.fixture
def compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Compare runs: the exit status, what was printed, and the page."""
    draw_nothing(monkeypatch.setattr)
    monkeypatch.setattr(comparison, "plot_comparison", lambda _, path: save_figure(None, path))

    def run(*words: object) -> tuple[int, str, str]:
        page, plot = tmp_path / "page.html", tmp_path / "plot.png"
        plot.unlink(missing_ok=True)
        options = ("--plot", str(plot), "--html", str(page))
        status = main(["compare", *map(str, words), *options])
        printed = capsys.readouterr()
        text = page.read_text() if page.is_file() else ""
        assert plot.is_file() == (status < 2)
        return status, printed.out + printed.err, text

    return run
