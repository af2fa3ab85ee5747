"""TEST07 and TEST09 of a round whose audit.config draws with replacement, as v6.0's does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meta_tests.made_runs import MadeRun, issue_of
from meta_tests.tampering.rule_breaks import verdict_on, without_agreement
from mlperf_suite.benchmarks.audits import ISSUED_ONCE, Mode
from mlperf_suite.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.log_consistency.schedule import first_samples
from mlperf_suite.loadgen.load_plan import plan_run
from mlperf_suite.loadgen.logs import LoggedSample
from mlperf_suite.rules import judge

MODES: tuple[Mode, ...] = ("test07", "test09")


def audit_run(mode: Mode, scenario: str, round_: str, *, submitted: bool = False) -> MadeRun:
    """An audit without performance_issue_unique: in Server some samples twice, others never."""
    run = MadeRun(
        GPT_OSS_120B, GPT_OSS_120B.scenario(scenario), mode, ROUNDS[round_], submitted=submitted
    )
    run.entries |= {ISSUED_ONCE: False, "requested_performance_issue_unique": False}
    order = first_samples(issue_of(run.entries, mode), len(run.answers))
    assert order is not None
    run.answers = [replace(a, index=n) for a, n in zip(run.answers, order, strict=True)]
    return run


def statuses(run: MadeRun) -> dict[str, str]:
    """Those of what did not pass, by rule, apart from the rules that compare a log with itself."""
    verdicts = judge(run.facts())
    return {v.rule: v.status for v in verdicts if v.rule in without_agreement(verdicts)}


@pytest.mark.parametrize("submitted", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_draw_with_replacement_is_the_setting_of_v6_0(mode: Mode, submitted: bool) -> None:
    every_sample = f"{mode}_every_sample"
    server = audit_run(mode, "Server", "v6.0", submitted=submitted)
    assert statuses(server) == {every_sample: "not judged"}
    assert statuses(audit_run(mode, "Offline", "v6.0", submitted=submitted)) == {}
    # Its answers are of the samples drawn.
    agrees = verdict_on(server.facts(), f"{mode}_log_agrees")
    assert agrees.passed, agrees.line


@pytest.mark.parametrize("mode", MODES)
def test_from_v6_1_on_each_sample_is_issued_once(mode: Mode) -> None:
    settings, every_sample = f"{mode}_settings", f"{mode}_every_sample"
    assert statuses(audit_run(mode, "Offline", "v6.1")) == {settings: "failed"}
    by_rule = statuses(audit_run(mode, "Server", "v6.1"))
    assert by_rule == {settings: "failed", every_sample: "failed"}


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_that_is_not_logged_fails_however_samples_are_drawn(mode: Mode) -> None:
    for scenario in ("Offline", "Server"):
        run = audit_run(mode, scenario, "v6.0")
        run.answers.pop()
        assert statuses(run) == {f"{mode}_every_sample": "failed"}
    run = audit_run(mode, "Server", "v6.0")
    run.answers[0] = LoggedSample(GPT_OSS_120B.samples, run.answers[0].token_ids)
    assert statuses(run) == {f"{mode}_every_sample": "failed"}


@pytest.mark.parametrize("value", [None, 0, "false"])
def test_how_samples_are_drawn_is_said_in_either_round(value: object) -> None:
    run = audit_run("test07", "Offline", "v6.0")
    run.entries[ISSUED_ONCE] = value
    assert statuses(run) == {"test07_settings": "failed"}


@pytest.mark.parametrize("mode", MODES)
def test_a_run_of_the_suite_issues_each_sample_once_in_every_round(mode: Mode) -> None:
    for name in GPT_OSS_120B.rounds:
        plan = plan_run(
            GPT_OSS_120B,
            GPT_OSS_120B.scenario("Server"),
            mode,
            ROUNDS[name],
            samples=GPT_OSS_120B.samples_of(mode),
            target_qps=10.0,
        )
        assert plan.audit_conf["performance_issue_unique"] == 1
        assert plan.log_values[ISSUED_ONCE] is True


def test_submitted_answers_without_a_log_of_the_draw_decide_nothing_in_v6_0() -> None:
    for round_, status in (("v6.0", "not judged"), ("v6.1", "failed")):
        run = audit_run("test07", "Server", round_, submitted=True)
        facts = run.facts()
        bare = replace(facts, logs=replace(facts.logs, files={}))
        verdict = verdict_on(bare, "test07_every_sample")
        assert verdict.status == status


VERIFIED: dict[tuple[Mode, str], str] = {
    ("test07", "passed"): "Accuracy score: 71.2|Accuracy threshold: 60.698|"
    "Accuracy check pass: True",
    ("test09", "passed"): "Mean output tokens: 1278.00|Total samples: 6396|"
    "Min threshold: 1150.38|TEST09 Verification Summary",
    ("test07", "failed"): "Accuracy score: 60.697|Accuracy score: nan|Accuracy score: None|"
    "Accuracy threshold: 6.0698|Accuracy check pass: False|TEST FAIL|"
    "TEST09: Verify Output Token Length in Performance Mode",
    ("test09", "failed"): "Mean output tokens: 1278.02|Total samples: 6395|Min threshold: 11.50|"
    "Max threshold: 14060.2|Max check pass: False|TEST07 Verification Summary",
}


@pytest.mark.parametrize(("mode", "status"), VERIFIED)
def test_a_verification_says_what_the_audit_shows(mode: Mode, status: str) -> None:
    run = audit_run(mode, "Offline", "v6.1", submitted=True)
    for line in VERIFIED[mode, status].split("|"):
        for run.verify in ([line, "TEST PASS"], ["TEST PASS", line]):
            verdict = verdict_on(run.facts(), f"{mode}_verified")
            assert verdict.status == status, verdict.line
