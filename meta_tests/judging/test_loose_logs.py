"""Judging logs by themselves, and results of this suite."""

import csv
import json
import re
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from meta_tests.benchmarks.made_model_folder import model_folder
from meta_tests.judging.trees import (
    ACCURACY_TOO,
    V6_1,
    by_name,
    failures_by_run,
    known_rules,
    modes_of,
    verdict_lines,
)
from meta_tests.made_runs import P99, MadeRun, line, write_run
from meta_tests.tampering.rule_breaks import AGREEMENT
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.judge import VerdictGroup, holds_logs, judge_folder
from mlperf_suite.judging.verdict_group import JudgedFigures
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, read_logs
from mlperf_suite.reports.judged_report import figure_table_of, judged_csv
from mlperf_suite.results.run_folder import file_sha256
from mlperf_suite.results.schema import RepeatFigures
from mlperf_suite.rules.verdict import Status, Verdict

SERVER, OFFLINE, INTERACTIVE = map(LLAMA3_1_8B.scenario, ("Server", "Offline", "Interactive"))


def beside_agreement(judged: VerdictGroup) -> list[str]:
    """The rules that failed, but for those that compare a log with itself: the logs are changed."""
    return [rule for rule in judged.failed_rules if rule not in AGREEMENT]


def write_loose(
    root: Path, row: Any, scenario: str, name: str = "somewhere", rouge1: float | None = None
) -> Path:
    accuracy = MadeRun(row, row.scenario(scenario), "accuracy", V6_1)
    if rouge1 is not None:
        accuracy.scores["rouge1"] = rouge1
    accuracy.hash = sha256(accuracy.accuracy_json.encode()).hexdigest()
    folder = root / name
    write_run(folder / "acc", accuracy)
    (folder / "acc" / ACCURACY).write_text(accuracy.accuracy_json)
    (folder / "acc/accuracy.txt").write_text(accuracy.accuracy_txt)
    write_run(folder / "perf", MadeRun(row, row.scenario(scenario), "performance", V6_1))
    return folder


def write_meta(folder: Path, **meta: object) -> None:
    """A summary of this suite's that says this of its run."""
    (folder / "summary.json").write_text(json.dumps({"meta": meta}))


def statuses(root: Path, rule: str, **options: Any) -> list[str]:
    """What is said by a rule of everything in a folder."""
    groups = judge_folder(root, **options)
    return [v.status for group in groups for v in group.verdicts if v.rule == rule]


@pytest.mark.parametrize("scenario", ["Offline", "Server", "Interactive"])
def test_loose_logs_are_known_by_what_they_say(tmp_path: Path, scenario: Any) -> None:
    write_loose(tmp_path, LLAMA3_1_8B, scenario)
    judged = by_name(tmp_path)
    assert set(judged) == {"somewhere-acc", "somewhere-perf"}
    for group in judged.values():
        assert (group.scenario, group.category, group.round) == (scenario, "datacenter", V6_1)
        assert [v.line for v in group.verdicts if not v.passed] == []


LAYOUTS = {
    "the reference's": ("output", "offline-accuracy-logs", ""),
    "by mode": ("mlperf_logs/offline/performance", "mlperf_logs/offline/accuracy", ""),
    "harness_output": ("offline/performance/mlperf", "offline/accuracy/mlperf", ".."),
    "by experiment": ("exp_A1/mlperf_logs", "exp_A1_accuracy/mlperf_logs", ".."),
    "by run": ("run_1/perf/mlperf_logs", "run_1/acc/mlperf_logs", ""),
    "run_N": ("perf/run_2", "acc/run_1", ""),
    "one accuracy run beside": ("performance/run_1", "accuracy", ""),
}
"""By name, the places of performance and accuracy logs, and from there that of accuracy.txt."""


def write_layout(
    root: Path, performance: str, accuracy: str, scores: str = "", rouge1: float | None = None
) -> str:
    """Write a run of each mode; the name under which the accuracy run is judged."""
    folder = write_loose(root / "written", LLAMA3_1_8B, "Offline", rouge1=rouge1)
    for mode, place in (("acc", accuracy), ("perf", performance)):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / mode).rename(root / place)
    (root / accuracy / "accuracy.txt").rename((root / accuracy / scores).resolve() / "accuracy.txt")
    shutil.rmtree(root / "written")
    return accuracy.replace("/", "-")


