"""Each further break of the official client's results is seen by its rules alone."""

from pathlib import Path

import pytest

from evidence.endpoints.more_client_breaks import BREAKS
from meta_tests.features.endpoints.client_breaks import WITH_EVENTS, Break
from meta_tests.features.endpoints.made_official_client import write_client_submission
from meta_tests.tampering.member_changes import change_file
from mlperf_suite.judging.judge import judge_folder


@pytest.mark.parametrize("case", BREAKS, ids=str)
def test_a_break_is_seen_by_its_rules_alone(tmp_path: Path, case: Break) -> None:
    name, scenario = case.where.split("/")
    events = scenario if case.where == WITH_EVENTS else None
    write_client_submission(tmp_path, name, (scenario,), with_events=events)
    change_file(tmp_path / "closed/Someone/results/box" / case.where / case.file, case.change)
    failed = {
        verdict.rule.removeprefix("client_")
        for group in judge_folder(tmp_path)
        for verdict in group.verdicts
        if verdict.status == "failed" and verdict.rule.startswith("client_")
    }
    assert failed == set(case.rules.split())
