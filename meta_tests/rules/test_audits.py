"""TEST07 and TEST09 of a round whose audit.config draws with replacement, as v6.0's does."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from meta_tests.made_runs import MadeRun, issue_of
from meta_tests.tampering.rule_breaks import verdict_on, without_agreement
from mlperf_suite.benchmarks.audits import ISSUED_ONCE, Mode
from mlperf_suite.benchmarks.definition import WORD_ACCURACY
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.features.log_consistency.schedule import first_samples
from mlperf_suite.features.multimodal.whisper import WHISPER
from mlperf_suite.loadgen.load_plan import RunKey, plan_run
from mlperf_suite.loadgen.logs import AccuracyLog, LoggedSample
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import ComparedRuns, SubmittedTexts
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.run_kind import Selection

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


# TEST01: answers and rate compared with the accuracy and performance runs of the same result


OFFLINE = WHISPER.scenario("Offline")


def made(*, submitted: bool = False) -> MadeRun:
    return MadeRun(WHISPER, OFFLINE, "test01", ROUNDS["v6.1"], submitted=submitted)


def with_an_answer(run: MadeRun, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> MadeRun:
    first, *rest = run.answers
    run.answers = [replace(first, token_ids=change(tuple(first.token_ids))), *rest]
    return run


def test_the_runs_that_it_is_compared_with_are_made_before_it() -> None:
    key = RunKey("whisper", "Offline", "test01")
    plan = plan_session(Selection([key], offline_rate_given=True))
    assert [of.mode for of in plan.runs] == ["accuracy", "performance", "test01"]


@pytest.mark.parametrize(
    ("factor", "status"), [(1.0, "passed"), (1.0099, "passed"), (1.0102, "failed")]
)
def test_answers_that_differ_have_to_be_as_accurate(factor: float, status: str) -> None:
    run = with_an_answer(made(), lambda ids: ids[:-1])
    scores = {WORD_ACCURACY: run.scores[WORD_ACCURACY] * factor}
    run.compared = replace(run.compared, scores=scores)
    verdict = verdict_on(run.facts(), "test01_same_answers")
    assert verdict.status == status and verdict.found.startswith("1,632 of 1,633 answers")


def test_a_part_of_the_samples_has_no_accuracy_to_compare() -> None:
    run = with_an_answer(made(), lambda ids: ids[:-1])
    run.answers.pop()
    verdict = verdict_on(run.facts(), "test01_same_answers")
    assert verdict.status == "failed" and verdict.why == "not every sample was logged"


def test_without_the_other_runs_or_a_valid_one_nothing_is_compared() -> None:
    run = made()
    facts = replace(run.facts(), compared=ComparedRuns())
    run.entries["result_validity"] = "INVALID"
    assert verdict_on(run.facts(), "test01_same_rate").status == "failed"
    for rule in ("same_answers", "same_rate"):
        assert verdict_on(facts, f"test01_{rule}").status == "not judged"


@pytest.mark.parametrize(
    ("mode", "rules"),
    [
        ("test01", ("log_is_whole", "same_answers")),
        ("test07", ("log_is_whole", "every_sample")),
        ("test09", ("log_is_whole", "every_sample", "mean_tokens")),
    ],
)
def test_a_cut_log_in_a_submission_is_not_judged(mode: Mode, rules: tuple[str, ...]) -> None:
    """truncate_accuracy_log.py cuts those of TEST01, TEST07 and TEST09."""
    benchmark = WHISPER if mode == "test01" else GPT_OSS_120B
    facts = MadeRun(benchmark, OFFLINE, mode, ROUNDS["v6.1"], submitted=True).facts()
    logs = replace(facts.logs, accuracy=AccuracyLog((), ("not JSON: cut",)))
    for rule in rules:
        verdict = verdict_on(replace(facts, logs=logs), f"{mode}_{rule}")
        assert verdict.status == "not judged" and "may be cut" in verdict.why
    assert facts.submitted is not None
    for submitted in (None, replace(facts.submitted, accuracy_log=None)):
        damaged = replace(facts, logs=logs, submitted=submitted)
        assert verdict_on(damaged, f"{mode}_log_is_whole").status == "failed"


def accuracies(*figures: float) -> tuple[str, ...]:
    return tuple(f"Word Error Rate: {100 - f}%, accuracy={f}%\n" for f in figures)


@pytest.mark.parametrize(
    ("texts", "status"),
    [
        *((accuracies(97.9, other), "passed") for other in (97.9, 96.95)),
        *((texts, "failed") for texts in (accuracies(97.9, 96.90), accuracies(97.9), (), ("", ""))),
    ],
)
def test_accuracies_in_place_of_equal_answers(texts: tuple[str, ...], status: str) -> None:
    facts = made(submitted=True).facts()
    submitted = SubmittedTexts(
        verify_txt="TEST FAIL\n", verify_others=("TEST PASS\n",), accuracy_txts=texts
    )
    assert verdict_on(replace(facts, submitted=submitted), "test01_verified").status == status
