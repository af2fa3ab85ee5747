"""Nsight Systems, by a stand-in of its command that notes what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_tests.features.profiling.nsys_stand_in import put_nsys
from mlperf_suite.errors import RunError, UsageError
from mlperf_suite.features.profiling import nsight


def test_without_nsys_or_its_session_the_error_says_how_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError, match=r"not on the PATH.*nsys launch"):
            nsight.check()
    put_nsys(tmp_path, monkeypatch, session="somebody-elses")
    with pytest.raises(UsageError, match=r"no Nsight Systems session mlperf-suite.*nsys launch"):
        nsight.check()
    put_nsys(tmp_path, monkeypatch)
    nsight.check()


def test_an_nsys_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_nsys(tmp_path, monkeypatch, status=3)
    with pytest.raises(RunError, match="nsys stop --session=mlperf-suite: "):
        nsight.end()
    with pytest.raises(UsageError, match="does not work: nsys sessions list: "):
        nsight.check()
