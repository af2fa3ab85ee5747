"""Rules of a log's origin that made-up breaks of a single rule do not show."""

from __future__ import annotations

import pytest

from meta_tests.made_runs import MadeRun
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99_9
from mlperf_suite.rules import judge


@pytest.mark.parametrize("version", ["9.9.9 @ 0123456789", "4.1.2 @ 0123456789", "unreleased", ""])
@pytest.mark.parametrize(
    ("mode", "rules"),
    [
        ("performance", {"loadgen_files", "log_lines"}),
        ("accuracy", {"accuracy_loadgen_files", "accuracy_log_lines"}),
        ("test06", {"test06_log_agrees"}),
    ],
)
def test_a_version_that_is_not_known_fails_in_logs_and_is_not_judged_in_its_session(
    mode: Mode, rules: set[str], version: str
) -> None:
    for submitted, status in ((True, "failed"), (False, "not judged")):
        run = MadeRun(LLAMA2_70B_99_9, LLAMA2_70B_99_9.scenarios[1], mode, submitted=submitted)
        run.entries["loadgen_version"] = version
        run.entries["loadgen_git_log_message"] = version.partition(" @ ")[2]
        broken = {v.rule for v in judge(run.facts()) if v.status == status}
        # An audit's one rule on its log passes where a part of it is not judged.
        assert broken >= (rules if submitted or mode != "test06" else set())
