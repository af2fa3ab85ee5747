"""The command `track` beside a submission's tree."""

from pathlib import Path
from typing import Any

from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.judging.trees import V6_1
from mlperf_suite.__main__ import main
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B


def test_runs_of_a_submission_are_not_sent_which_one_line_says(tmp_path: Path, capsys: Any) -> None:
    write_submission(tmp_path / "tree", LLAMA3_1_8B, V6_1)
    assert (
        main(
            [
                "track",
                f"{tmp_path}/tree",
                f"--track=meta_tests.features.tracking.folder_tracker:{tmp_path}/tracker",
            ]
        )
        == 2
    )
    said, total = capsys.readouterr().out.splitlines()
    assert "/performance/run_1, " in said and "`track` the results that the tree was built" in said
    assert total.startswith("track: 0 of ") and not (tmp_path / "tracker").exists()