def claims(root: Path) -> dict[str, str]:
    return {judged.name: judged.claim for judged in judge_folder(root)}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_accuracy_run_of_a_system_is_found_in_the_layouts_of_other_harnesses(
    tmp_path: Path, layout: tuple[str, str, str]
) -> None:
    accuracy = write_layout(tmp_path, *layout)
    write_layout(tmp_path, "x/another/system/1", "x/another/2/system", rouge1=30.0)
    claimed = claims(tmp_path)
    assert claimed[accuracy] == "passed"
    performance = layout[0].replace("/", "-")
    assert claimed[performance] == f"valid, accuracy passed in {accuracy}"
    assert claimed["x-another-2-system"] == "not valid"
    assert claimed["x-another-system-1"] == "valid, accuracy missing"


@pytest.mark.parametrize(
    ("rouge1", "sut", "claim", "why"),
    [
        (None, "PySUT", "valid, accuracy passed in a_accuracy-logs or b_accuracy-logs", ""),
        (30.0, "PySUT", "valid, accuracy missing", "no log says whether a_accuracy-logs or b_acc"),
        (30.0, "another", "valid, accuracy passed in a_accuracy-logs", ""),
    ],
)
def test_of_several_accuracy_runs_the_one_of_the_same_sut_counts(
    tmp_path: Path, rouge1: Any, sut: str, claim: str, why: str
) -> None:
    write_layout(tmp_path, "b/logs", "b_accuracy/logs", rouge1=rouge1)
    log = tmp_path / "b_accuracy/logs" / DETAIL
    log.write_text(log.read_text().replace("PySUT", sut))
    write_layout(tmp_path, "a/logs", "a_accuracy/logs")
    assert claims(tmp_path)["a-logs"] == claim
    (found,) = (v for v in by_name(tmp_path)["a-logs"].verdicts if v.rule == ACCURACY_TOO)
    assert why in found.why
    shutil.rmtree(tmp_path / "a_accuracy")
    lines = "".join(verdict_lines(tmp_path, ACCURACY_TOO))
    assert ("b_accuracy-logs has another sut_name" in lines) is (sut == "another")


@pytest.mark.parametrize("within", ["", "results/20260304-100000-llama3.1-8b-offline"])
def test_own_results_below_a_folder_of_a_divisions_name(tmp_path: Path, within: str) -> None:
    results = tmp_path / "network/team/results"
    folder = results / "20260304-100000-llama3.1-8b-offline"
    write_run(folder / "Performance", MadeRun(LLAMA3_1_8B, OFFLINE, "performance", V6_1))
    write_meta(folder, benchmark="llama3.1-8b")
    (judged,) = judge_folder(results.parent / within)
    assert (judged.benchmark, judged.scenario) == (LLAMA3_1_8B, "Offline")
    assert judged.failed_rules == []
    # With the systems of a submission it is one, whatever lies in it.
    (results.parent / "systems").mkdir()
    failed = judge_folder(results.parent / within)[0].failed_rules
    assert ("benchmark_known" in failed) == bool(known_rules(["layout"]))


@pytest.mark.parametrize("name", ["TEST06", "test06"])
def test_a_folder_named_after_an_audit_holds_one(tmp_path: Path, name: str) -> None:
    run = MadeRun(LLAMA3_1_8B, OFFLINE, "performance", V6_1)
    assert modes_of(tmp_path / name, run) == {"test06"}


def test_loose_accuracy_without_figures_is_not_judged_by_them(tmp_path: Path) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    (folder / "acc/accuracy.txt").unlink()
    assert failures_by_run(tmp_path) == {}
    assert statuses(tmp_path, "accuracy_rouge1") == ["not judged"]
    assert statuses(tmp_path, ACCURACY_TOO) == ["not judged"]


