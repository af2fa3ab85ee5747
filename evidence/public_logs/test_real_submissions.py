"""Logs of a submission that MLCommons keeps as a sample, which lie beside the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meta_tests.judging.trees import ROOT
from mlperf_suite.judging.judge import judge_folder

REAL = ROOT.parent / "shared" / "data" / "submissions"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="no real submissions beside it")


def test_real_logs_pass_every_rule_about_logs() -> None:
    judged = judge_folder(REAL)
    assert {j.round.name for j in judged} == {"v5.1"}
    runs = [j for j in judged if j.scenario]
    assert len(runs) == 4
    for run in runs:
        # The files are a part of a sample tree: v5.1's logs, laid out as v6 wants them.
        assert run.failed_rules == ["layout", "required_files"], run.name


@pytest.mark.parametrize("key", ["result_validity", "early_stopping_met", "num_errors"])
def test_a_line_taken_out_of_a_real_log_is_missed(tmp_path: Path, key: Any) -> None:
    for log in REAL.rglob("run_1/mlperf_log_detail.txt"):
        target = tmp_path / log.relative_to(REAL)
        target.parent.mkdir(parents=True)
        lines = log.read_text().splitlines()
        target.write_text("\n".join(x for x in lines if f'"key": "{key}"' not in x))
    rules = {"result_validity": "result_valid", "num_errors": "log_is_whole"}
    for group in judge_folder(tmp_path):
        if group.scenario and not (key == "early_stopping_met" and group.scenario == "Offline"):
            assert rules.get(key, "early_stopping") in group.failed_rules
