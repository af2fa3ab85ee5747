"""A session whose disk fills up, on a small file system of its own: one line, and a last word."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.own_disks import own_disk, skip_without_own_disks
from meta_tests.suite_runs import PYTEST
from mlperf_suite.results.run_folder import RESERVED_FILE, read_summary


@pytest.fixture(scope="module", autouse=True)
def has_own_disks(tmp_path_factory: pytest.TempPathFactory) -> None:
    skip_without_own_disks(tmp_path_factory.mktemp("attempt"))


@pytest.mark.parametrize("mode", ["accuracy", "performance"])
@pytest.mark.parametrize("left_kb", [40, 100])
def test_a_full_disk_ends_in_a_line_and_leaves_a_last_word(
    tmp_path: Path, left_kb: int, mode: str
) -> None:
    result = own_disk(
        tmp_path,
        left_kb,
        *(*PYTEST, "-m", "offline and datacenter", f"--mode={mode}"),
        *("-p", "meta_tests.stand_in_plugin", "--warmup=0", "--offline-target-qps=8.4"),
        *("-p", "no:cacheprovider", "--results-dir", str(tmp_path / "disk" / "results")),
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    (folder,) = (tmp_path / "kept").glob("2*")
    summary = read_summary(folder)
    assert summary is not None, result.stdout
    assert summary.meta.status == "failed"
    assert "No space left on device" in (summary.meta.reason or ""), summary.meta.reason
    lines = [line for line in result.stdout.splitlines() if line.startswith("llama3.1-8b Offline ")]
    assert len(lines) == 1 and lines[0].endswith(": No space left on device"), result.stdout
    assert not (folder / RESERVED_FILE).exists()