@pytest.mark.parametrize(("rouge1", "high_alone"), [(38.5, True), (30.0, False)])
def test_performance_counts_with_accuracy(tmp_path: Path, rouge1: float, high_alone: bool) -> None:
    write_loose(tmp_path, LLAMA3_1_8B, "Offline", rouge1=rouge1)
    failures = {"somewhere-acc": ["accuracy_rouge1"], "somewhere-perf": [ACCURACY_TOO]}
    assert failures_by_run(tmp_path) == ({} if high_alone else failures)
    judged = judge_folder(tmp_path, high_accuracy=True)
    assert {group.name: group.failed_rules for group in judged} == failures


def test_loose_logs_of_no_known_benchmark_fail_and_say_so(tmp_path: Path) -> None:
    write_run(tmp_path / "x", MadeRun(LLAMA3_1_8B, OFFLINE, "performance"))
    log = tmp_path / "x" / DETAIL
    log.write_text(log.read_text().replace("13368", "777"))
    assert failures_by_run(tmp_path) == {"x": ["benchmark_known"]}
    assert "logs of 777 samples" in verdict_lines(tmp_path, "benchmark_known")[0]


@pytest.mark.parametrize(
    ("row", "scenario"), [(LLAMA3_1_8B, "Server"), (LLAMA3_1_8B_EDGE, "SingleStream")]
)
def test_where_loose_logs_are_kept_says_nothing(tmp_path: Path, row: Any, scenario: Any) -> None:
    folder = write_loose(tmp_path, row, scenario, "run", rouge1=10)
    for place in ("open/run", "TEST06/run", "llama2-70b-99/run", "Offline", "Interactive"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        folder = folder.rename(tmp_path / place)
        judged = judge_folder(folder)
        assert [(j.category, j.scenario) for j in judged] == [(row.category, scenario)] * 2
        assert [j.failed_rules for j in judged] == [["accuracy_rouge1"], [ACCURACY_TOO]]


@pytest.mark.parametrize("name", ["Server", "interactive"])
def test_a_folders_name_tells_server_and_interactive_apart(tmp_path: Path, name: Any) -> None:
    run = MadeRun(LLAMA3_1_8B, INTERACTIVE, "performance", V6_1)
    run.entries["requested_server_ttft_latency"] = 123
    write_run(tmp_path / name, run)
    assert [j.scenario for j in judge_folder(tmp_path / name)] == [name.capitalize()]
    assert [j.scenario for j in judge_folder(tmp_path)] == [name.capitalize()]


@pytest.mark.parametrize(("name", "gate_failed"), [("llama2-70b-99", 0), ("llama2-70b-99.9", 1)])
def test_a_folders_name_tells_benchmarks_apart(tmp_path: Path, name: Any, gate_failed: Any) -> None:
    folder = write_loose(tmp_path, LLAMA2_70B_99, "Offline", f"{name}/Offline", rouge1=44.3)
    for root, failed in ((folder, 0), (tmp_path, gate_failed)):
        rules = [rule for judged in judge_folder(root) for rule in beside_agreement(judged)]
        # Its answers are shorter than it says.
        assert rules.count("accuracy_every_sample") == 1
        assert rules.count("accuracy_rouge1") == failed


def test_names_decide_where_a_loose_log_says_nothing(tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, OFFLINE, "performance", V6_1)
    del run.entries["effective_scenario"], run.entries["qsl_reported_total_count"]
    write_run(tmp_path / "llama3.1-8b" / "Offline", run)
    (judged,) = judge_folder(tmp_path)
    assert (judged.category, judged.scenario) == ("datacenter", "Offline")
    (judged,) = judge_folder(tmp_path / "llama3.1-8b" / "Offline")
    assert judged.failed_rules == ["benchmark_known"]


@pytest.mark.parametrize("scenario_text", ["MultiStream", "Interactive", 3])
def test_a_scenario_that_is_none_never_passes(tmp_path: Path, scenario_text: Any) -> None:
    run = MadeRun(LLAMA3_1_8B, OFFLINE, "performance", V6_1)
    run.entries["effective_scenario"] = scenario_text
    write_run(tmp_path / "Offline", run)
    assert failures_by_run(tmp_path) == {"Offline": ["scenarios_known"]}


def test_loose_logs_are_open_by_a_folder_that_was_given(tmp_path: Path) -> None:
    write_loose(tmp_path, LLAMA3_1_8B, "Offline", "open/run", rouge1=10)
    assert failures_by_run(tmp_path / "open") == failures_by_run(tmp_path) == {}


@pytest.mark.parametrize(
    ("row", "scenario"),
    [(LLAMA3_1_8B_EDGE, "Offline"), (LLAMA3_1_8B, "Offline"), (LLAMA3_1_8B, "Interactive")],
)
def test_accuracy_is_of_the_same_scenario(tmp_path: Path, row: Any, scenario: Any) -> None:
    logs = tmp_path / "logs"
    shutil.rmtree(write_loose(logs, row, scenario) / "perf")
    of_server = write_loose(tmp_path, LLAMA3_1_8B, "Server", "of_server")
    (of_server / "perf").rename(logs / "perf")
    assert statuses(logs, ACCURACY_TOO) == ["not judged"]
    (of_server / "acc").rename(logs / "acc")
    assert statuses(logs, ACCURACY_TOO) == ["passed"]


SMOKE: dict[str, object] = {"benchmark": "llama3.1-8b", "profile": "smoke", "round": "v6.1"}
SMOKE |= {"model": EMBEDDED.model, "dataset": EMBEDDED.dataset}


def test_a_smoke_result_of_this_suite_is_judged_as_smoke(tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, OFFLINE, "performance", V6_1)
    run.entries["effective_min_duration_ms"] = 10_000
    write_run(tmp_path / "Performance", run)
    write_meta(tmp_path, scenario="Offline", **SMOKE)
    (judged,) = judge_folder(tmp_path)
    assert beside_agreement(judged) == ["min_duration"]
    assert "--profile smoke judges it" in verdict_lines(tmp_path, "min_duration")[0]
    (judged,) = judge_folder(tmp_path, smoke=True)
    assert beside_agreement(judged) == []
    assert [v.rule for v in judged.verdicts if v.status == "shortened"] == ["min_duration"]


EXCUSES: tuple[dict[str, object], ...] = (
    {"profile": "smoke"},
    {"model": "nobody/knows"},
    {"model": EMBEDDED.model, "dataset": EMBEDDED.dataset, "profile": "smoke"},
    {"benchmark": "llama3.1-8b-edge"},
    {"scenario": "SingleStream"},
    {"scenario": "Server"},
    {"round": "v5.1"},
    {"profiler": "torch"},
)


@pytest.mark.parametrize("scenario", ["Offline", "Interactive"])
def test_no_word_in_a_summary_excuses_a_failure(tmp_path: Path, scenario: str) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, scenario, rouge1=30.0)
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario(scenario), "performance", V6_1)
    run.entries |= {
        "effective_qsl_rng_seed": 1,
        "result_validity": "INVALID",
        "effective_min_duration_ms": 1000,
        P99["ttft"]: 10**12,
    }
    write_run(folder / "perf", run)
    broken = failures_by_run(tmp_path)
    (folder / "rouge.json").write_text(json.dumps({"gen_num": 10, "not_judged": {"rouge1": "x"}}))
    for excuse in EXCUSES:
        write_meta(folder, **excuse)
        failures = failures_by_run(tmp_path)
        assert all(set(broken[name]) <= set(failures[name]) for name in broken), excuse


