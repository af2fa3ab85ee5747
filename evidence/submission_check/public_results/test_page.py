"""The page of public results: what is counted, and the line that shows what failed."""

from __future__ import annotations

from pathlib import Path

from evidence.submission_check.public_results.__main__ import language_results, page
from meta_tests.features.submission_check.made_submissions import write_submission
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS


def test_a_failed_verdict_is_shown_by_its_file_and_line(tmp_path: Path) -> None:
    submission = write_submission(tmp_path, LLAMA3_1_8B, ROUNDS["v5.1"])
    (empty,) = submission.glob("compliance/*/*/Offline/TEST06/accuracy/*.json")
    empty.write_text("\n[\n]\n")
    (detail,) = submission.glob("results/*/*/Server/accuracy/mlperf_log_detail.txt")
    detail.write_text(detail.read_text().replace("AccuracyOnly", "PerformanceOnly"))
    text = page(tmp_path, language_results(tmp_path), "`abc`")
    assert "| results without a failed verdict | 1 |" in text
    rows = [line for line in text.splitlines() if line.startswith("| `closed/")]
    offline = next(row for row in rows if "/Offline/" in row)
    assert offline.startswith(f"| `{empty.relative_to(tmp_path)}:3` | `]` | ")
    assert "`test06_sample_count`" in offline
    server = next(row for row in rows if "`accuracy_test_mode`" in row)
    at = next(
        n
        for n, line in enumerate(detail.read_text().splitlines(), 1)
        if '"effective_test_mode"' in line
    )
    assert f"`{detail.relative_to(tmp_path)}:{at}`" in server
    assert "PerformanceOnly" in server


def test_a_tree_without_failures_says_so(tmp_path: Path) -> None:
    write_submission(tmp_path, LLAMA3_1_8B, ROUNDS["v5.1"], scenarios=("Offline",))
    text = page(tmp_path, language_results(tmp_path), "`abc`")
    assert "| results without a failed verdict | 1 |" in text
    assert "| failed | 0 |" in text
