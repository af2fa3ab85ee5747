"""Trees of whisper, of whose cut logs the ends say nothing about the lengths of answers."""

import re
from pathlib import Path

from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.judging.trees import V6_1, failures_by_run
from mlperf_suite.features.multimodal.whisper import WHISPER
from mlperf_suite.loadgen.logs import ACCURACY


def test_the_ends_of_a_cut_log_may_be_the_shortest_answers(tmp_path: Path) -> None:
    """Of a system that sorts whisper's clips by their length."""
    submission = write_submission(tmp_path, WHISPER, V6_1)
    (log,) = submission.glob(f"results/*/*/*/accuracy/{ACCURACY}")
    text, counts = re.subn(r'("token_count" : )\d+', r"\g<1>1", log.read_text())
    assert counts
    log.write_text(text)
    assert failures_by_run(tmp_path) == {}
