"""Runs of gpt-oss-120b and deepseek-r1: audits, samples, references, speculation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.judging.trees import failures_by_run, modes_of
from meta_tests.loadgen.made_plans import plan_of
from meta_tests.made_runs import MadeRun, answers_in_order
from meta_tests.tampering.rule_breaks import (
    check_cut_log,
    not_passed,
    verdict_on,
    without_agreement,
)
from mlperf_suite.benchmarks.audits import ISSUED_ONCE, Mode
from mlperf_suite.benchmarks.definition import OWN_HEAD, Benchmark
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DEEPSEEK_R1
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.loadgen.load_plan import plan_run
from mlperf_suite.loadgen.logs import LoggedSample
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import find_reference, find_speculation

MODES: tuple[Mode, ...] = ("test07", "test09")


def audit_run(mode: Mode, scenario: str, round_: str, *, submitted: bool = False) -> MadeRun:
    """An audit without performance_issue_unique: in Server some samples twice, others never."""
    run = MadeRun(
        GPT_OSS_120B, GPT_OSS_120B.scenario(scenario), mode, ROUNDS[round_], submitted=submitted
    )
    run.entries |= {ISSUED_ONCE: False, "requested_performance_issue_unique": False}
    drawn = answers_in_order(run.entries, mode, len(run.answers))
    run.answers = [replace(a, index=d.index) for a, d in zip(run.answers, drawn, strict=True)]
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
    assert f"{mode}_log_agrees" not in not_passed(judge(server.facts()))
    # From v6.1 on, each sample is issued once.
    failures = {f"{mode}_settings": "failed"}
    assert statuses(audit_run(mode, "Offline", "v6.1")) == failures
    assert statuses(audit_run(mode, "Server", "v6.1")) == failures | {every_sample: "failed"}


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


@pytest.mark.parametrize("mode", MODES)
def test_a_cut_log_in_a_submission_is_not_judged(mode: Mode) -> None:
    """truncate_accuracy_log.py cuts those of TEST01, TEST07 and TEST09."""
    rules = ("log_is_whole", "every_sample", *(["mean_tokens"] if mode == "test09" else []))
    check_cut_log(audit_run(mode, "Offline", "v6.1", submitted=True), *rules)


@pytest.mark.parametrize("submitted", [False, True])
def test_a_larger_sample_library_is_answered_in_whole(submitted: Any) -> None:
    """One library for all modes: LoadGen issues the first accuracy_sample_count_override of it."""
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Offline"), "accuracy", submitted=submitted)
    run.entries |= {
        "qsl_reported_total_count": GPT_OSS_120B.samples,
        "qsl_reported_performance_count": GPT_OSS_120B.samples,
        "requested_accuracy_sample_count_override": GPT_OSS_120B.samples_of("accuracy"),
    }
    assert not_passed(judge(run.facts())) == {}
    if submitted:
        run.scores[GPT_OSS_120B.counted_as] -= 1
    else:
        run.answers.pop()
    assert "accuracy_every_sample" in not_passed(judge(run.facts()))


def test_where_loadgen_does_not_say_how_many_it_takes_it_takes_all() -> None:
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Offline"), "accuracy")
    del run.entries["effective_accuracy_sample_count"]
    run.entries["qsl_reported_total_count"] = GPT_OSS_120B.samples
    failures = set(not_passed(judge(run.facts())))
    assert {"accuracy_every_sample", "accuracy_whole_dataset"} <= failures


PART = "samples: the gate holds for the whole data set"
UNKNOWN = "no reference accuracy is known for the"


@pytest.mark.parametrize(
    ("answers", "available", "whole", "why"),
    [
        (4_395, 4_395, None, ""),
        (990, 990, 990, ""),
        (6_396, 6_396, 6_396, ""),
        (100, 990, 990, f"100 of 990 {PART}"),
        (990, 991, 990, f"{UNKNOWN} data /data"),
        (6_396, 6_396, None, f"{UNKNOWN} data /data"),
    ],
)
def test_data_of_a_mode_by_their_size(answers: Any, available: Any, whole: Any, why: Any) -> None:
    workload = GPT_OSS_120B.workload
    assert workload is not None
    result = find_reference(
        workload, workload.model, "/data", answers, is_model=True, available=available, whole=whole
    )
    assert result == ((workload.reference, "") if not why else (None, why))


HEAD = "nvidia/gpt-oss-120b-Eagle3-long-context"
EAGLE3: dict[str, object] = {"method": "eagle3", "steps": 3, "topk": 1, "head": HEAD}
EAGLE3["quantization"] = "none"
MTP = EAGLE3 | {"method": "mtp", "head": OWN_HEAD, "quantization": "fp8"}
BY_EAGLE3 = "speculative decoding (eagle3)"
WHETHER = "whether it decodes speculatively"


def faults(
    benchmark: Benchmark, place: str, setting: object, round_: str = "v6.1"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    settings = {} if setting == {} else {"speculative": setting}
    result = find_speculation(benchmark, benchmark.scenario(place), ROUNDS[round_], settings)
    return result.deviations, result.undisclosed


@pytest.mark.parametrize(
    ("row", "place", "round_", "setting", "is_allowed"),
    [
        (GPT_OSS_120B, "Interactive", "v6.1", EAGLE3, True),
        # The rules have it since after that round.
        (GPT_OSS_120B, "Interactive", "v6.0", EAGLE3, False),
        (GPT_OSS_120B, "Server", "v6.1", EAGLE3, False),
        (GPT_OSS_120B, "Offline", "v6.1", EAGLE3, False),
        (DEEPSEEK_R1, "Interactive", "v6.0", MTP, True),
        (DEEPSEEK_R1, "Interactive", "v6.1", MTP | {"method": "nextn"}, True),
        (DEEPSEEK_R1, "Server", "v6.1", MTP, False),
        (LLAMA3_1_8B, "Interactive", "v6.1", EAGLE3, False),
    ],
)
def test_tokens_are_proposed_only_where_the_round_allows_it(
    row: Benchmark, place: str, round_: str, setting: dict[str, object], is_allowed: bool
) -> None:
    words = (f"speculative decoding ({setting['method']})",)
    assert faults(row, place, setting, round_) == (() if is_allowed else words, ())
    assert faults(row, place, None, round_) == ((), ())
    assert faults(row, place, {}, round_) == ((), (WHETHER,))


@pytest.mark.parametrize(
    ("change", "departure"),
    [
        ({"method": "ngram"}, "speculative decoding (ngram) with method ngram, not eagle3"),
        ({"method": "eagle3, in parallel"}, "method eagle3, in parallel, not eagle3"),
        ({"steps": "by batch size"}, f"{BY_EAGLE3} with steps by batch size, not 3"),
        ({"head": "nvidia/gpt-oss-120b-Eagle3"}, f"head nvidia/gpt-oss-120b-Eagle3, not {HEAD}"),
        ({"acceptance": "synthetic acceptance"}, f"{BY_EAGLE3} with synthetic acceptance"),
    ],
)
def test_other_speculation_departs(change: dict[str, object], departure: str) -> None:
    deviations, undisclosed = faults(GPT_OSS_120B, "Interactive", EAGLE3 | change)
    assert (len(deviations), undisclosed) == (1, ())
    assert deviations[0].endswith(departure)


@pytest.mark.parametrize("name", EAGLE3)
def test_speculation_of_which_a_part_is_not_said_is_not_judged(name: str) -> None:
    said = {key: value for key, value in EAGLE3.items() if key != name}
    part = f"the {name} of its speculative decoding"
    assert faults(GPT_OSS_120B, "Interactive", said) == ((), (part,))


@pytest.mark.parametrize("change", [{"head": "/models/head"}, {"quantization": "fp8"}])
def test_what_may_be_the_rounds_head_shows_nothing(change: dict[str, object]) -> None:
    deviations, undisclosed = faults(GPT_OSS_120B, "Interactive", EAGLE3 | change)
    assert (deviations, len(undisclosed)) == ((), 1)


def test_servers_that_are_not_alike_are_judged_each_and_a_method_alone_as_one() -> None:
    each = [None, {}, EAGLE3]
    assert faults(GPT_OSS_120B, "Interactive", each) == ((), (WHETHER,))
    assert faults(GPT_OSS_120B, "Server", each) == ((BY_EAGLE3,), (WHETHER,))
    # The method alone, as earlier versions kept it.
    assert faults(GPT_OSS_120B, "Server", "eagle3") == ((BY_EAGLE3,), ())
    deviations, undisclosed = faults(GPT_OSS_120B, "Interactive", "eagle3")
    assert (deviations, len(undisclosed)) == ((), 4)


def test_what_mlperf_conf_leaves_out_is_set_for_performance_alone() -> None:
    for mode, least in (("performance", 6_396), ("test09", None)):
        plan = plan_of(GPT_OSS_120B, "Offline", mode, 6_396, None)
        assert plan.user_conf.get("min_query_count") == least
        assert plan.log_values["requested_min_query_count"] == 6_396


@pytest.mark.parametrize("mode", ["accuracy", "performance", "test07"])
def test_loose_logs_of_each_mode_are_known_by_the_size_of_its_data(
    tmp_path: Path, mode: Any
) -> None:
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Server"), mode)
    assert modes_of(tmp_path / "logs", run) == {mode}
    assert failures_by_run(tmp_path / "logs") == {}


@pytest.mark.parametrize(("round_", "mode"), [("v6.0", "test09"), ("v6.1", "test06")])
def test_an_audit_that_draws_is_known_by_its_round(tmp_path: Path, round_: Any, mode: Any) -> None:
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Offline"), "test09", ROUNDS[round_])
    run.entries["effective_performance_issue_unique"] = False
    run.answers = [replace(answer, token_ids=answer.token_ids[:3]) for answer in run.answers]
    assert modes_of(tmp_path / "logs", run) == {mode}
