"""What every test of submissions may have."""

from pathlib import Path

import pytest

from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.judging.trees import V6_1
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    """A whole closed submission of round v6.1."""
    return write_submission(tmp_path, LLAMA3_1_8B, V6_1)
