"""What could not be written says so: each result has room for its last word."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest import MonkeyPatch

from meta_tests.session.scripted_session import ACCURACY, Make
from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.results.run_folder import LAST_WORD, read_summary


@pytest.mark.parametrize("at", ["writing.write_reports", "writing.write_index"])
def test_a_run_not_written_says_so(make: Make, monkeypatch: MonkeyPatch, at: str) -> None:
    session = make(ACCURACY)
    assert session.suite.make(ACCURACY).ok
    result = session.recorder.results[0]
    assert (session.folder / LAST_WORD).stat().st_size == 16 * 1024
    monkeypatch.setattr(f"mlperf_suite.reports.{at}", full_disk)
    with pytest.raises(OSError):
        session.recorder.write(result)
    assert told(session.folder) == ("failed", f"not everything could be written: {FULL}")


FULL = "report.html: No space left on device"


def full_disk(*arguments: object) -> None:
    raise OSError(28, "No space left on device", "report.html")


def told(folder: Path) -> tuple[str, str | None]:
    """A folder's last word, whose room it took."""
    assert not (folder / LAST_WORD).exists()
    summary = read_summary(folder)
    assert summary is not None
    return summary.meta.status, summary.meta.reason


def test_mmlu_that_cannot_be_written_says_so_as_well(make: Make, monkeypatch: MonkeyPatch) -> None:
    session = make(MMLU)
    # What cannot be written first of all keeps the run from being made.
    monkeypatch.setattr("mlperf_suite.reports.writing.markdown_text", full_disk)
    assert session.suite.make(MMLU).failure == f"MMLU: {FULL}"
    status, reason = told(session.recorder.result_of(MMLU).folder.path)
    assert status == "failed" and FULL in (reason or "")
    assert not session.suite.can_go_on
