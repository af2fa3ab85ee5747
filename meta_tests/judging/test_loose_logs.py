"""Judging logs by themselves, and results of this suite."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.benchmarks.made_model_folder import model_folder
from meta_tests.judging.trees import (
    ACCURACY_TOO,
    ROOT,
    V6_1,
    by_name,
    failures_by_run,
    verdict_lines,
)
from meta_tests.judging.unreadable_files import UNREADABLE
from meta_tests.made_runs import MadeRun, line, write_run
from meta_tests.tampering.rule_breaks import AGREEMENT
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.judge import VerdictGroup, judge_folder
from mlperf_suite.judging.tree import find_runs, holds_logs
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL
from mlperf_suite.results.run_folder import file_sha256


def beside_agreement(judged: VerdictGroup) -> list[str]:
    """The rules that failed, but for those that compare a log with itself: the logs are changed."""
    return [rule for rule in judged.failed_rules if rule not in AGREEMENT]


def write_loose(root: Path, row: Any, scenario: str, name: str = "somewhere") -> Path:
    accuracy = MadeRun(row, row.scenario(scenario), "accuracy", V6_1)
    folder = root / name
    write_run(folder / "acc", accuracy)
    (folder / "acc" / ACCURACY).write_text(accuracy.accuracy_json)
    (folder / "acc/accuracy.txt").write_text(accuracy.accuracy_txt)
    write_run(folder / "perf", MadeRun(row, row.scenario(scenario), "performance", V6_1))
    return folder


@pytest.mark.parametrize("scenario", ["Offline", "Server", "Interactive"])
def test_loose_logs_are_known_by_what_they_say(tmp_path: Path, scenario: Any) -> None:
    write_loose(tmp_path, LLAMA3_1_8B, scenario)
    judged = by_name(tmp_path)
    assert set(judged) == {"somewhere-acc", "somewhere-perf"}
    for group in judged.values():
        assert (group.scenario, group.category, group.round) == (scenario, "datacenter", V6_1)
        assert all(v.passed for v in group.verdicts), [
            v.line for v in group.verdicts if not v.passed
        ]


@pytest.mark.parametrize("within", ["", "results/20260304-100000-llama3.1-8b-offline"])
def test_the_suites_results_below_a_folder_called_like_a_division_are_no_submission(
    tmp_path: Path, within: str
) -> None:
    results = tmp_path / "network/team/results"
    folder = results / "20260304-100000-llama3.1-8b-offline"
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1)
    write_run(folder / "Performance", run)
    (folder / "summary.json").write_text(json.dumps({"meta": {"benchmark": "llama3.1-8b"}}))
    (judged,) = judge_folder(results.parent / within)
    assert (judged.benchmark, judged.scenario) == (LLAMA3_1_8B, "Offline")
    assert judged.failed_rules == []
    # With the systems of a submission it is one, whatever lies in it.
    (results.parent / "systems").mkdir()
    assert "benchmark_known" in judge_folder(results.parent / within)[0].failed_rules


def test_loose_logs_of_each_mode_are_known_by_the_size_of_its_data(tmp_path: Path) -> None:
    row = BENCHMARKS["gpt-oss-120b"]
    for mode in ("accuracy", "performance", "test07"):
        run = MadeRun(row, row.scenario("Server"), mode, V6_1)
        write_run(tmp_path / "logs" / mode[:4], run)
        (tmp_path / "logs" / mode[:4] / ACCURACY).write_text(run.accuracy_json)
    judged = by_name(tmp_path / "logs")
    assert [group.benchmark for group in judged.values()] == [row] * 3
    assert {name: set(group.modes) for name, group in judged.items()} == {
        "accu": {"accuracy"},
        "perf": {"performance"},
        "test": {"test07"},
    }
    assert failures_by_run(tmp_path / "logs") == {}


@pytest.mark.parametrize(("round_", "mode"), [("v6.0", "test09"), ("v6.1", "test06")])
def test_a_loose_audit_that_draws_its_samples_is_known_where_its_round_has_it_draw(
    tmp_path: Path, round_: Any, mode: Any
) -> None:
    row = BENCHMARKS["gpt-oss-120b"]
    run = MadeRun(row, row.scenario("Offline"), "test09", ROUNDS[round_])
    run.entries["effective_performance_issue_unique"] = False
    run.answers = [replace(answer, token_ids=answer.token_ids[:3]) for answer in run.answers]
    write_run(tmp_path / "logs", run)
    (tmp_path / "logs" / ACCURACY).write_text(run.accuracy_json)
    (judged,) = by_name(tmp_path / "logs").values()
    assert set(judged.modes) == {mode}


def test_loose_accuracy_without_figures_is_not_judged_by_them(tmp_path: Path) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    (folder / "acc/accuracy.txt").unlink()
    assert failures_by_run(tmp_path) == {}
    statuses = {v.rule: v.status for v in by_name(tmp_path)["somewhere-acc"].verdicts}
    assert statuses["accuracy_rouge1"] == "not judged"
    statuses = {v.rule: v.status for v in by_name(tmp_path)["somewhere-perf"].verdicts}
    assert statuses["accuracy_passed"] == "not judged"


def test_loose_performance_counts_only_with_its_accuracy(tmp_path: Path) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    txt = folder / "acc/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "30.0"))
    assert failures_by_run(tmp_path) == {
        "somewhere-acc": ["accuracy_rouge1"],
        "somewhere-perf": ["accuracy_passed"],
    }


def test_loose_accuracy_may_be_held_to_the_high_gate(tmp_path: Path) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    txt = folder / "acc/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "38.5"))
    assert failures_by_run(tmp_path) == {}
    wrong = [j.failed_rules for j in judge_folder(tmp_path, high_accuracy=True)]
    assert wrong == [["accuracy_rouge1"], ["accuracy_passed"]]


def test_answers_longer_than_a_float_holds_are_another_runs(tmp_path: Path) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    log = folder / "acc" / ACCURACY
    digits = f'"token_count" : {10**4000}'
    log.write_text(re.sub(r'"token_count" : \d+', digits, log.read_text(), count=1))
    assert "tokens_as_in_accuracy" in failures_by_run(tmp_path)["somewhere-perf"]


def test_loose_logs_of_no_known_benchmark_fail_and_say_so(tmp_path: Path) -> None:
    write_run(tmp_path / "x", MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance"))
    log = tmp_path / "x" / DETAIL
    log.write_text(log.read_text().replace("13368", "777"))
    assert failures_by_run(tmp_path) == {"x": ["benchmark_known"]}
    assert "logs of 777 samples" in verdict_lines(tmp_path, "benchmark_known")[0]


def judge_as(
    folder: Path, row: Any, scenario: str, rouge1: float | None = None
) -> list[VerdictGroup]:
    """Write a valid run of each mode into the folder, and judge the folder."""
    write_loose(folder.parent, row, scenario, folder.name)
    if rouge1 is not None:
        txt = folder / "acc/accuracy.txt"
        txt.write_text(re.sub(r"'rouge1': [\d.]+", f"'rouge1': {rouge1}", txt.read_text()))
    return judge_folder(folder)


@pytest.mark.parametrize(
    ("row", "scenario"), [(LLAMA3_1_8B, "Server"), (LLAMA3_1_8B_EDGE, "SingleStream")]
)
def test_where_loose_logs_are_kept_says_nothing_about_them(
    tmp_path: Path, row: Any, scenario: Any
) -> None:
    judge_as(tmp_path / "run", row, scenario, rouge1=10)
    for above in ("open", "server", "TEST06", "llama3.1-8b", "llama2-70b-99"):
        (tmp_path / above).mkdir()
        kept = (tmp_path / "run").rename(tmp_path / above / "run")
        judged = judge_folder(kept)
        kept.rename(tmp_path / "run")
        assert [(j.category, j.scenario) for j in judged] == [(row.category, scenario)] * 2
        assert [j.failed_rules for j in judged] == [["accuracy_rouge1"], ["accuracy_passed"]]


@pytest.mark.parametrize(
    ("row", "scenario"),
    [(LLAMA3_1_8B, "Offline"), (LLAMA3_1_8B, "Interactive"), (LLAMA3_1_8B_EDGE, "SingleStream")],
)
def test_a_loose_log_wins_over_its_folders_names(tmp_path: Path, row: Any, scenario: Any) -> None:
    folder = tmp_path / "x"
    judge_as(folder, row, scenario)
    for name in ("server", "Interactive", "Offline", "llama3.1-8b"):
        folder = folder.rename(tmp_path / name)
        judged = [*judge_folder(folder), *judge_folder(tmp_path)]
        assert {(j.category, j.scenario) for j in judged} == {(row.category, scenario)}
        assert [j.failed_rules for j in judged] == [[]] * 4


@pytest.mark.parametrize("name", ["Server", "interactive"])
def test_a_folders_name_tells_server_and_interactive_apart_where_limits_do_not(
    tmp_path: Path, name: Any
) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Interactive"), "performance", V6_1)
    run.entries["requested_server_ttft_latency"] = 123
    write_run(tmp_path / name, run)
    assert [j.scenario for j in judge_folder(tmp_path / name)] == [name.capitalize()]
    assert [j.scenario for j in judge_folder(tmp_path)] == [name.capitalize()]


@pytest.mark.parametrize(("name", "gate_failed"), [("llama2-70b-99", 0), ("llama2-70b-99.9", 2)])
def test_a_folders_name_tells_benchmarks_of_as_many_samples_apart(
    tmp_path: Path, name: Any, gate_failed: Any
) -> None:
    row = LLAMA2_70B_99
    folder = tmp_path / name / "Offline"
    assert sum(len(beside_agreement(j)) for j in judge_as(folder, row, "Offline", rouge1=44.3)) == 0
    judged = judge_folder(tmp_path)
    assert sum(len(beside_agreement(j)) for j in judged) == gate_failed


def test_names_decide_where_a_loose_log_says_nothing(tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1)
    del run.entries["effective_scenario"], run.entries["qsl_reported_total_count"]
    write_run(tmp_path / "llama3.1-8b" / "Offline", run)
    (judged,) = judge_folder(tmp_path)
    assert (judged.category, judged.scenario) == ("datacenter", "Offline")
    (judged,) = judge_folder(tmp_path / "llama3.1-8b" / "Offline")
    assert judged.failed_rules == ["benchmark_known"]


@pytest.mark.parametrize("scenario_text", ["MultiStream", "Interactive", 3])
def test_a_scenario_that_loadgen_does_not_have_is_never_passed(
    tmp_path: Path, scenario_text: Any
) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1)
    run.entries["effective_scenario"] = scenario_text
    write_run(tmp_path / "Offline", run)
    assert failures_by_run(tmp_path) == {"Offline": ["scenarios_known"]}


def test_loose_logs_are_open_by_a_folder_that_was_given(tmp_path: Path) -> None:
    folder = tmp_path / "open" / "run"
    judge_as(folder, LLAMA3_1_8B, "Offline", rouge1=10)
    assert failures_by_run(tmp_path / "open") == failures_by_run(tmp_path) == {}


@pytest.mark.parametrize(
    ("row", "scenario"),
    [(LLAMA3_1_8B_EDGE, "Offline"), (LLAMA3_1_8B, "Offline"), (LLAMA3_1_8B, "Interactive")],
)
def test_accuracy_is_taken_from_the_same_benchmark_and_scenario(
    tmp_path: Path, row: Any, scenario: Any
) -> None:
    def status() -> str:
        (verdict,) = [
            v for j in judge_folder(tmp_path) for v in j.verdicts if v.rule == ACCURACY_TOO
        ]
        return verdict.status

    folder = write_loose(tmp_path, row, scenario)
    shutil.rmtree(folder / "perf")
    server = LLAMA3_1_8B.scenario("Server")
    write_run(folder / "dc_perf", MadeRun(LLAMA3_1_8B, server, "performance", V6_1))
    assert status() == "not judged"
    write_loose(tmp_path / "x", LLAMA3_1_8B, "Server")
    (tmp_path / "x/somewhere/acc").rename(folder / "dc_acc")
    shutil.rmtree(tmp_path / "x")
    assert status() == "passed"


def write_summary(folder: Path, scenario: str) -> None:
    """That of a smoke result of this suite."""
    meta = {"benchmark": "llama3.1-8b", "scenario": scenario, "profile": "smoke", "round": "v6.1"}
    meta |= {"model": EMBEDDED.model, "dataset": EMBEDDED.dataset}
    (folder / "summary.json").write_text(json.dumps({"meta": meta}))


def test_a_smoke_result_of_this_suite_is_judged_as_smoke(tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1)
    run.entries["effective_min_duration_ms"] = 10_000
    write_run(tmp_path / "Performance", run)
    write_summary(tmp_path, "Offline")
    (judged,) = judge_folder(tmp_path)
    assert beside_agreement(judged) == ["min_duration"]
    assert "--profile smoke judges it" in verdict_lines(tmp_path, "min_duration")[0]
    (judged,) = judge_folder(tmp_path, smoke=True)
    assert beside_agreement(judged) == []
    assert [v.rule for v in judged.verdicts if v.status == "shortened"] == ["min_duration"]


EXCUSES: dict[str, dict[str, object]] = {
    "profile": {"profile": "smoke"},
    "model": {"model": "nobody/knows"},
    "data": {"model": "meta-llama/Llama-3.1-8B-Instruct", "dataset": "nobody-knows"},
    "embedded": {"model": EMBEDDED.model, "dataset": EMBEDDED.dataset, "profile": "smoke"},
    "benchmark": {"benchmark": "llama3.1-8b-edge"},
    "high gate": {"benchmark": "llama2-70b-99"},
    "scenario": {"scenario": "SingleStream"},
    "other limits": {"scenario": "Server"},
    "round": {"round": "v5.1"},
    "profiler": {"profiler": "torch"},
}
BREAKS: dict[str, tuple[str, object]] = {
    "seed": ("effective_qsl_rng_seed", 1),
    "invalid": ("result_validity", "INVALID"),
    "short": ("effective_min_duration_ms", 1000),
    "slow": ("result_time_to_first_token_99.00_percentile_latency_ns", 10**12),
}


@pytest.mark.parametrize("scenario", ["Offline", "Interactive"])
def test_no_word_in_a_summary_excuses_a_failure(tmp_path: Path, scenario: str) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, scenario)
    txt = folder / "acc/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "30.0"))
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario(scenario), "performance", V6_1)
    run.entries |= dict(BREAKS.values())
    write_run(folder / "perf", run)
    broken = failures_by_run(tmp_path)
    (folder / "rouge.json").write_text(json.dumps({"gen_num": 10, "not_judged": {"rouge1": "x"}}))
    for excuse in EXCUSES.values():
        (folder / "summary.json").write_text(json.dumps({"meta": excuse}))
        failures = failures_by_run(tmp_path)
        assert all(set(broken[name]) <= set(failures[name]) for name in broken), excuse


@pytest.mark.parametrize("figure", ["rouge1", "gen_len"])
def test_a_reason_beside_the_log_excuses_no_figure_that_is_missing(
    tmp_path: Path, figure: str
) -> None:
    write_loose(tmp_path, LLAMA3_1_8B, "Server")
    (txt,) = tmp_path.rglob("accuracy.txt")
    txt.write_text(txt.read_text().replace(f"'{figure}'", "'another'"))
    (txt.parent / "rouge.json").write_text(json.dumps({"not_judged": {figure: "no time"}}))
    assert f"accuracy_{figure}" in failures_by_run(tmp_path)["somewhere-acc"]


@pytest.mark.parametrize(("rouge1", "status"), [("38.7792", "not judged"), ("30.0", "failed")])
def test_figures_of_another_model_pass_no_gate(tmp_path: Path, rouge1: str, status: str) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    txt = folder / "acc/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", rouge1))
    (folder / "summary.json").write_text(json.dumps({"meta": {"model": "nobody/knows"}}))
    (verdict,) = [
        v for j in judge_folder(tmp_path) for v in j.verdicts if v.rule == "accuracy_rouge1"
    ]
    assert verdict.status == status


def test_another_model_in_a_summary_excuses_no_token_beyond_the_vocabulary(tmp_path: Path) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    log = folder / "acc" / ACCURACY
    vocabulary = LLAMA3_1_8B.vocabulary
    assert vocabulary is not None
    beyond = vocabulary.to_bytes(4, "little").hex().upper()
    log.write_text(re.sub(r'("data" : ")[0-9A-F]{8}', rf"\g<1>{beyond}", log.read_text(), count=1))
    assert "accuracy_answers" in failures_by_run(tmp_path)["somewhere-acc"]
    (folder / "summary.json").write_text(json.dumps({"meta": {"model": "nobody/knows"}}))
    assert "accuracy_answers" in failures_by_run(tmp_path)["somewhere-acc"]


@pytest.mark.parametrize(("rope", "is_known"), [(True, True), (False, False)])
def test_the_model_of_an_official_result_is_known_by_its_files_if_they_are_here(
    tmp_path: Path, rope: bool, is_known: bool
) -> None:
    folder = model_folder(tmp_path / "model", LLAMA3_1_8B, None if rope else {"rope_scaling": None})
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "accuracy", V6_1)
    write_run(tmp_path / "result" / "Accuracy", run)
    scores = {score.name: score.value for score in LLAMA3_1_8B.reference.scores}
    text = f"{scores | {'gen_num': 13_368}}"
    (tmp_path / "result" / "Accuracy" / "accuracy.txt").write_text(text)
    meta = {"benchmark": "llama3.1-8b", "scenario": "Offline", "profile": "official"}
    meta |= {"model": str(folder), "dataset": "cnn_dailymail", "round": "v6.1"}
    (tmp_path / "result" / "summary.json").write_text(json.dumps({"meta": meta}))
    (judged,) = judge_folder(tmp_path / "result")
    verdicts = [v for v in judged.verdicts if v.rule.startswith("accuracy_rouge")]
    assert verdicts
    assert {v.status for v in verdicts} == {"passed" if is_known else "not judged"}


def write_own_result(root: Path) -> Path:
    """A smoke result of this suite in Server with --repeat 2 and a search for the highest rate."""
    folder = root / "20261120-101500-datacenter-server"
    row = replace(LLAMA3_1_8B, samples=84)
    folders = ("Accuracy", "Performance", "Performance/repeat_2", "Compliance/TEST06", "PeakQps/01")
    modes: tuple[Mode, ...] = ("accuracy", "performance", "performance", "test06", "performance")
    for name, mode in zip(folders, modes, strict=True):
        run = MadeRun(row, row.scenario("Server"), mode, V6_1)
        if name == "PeakQps/01":
            run.entries["result_validity"] = "INVALID"
        write_run(folder / name, run)
        if mode != "performance":
            (folder / name / ACCURACY).write_text(run.accuracy_json)
    scores = {score.name: score.value for score in EMBEDDED.reference.scores}
    scores["gen_num"] = EMBEDDED.reference.answers
    (folder / f"Accuracy/{EMBEDDED.scorer.name}.json").write_text(json.dumps(scores))
    write_summary(folder, "Server")
    return folder


@pytest.mark.parametrize(
    ("folder_given", "modes", "accuracy"),
    [
        (".", ["accuracy", "test06", "performance", "performance"], "passed"),
        ("*", ["accuracy", "test06", "performance", "performance"], "passed"),
        ("*/Performance", ["performance", "performance"], "not judged"),
        ("*/Compliance", ["test06"], None),
    ],
)
def test_every_run_of_an_own_result_is_judged_by_its_summary(
    tmp_path: Path, folder_given: Any, modes: Any, accuracy: Any
) -> None:
    write_own_result(tmp_path)
    (root,) = tmp_path.glob(folder_given) if folder_given != "." else (tmp_path,)
    judged = judge_folder(root, smoke=True)
    assert [set(j.modes) for j in judged] == [{mode} for mode in modes]
    assert [(j.category, j.scenario) for j in judged] == [("datacenter", "Server")] * len(modes)
    assert [beside_agreement(j) for j in judged] == [[]] * len(modes)
    statuses = [v.status for j in judged for v in j.verdicts if v.rule == ACCURACY_TOO]
    assert statuses == [accuracy] * modes.count("performance")


def test_a_profiler_in_the_summary_excuses_no_failure(tmp_path: Path) -> None:
    folder = write_own_result(tmp_path)
    summary = json.loads((folder / "summary.json").read_text())
    summary["meta"]["profiler"] = "torch"
    (folder / "summary.json").write_text(json.dumps(summary))
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance", V6_1)
    run.entries |= {"result_validity": "INVALID", "effective_qsl_rng_seed": 1}
    write_run(folder / "Performance", run)
    (judged,) = [j for j in judge_folder(folder, smoke=True) if j.name == "Performance"]
    statuses = {v.rule: v.status for v in judged.verdicts}
    assert statuses["result_valid"] == statuses["seeds"] == "failed"
    assert set(statuses.values()) == {"failed", "not judged"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (f"Performance/{DETAIL}", f"Performance/{DETAIL} was changed after the run"),
        ("Performance/gone.txt", "Performance/gone.txt is missing"),
        ("Performance/../../x", "checksums.json names Performance/../../x, which is elsewhere"),
    ],
)
def test_a_kept_run_is_held_to_its_checksums(tmp_path: Path, name: str, why: str) -> None:
    folder = write_own_result(tmp_path)
    files = {
        path.relative_to(folder).as_posix(): file_sha256(path)
        for path in folder.rglob("*")
        if path.is_file() and path.name != "summary.json"
    }

    def verdicts() -> list[tuple[str, str]]:
        (folder / "checksums.json").write_text(json.dumps({"files": files}))
        return [
            (v.status, v.found)
            for judged in judge_folder(folder)
            for v in judged.verdicts
            if v.rule == "kept_run_unchanged"
        ]

    assert verdicts() == [("passed", "unchanged")] * 4
    files[name] = "0" * 64
    assert sorted(verdicts()) == [("failed", why), *[("passed", "unchanged")] * 3]


def test_a_summary_far_above_says_nothing_of_a_run(tmp_path: Path) -> None:
    folder = write_own_result(tmp_path)
    (folder / "x/y").mkdir(parents=True)
    (folder / "Compliance/TEST06").rename(folder / "x/y/z")
    assert failures_by_run(folder)["x-y-z"] == ["benchmark_known"]
    assert failures_by_run(folder / "x/y/z") == {"z": ["benchmark_known"]}


def test_trial_runs_of_a_search_are_judged_only_where_they_were_asked_for(tmp_path: Path) -> None:
    folder = write_own_result(tmp_path)
    (judged,) = judge_folder(folder / "PeakQps", smoke=True)
    assert (judged.scenario, beside_agreement(judged)) == ("Server", ["result_valid"])
    (folder / "summary.json").rename(tmp_path / "summary.json")
    assert any("PeakQps" in name for name in by_name(folder))


def test_an_audit_run_is_known_by_its_seed(tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "test06", V6_1)
    write_run(tmp_path / "x", run)
    (tmp_path / "x" / ACCURACY).write_text(run.accuracy_json)
    (judged,) = judge_folder(tmp_path)
    assert {v.rule.partition("_")[0] for v in judged.verdicts} == {"test06"}
    assert beside_agreement(judged) == []


def test_logs_are_found_and_hidden_folders_are_not(tmp_path: Path) -> None:
    assert not holds_logs(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / DETAIL).write_text(line("a", 1))
    assert not holds_logs(tmp_path)
    assert find_runs(tmp_path).log_folders == ()


BESIDE = (f"perf/{DETAIL}", "perf/mlperf_log_summary.txt", f"acc/{ACCURACY}", "acc/accuracy.txt")


def test_what_never_ends_is_never_read(tmp_path: Path) -> None:
    whole = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    (whole / "summary.json").write_text(json.dumps({"meta": {"model": str(whole)}}))
    folders = tmp_path / "folders"
    for name in (*BESIDE, "summary.json", "checksums.json", "config.json"):
        for kind, make in UNREADABLE.items():
            copy = folders / f"{name.replace('/', ' ')} {kind}"
            shutil.copytree(whole, copy)
            (copy / name).unlink(missing_ok=True)
            make(copy / name)
    code = (
        "import pathlib, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "from mlperf_suite.judging.judge import judge_folder\n"
        "for folder in pathlib.Path(sys.argv[1]).iterdir():\n"
        "    assert len(judge_folder(folder)) == 2, folder\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folders)], cwd=ROOT, check=True, timeout=600)


def test_folders_may_be_nested_to_any_depth(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["d"] * 1100)
    for deeper in (*reversed(folder.parents), folder):
        deeper.mkdir(exist_ok=True)
    write_run(folder, MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1))
    try:
        assert holds_logs(tmp_path)
        assert len(judge_folder(tmp_path)) == 1
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True, timeout=600)


def test_judging_loads_no_engine(submission: Path, tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from mlperf_suite.judging.judge import judge_folder\n"
        f"assert judge_folder(pathlib.Path({str(tmp_path)!r}))\n"
        "heavy = {'vllm', 'torch', 'transformers', 'mlperf_loadgen', 'datasets'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=600)