def test_a_reason_beside_the_log_excuses_no_figure(tmp_path: Path) -> None:
    txt = write_loose(tmp_path, LLAMA3_1_8B, "Server") / "acc/accuracy.txt"
    txt.write_text(txt.read_text().replace("'rouge1'", "'another'"))
    (txt.parent / "rouge.json").write_text(json.dumps({"not_judged": {"rouge1": "no time"}}))
    assert "accuracy_rouge1" in failures_by_run(tmp_path)["somewhere-acc"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"hash={'1a' * 32}\n", "hash=1a1a1a1a… in accuracy.txt"),
        ("{'tokens_per_sample': TOKENS}\n", ""),
        ("{'tokens_per_sample': 1.04 TOKENS}\n", ""),
        ("{'tokens_per_sample': 1.06 TOKENS}\n", "tokens_per_sample"),
    ],
)
def test_scores_of_another_log_fail(tmp_path: Path, text: str, fault: str) -> None:
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Server") / "acc"
    counts = [int(n) for n in re.findall(r'"token_count" : (\d+)', (folder / ACCURACY).read_text())]
    for share in ("1.04 ", "1.06 ", ""):
        mean = float(share or 1) * sum(counts) / len(counts)
        text = text.replace(f"{share}TOKENS", f"{mean:.4f}")
    txt = folder / "accuracy.txt"
    txt.write_text(re.sub("hash=.*", "", txt.read_text()) + text)
    (line,) = verdict_lines(folder, "accuracy_every_sample")
    assert (": failed:" in line and fault in line) if fault else ": passed:" in line


