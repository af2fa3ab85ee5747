"""Logs of real submissions, which mlcommons/inference has as a sample of a submission's folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evidence.from_elsewhere import SAMPLE, needs_inference
from mlperf_suite.judging.judge import judge_folder

pytestmark = needs_inference
OF_ANOTHER_MODE = {"accuracy_test_mode", "accuracy_every_sample", "accuracy_samples_drawn"}
"""The rules that see that an accuracy run's log is a performance run's."""


def test_real_logs_pass_every_rule_about_logs() -> None:
    judged = judge_folder(SAMPLE)
    assert {j.round.name for j in judged} == {"v5.1"}
    runs = {j.name: set(j.failed_rules) for j in judged if j.scenario}
    assert len(runs) > 10
    # The sample is v5.1's logs, laid out as v6 wants them.
    assert all("layout" in rules for rules in runs.values())
    failed = {name: rules - {"layout"} for name, rules in runs.items() if rules != {"layout"}}
    # Two of its accuracy runs have the detail log of a performance run.
    assert set(failed) == {
        f"AMD-8xMI325X_2xEPYC_9575F_2-{model}-Offline"
        for model in ("llama2-70b-99", "llama2-70b-99.9")
    }
    assert all(rules == OF_ANOTHER_MODE | {"accuracy_passed"} for rules in failed.values())


@pytest.mark.parametrize("key", ["result_validity", "early_stopping_met", "num_errors"])
def test_a_line_taken_out_of_a_real_log_is_missed(tmp_path: Path, key: Any) -> None:
    for log in SAMPLE.rglob("run_1/mlperf_log_detail.txt"):
        target = tmp_path / log.relative_to(SAMPLE)
        target.parent.mkdir(parents=True)
        lines = log.read_text().splitlines()
        target.write_text("\n".join(x for x in lines if f'"key": "{key}"' not in x))
    rules = {"result_validity": "result_valid", "num_errors": "log_is_whole"}
    for group in judge_folder(tmp_path):
        if group.scenario and not (key == "early_stopping_met" and group.scenario == "Offline"):
            assert rules.get(key, "early_stopping") in group.failed_rules
