"""Files of a system's power supplies, as the official checker takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.from_elsewhere import INFERENCE, needs_inference
from evidence.verdicts import official_verdict
from meta_tests.features.submission_check.made_power import write_session
from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.features.submission_check.nameplates import WITH_POWER, WITHOUT_POWER, nameplate
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS

V6_1 = ROUNDS["v6.1"]


@needs_inference
@pytest.mark.parametrize("power", [False, True])
def test_the_official_checker_says_the_same(power: bool, tmp_path: Path) -> None:
    submission = write_submission(tmp_path, LLAMA3_1_8B, V6_1)
    if power:
        performance = submission / "results/box/llama3.1-8b/Server/performance"
        write_session(performance, performance / "run_1")
    for name, (text, right) in (WITH_POWER if power else WITHOUT_POWER).items():
        nameplate(tmp_path).write_text(text)
        assert (official_verdict(tmp_path, INFERENCE, V6_1) == "passes") == right, name