def test_another_model_passes_no_gate_and_has_no_other_tokens(tmp_path: Path) -> None:
    for rouge1, status in ((None, "not judged"), (30.0, "failed")):
        folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline", rouge1=rouge1)
        write_meta(folder, model="nobody/knows")
        assert statuses(tmp_path, "accuracy_rouge1") == [status]
    log = folder / "acc" / ACCURACY
    beyond = (LLAMA3_1_8B.vocabulary or 0).to_bytes(4, "little").hex().upper()
    log.write_text(re.sub(r'("data" : ")[0-9A-F]{8}', rf"\g<1>{beyond}", log.read_text(), count=1))
    assert "accuracy_answers" in failures_by_run(tmp_path)["somewhere-acc"]


@pytest.mark.parametrize(("rope", "status"), [(True, "passed"), (False, "not judged")])
def test_an_official_model_is_known_by_its_files(tmp_path: Path, rope: bool, status: str) -> None:
    folder = model_folder(tmp_path / "model", LLAMA3_1_8B, None if rope else {"rope_scaling": None})
    result = tmp_path / "result"
    run = MadeRun(LLAMA3_1_8B, OFFLINE, "accuracy", V6_1)
    write_run(result / "Accuracy", run)
    (result / "Accuracy/accuracy.txt").write_text(run.accuracy_txt)
    official = {"profile": "official", "model": str(folder), "dataset": "cnn_dailymail"}
    write_meta(result, scenario="Offline", **(SMOKE | official))
    assert statuses(result, "accuracy_rouge1") == [status]


_SHORT_AND_VALID = {
    "result_validity": "VALID",
    "early_stopping_met": True,
    "early_stopping_ttft_result": " * Run successful.",
    "early_stopping_tpot_result": " * Run successful.",
}
"""What a smoke run of few queries says, whose settings ask for a lower percentile."""


def write_own_result(root: Path) -> Path:
    """A smoke result of this suite in Server with --repeat 2 and a search for the highest rate."""
    folder = root / "20261120-101500-datacenter-server"
    row = replace(LLAMA3_1_8B, samples=84)
    folders = ("Accuracy", "Performance", "Performance/repeat_2", "Compliance/TEST06", "PeakQps/01")
    modes: tuple[Mode, ...] = ("accuracy", "performance", "performance", "test06", "performance")
    for name, mode in zip(folders, modes, strict=True):
        run = MadeRun(row, row.scenario("Server"), mode, V6_1)
        if mode == "performance":
            run.entries |= _SHORT_AND_VALID
        if name == "PeakQps/01":
            run.entries["result_validity"] = "INVALID"
        write_run(folder / name, run)
        if mode != "performance":
            (folder / name / ACCURACY).write_text(run.accuracy_json)
    scores = {score.name: score.value for score in EMBEDDED.reference.scores}
    scores["gen_num"] = EMBEDDED.reference.answers
    (folder / f"Accuracy/{EMBEDDED.scorer.name}.json").write_text(json.dumps(scores))
    write_meta(folder, scenario="Server", **SMOKE)
    return folder


@pytest.mark.parametrize(
    ("folder_given", "modes", "accuracy"),
    [
        ("", ["accuracy", "test06", "performance", "performance"], "passed"),
        ("*", ["accuracy", "test06", "performance", "performance"], "passed"),
        ("*/Performance", ["performance", "performance"], "not judged"),
        ("*/Compliance", ["test06"], None),
    ],
)
def test_every_run_of_an_own_result_is_judged_by_its_summary(
    tmp_path: Path, folder_given: Any, modes: Any, accuracy: Any
) -> None:
    write_own_result(tmp_path)
    (root,) = tmp_path.glob(folder_given) if folder_given else (tmp_path,)
    judged = judge_folder(root, smoke=True)
    assert [set(j.modes) for j in judged] == [{mode} for mode in modes]
    assert [(j.category, j.scenario) for j in judged] == [("datacenter", "Server")] * len(modes)
    assert [beside_agreement(j) for j in judged] == [[]] * len(modes)
    assert statuses(root, ACCURACY_TOO, smoke=True) == [accuracy] * modes.count("performance")


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

    def failed() -> list[str]:
        (folder / "checksums.json").write_text(json.dumps({"files": files}))
        verdicts = [v for judged in judge_folder(folder) for v in judged.verdicts]
        verdicts = [v for v in verdicts if v.rule == "kept_run_unchanged"]
        assert len(verdicts) == 4
        return [v.found for v in verdicts if not v.passed]

    assert failed() == []
    files[name] = "0" * 64
    assert failed() == [why]


@pytest.mark.parametrize(
    ("share", "valid", "status"),
    [(1.0, True, "passed"), (1.0001, True, "failed"), (1.0, False, "failed")],
)
def test_a_kept_figure_is_that_of_its_log(
    tmp_path: Path, share: float, valid: bool, status: str
) -> None:
    folder = write_own_result(tmp_path)
    (folder / "checksums.json").write_text(json.dumps({"files": {"made": "up"}}))
    log = read_logs(folder / "Performance").detail
    key = "result_completed_tokens_per_second"
    metric = {"name": key, "value": share * (log.number(key) or 0.0)}
    summary = json.loads((folder / "summary.json").read_text())
    summary["run"] = {"performance": {"metric": metric, "valid": valid}}
    (folder / "summary.json").write_text(json.dumps(summary))
    assert statuses(folder / "Performance", "kept_run_figure_agrees")[0] == status


def test_trial_runs_and_runs_far_below_are_judged_where_they_were_asked_for(tmp_path: Path) -> None:
    folder = write_own_result(tmp_path)
    (judged,) = judge_folder(folder / "PeakQps", smoke=True)
    assert (judged.scenario, beside_agreement(judged)) == ("Server", ["result_valid"])
    (folder / "x/y").mkdir(parents=True)
    (folder / "Compliance/TEST06").rename(folder / "x/y/z")
    assert failures_by_run(folder)["x-y-z"] == ["benchmark_known"]
    (folder / "summary.json").rename(tmp_path / "summary.json")
    assert any("PeakQps" in name for name in by_name(folder))


def test_hidden_folders_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / DETAIL).write_text(line("a", 1))
    assert not holds_logs(tmp_path)
    assert judge_folder(tmp_path) == []


def test_the_best_stands_first_and_no_figure_above_one_that_may_claim_more() -> None:
    def group(name: str, scenario: str, status: Status, **figures: Any) -> VerdictGroup:
        benchmark = LLAMA3_1_8B_EDGE if scenario == "SingleStream" else LLAMA3_1_8B
        parts = (Verdict("min_duration", status, "", ""),), ("performance",)
        of = JudgedFigures(RepeatFigures(**figures))
        return VerdictGroup(name, ROUNDS["v6.1"], benchmark, scenario, *parts, of)

    groups = [
        group("slow", "Offline", "passed", tokens_per_sec=90.0),
        group("late", "SingleStream", "passed", tokens_per_sec=9.0, latency_ms={"p90": 20.0}),
        group("broken", "Offline", "failed", tokens_per_sec=9000.0),
        group("served", "Server", "passed", tokens_per_sec=50.0),
        group("soon", "SingleStream", "passed", tokens_per_sec=8.0, latency_ms={"p90": 10.0}),
        group("fast", "Offline", "passed", tokens_per_sec=100.0),
    ]
    names = ["fast", "slow", "broken", "served", "soon", "late"]
    assert [row["result"] for row in csv.DictReader(judged_csv(groups).splitlines())] == names
    (table,) = figure_table_of(groups)
    claims = ["valid", "valid", "not valid", *["valid"] * 3]
    assert [row[:2] for row in table.rows] == [*zip(names, claims, strict=True)]
