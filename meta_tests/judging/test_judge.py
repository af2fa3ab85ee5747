"""Judging folders: submissions in both layouts, logs by themselves, and what is wrong with them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, line, write_run, write_submission
from mlperf_suite.benchmarks.definition import (
    BENCHMARKS,
    LLAMA2_70B_99,
    LLAMA2_70B_99_9,
    LLAMA3_1_8B,
    LLAMA3_1_8B_EDGE,
)
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.benchmarks.workload import EMBEDDED
from mlperf_suite.compliance.submission_rules import BENCHMARK_RULES, RESULT_RULES
from mlperf_suite.judging.judge import Judged, judge_folder
from mlperf_suite.judging.tree import find_runs, holds_logs
from mlperf_suite.loadgen.load_plan import Mode
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT.parent / "shared" / "data" / "submissions"
V5_1, V6_0, V6_1 = ROUNDS["v5.1"], ROUNDS["v6.0"], ROUNDS["v6.1"]
RESULT = Path("results/box/llama3.1-8b/Server")


def failed(root: Path, round_=None) -> dict[str, list[str]]:
    """The rules that failed, by what was judged."""
    return {j.name: j.failed_rules for j in judge_folder(root, round_) if j.failed_rules}


def found(root: Path, rule: str) -> list[str]:
    return [v.line for j in judge_folder(root) for v in j.verdicts if v.rule == rule]


def by_name(root: Path) -> dict[str, Judged]:
    return {j.name: j for j in judge_folder(root)}


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    """A whole closed submission of round v6.1."""
    return write_submission(tmp_path, LLAMA3_1_8B, V6_1)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    write_submission(root, LLAMA3_1_8B, V6_1)
    return root


# What is right


@pytest.mark.parametrize("round_", ROUNDS.values(), ids=lambda r: r.name)
@pytest.mark.parametrize("row", BENCHMARKS.values(), ids=lambda row: row.id)
def test_a_submission_that_obeys_every_rule_fails_none(tmp_path, row, round_):
    write_submission(tmp_path, row, round_)
    wrong = failed(tmp_path)
    if round_.name in row.rounds:
        assert wrong == {}
    else:
        assert list(wrong.values()) == [["benchmark_of_round"]]
    assert {j.round.name for j in judge_folder(tmp_path)} == {round_.name}


def test_an_open_submission_needs_no_gate_and_no_scenario(tmp_path):
    write_submission(tmp_path, LLAMA3_1_8B, V6_1, division="open", scenarios=("Server",))
    txt = tmp_path / "open/Someone" / RESULT / "accuracy/accuracy.txt"
    txt.write_text(re.sub(r"'rouge1': [\d.]+", "'rouge1': 1.0", txt.read_text()))
    assert failed(tmp_path) == {}
    assert set(by_name(tmp_path)) == {
        "open-Someone-box-llama3.1-8b",
        "open-Someone-box-llama3.1-8b-Server",
    }


def test_every_rule_of_a_submission_is_judged(submission, tmp_path):
    rules = {v.rule for j in judge_folder(tmp_path) for v in j.verdicts}
    assert {check.__name__ for check in (*RESULT_RULES, *BENCHMARK_RULES)} <= rules


def test_an_open_submission_may_have_its_own_names(tmp_path):
    write_submission(tmp_path, LLAMA3_1_8B, V6_1, division="open", name="my-llama")
    mapping = tmp_path / "open/Someone/model_mapping.json"
    assert list(failed(tmp_path).values()) == [["benchmark_known"]]
    mapping.write_text(json.dumps({"my-llama": "llama3.1-8b", "other": 3}))
    assert failed(tmp_path) == {}


def test_the_loadgen_key_and_any_case_of_a_scenario_are_taken(tmp_path):
    submission = write_submission(tmp_path, LLAMA3_1_8B, V6_1, name="llama3_1-8b")
    folder = submission / "results/box/llama3_1-8b"
    for name in ("Offline", "Server", "Interactive"):
        (folder / name).rename(folder / name.lower())
    assert failed(tmp_path) == {}


def test_any_folder_of_a_submission_may_be_given(submission, tmp_path):
    assert len(judge_folder(tmp_path / "closed")) == 4
    assert len(judge_folder(submission)) == 4
    one = {j.name: j for j in judge_folder(submission / RESULT)}
    assert set(one) == {"Someone-box-llama3.1-8b", "Someone-box-llama3.1-8b-Server"}
    assert all(not j.failed_rules for j in one.values())


def test_another_round_may_be_asked_for(submission, tmp_path):
    for name, rules in failed(tmp_path, V6_0).items():
        assert rules == ["seeds"], name
    wanted = failed(tmp_path, V5_1)
    assert all(rules == ["layout", "seeds"] for rules in wanted.values())


def test_a_submission_belongs_to_the_round_of_most_of_its_results(submission, tmp_path):
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance", V5_1)
    write_run(submission / RESULT / "performance/run_1", run)
    assert failed(tmp_path) == {"Someone-box-llama3.1-8b-Server": ["seeds"]}
    (line_,) = [x for x in found(tmp_path, "seeds") if "failed" in x]
    assert "the seeds of v5.1" in line_


@pytest.mark.parametrize(
    ("row", "rouge1", "low", "high"),
    [
        (LLAMA3_1_8B, 38.5, [], ["accuracy_rouge1", "accuracy_passed"]),
        (LLAMA3_1_8B, 38.75, [], []),
        (LLAMA2_70B_99, 44.3, [], ["accuracy_rouge1", "accuracy_passed"]),
        (LLAMA2_70B_99_9, 44.3, *[["accuracy_rouge1", "accuracy_passed"]] * 2),
    ],
)
def test_high_accuracy_only_makes_a_gate_stricter(tmp_path, row, rouge1, low, high):
    write_submission(tmp_path, row, V6_0, scenarios=("Offline", "Server"))
    folder = Path("closed/Someone/results/box") / row.id / "Server/accuracy"
    txt = tmp_path / folder / "accuracy.txt"
    txt.write_text(re.sub(r"'rouge1': [\d.]+", f"'rouge1': {rouge1}", txt.read_text()))
    for high_accuracy, rules in ((False, low), (True, high)):
        judged = judge_folder(tmp_path, high_accuracy=high_accuracy)
        assert [rule for one in judged for rule in one.failed_rules] == rules


# What is wrong: one damage, and the rules that see it

ACC, PERF, T06 = RESULT / "accuracy", RESULT / "performance/run_1", RESULT / "TEST06"


def _text(path: str | Path, old: str, new: str):
    def damage(submission: Path) -> None:
        file = submission / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return damage


def _gone(*paths: str | Path):
    def damage(submission: Path) -> None:
        for path in paths:
            target = submission / path
            shutil.rmtree(target) if target.is_dir() else target.unlink()

    return damage


def _empty(path: str | Path):
    return lambda submission: (submission / path).write_text("")


ACCURACY_TOO = "accuracy_passed"
DAMAGES = {
    "rouge below its gate": (
        _text(ACC / "accuracy.txt", "'rouge2': 15.9075", "'rouge2': 15.7"),
        {"accuracy_rouge2", ACCURACY_TOO},
    ),
    "a score said twice": (
        _text(ACC / "accuracy.txt", "'rouge2'", "'rouge2': 99.0, 'rouge2'"),
        {"accuracy_rouge2", ACCURACY_TOO},
    ),
    "a score that is none": (
        _text(ACC / "accuracy.txt", "'rougeL': 24.4957", "'rougeL': nan"),
        {"accuracy_rougel", ACCURACY_TOO},
    ),
    "no hash": (_text(ACC / "accuracy.txt", "hash=", "hash: "), {"accuracy_hash", ACCURACY_TOO}),
    "gen_len too long": (
        _text(ACC / "accuracy.txt", "8167644.0", "9000000"),
        {"accuracy_gen_len", ACCURACY_TOO},
    ),
    "a part of the data": (
        _text(ACC / "accuracy.txt", "'gen_num': 13368.0", "'gen_num': 5000"),
        {"accuracy_every_sample", ACCURACY_TOO},
    ),
    "an accuracy log that is not cut": (
        lambda s: (s / ACC / ACCURACY).write_text("x" * 20_000),
        {"accuracy_log_is_cut", ACCURACY_TOO},
    ),
    "another system in accuracy": (_text(ACC / DETAIL, "PySUT", "OtherSUT"), {"same_system"}),
    "no README": (_gone(RESULT / "README.md"), {"required_files"}),
    "an empty user.conf": (_empty(RESULT / "user.conf"), {"required_files"}),
    "no sources": (_gone("src"), {"required_files"}),
    "no summary": (_gone(PERF / "mlperf_log_summary.txt"), {"required_files"}),
    "no system description": (
        _gone("systems/box.json"),
        {"required_files", "system_description", "system_fields"},
    ),
    "a system description that is not JSON": (
        _text("systems/box.json", "{", ""),
        {"system_description", "system_fields"},
    ),
    "another submitter": (
        _text("systems/box.json", "Someone", "Somebody"),
        {"system_description"},
    ),
    "a system that says nothing of its cooling": (
        _text("systems/box.json", '"cooling": "made up"', '"cooling": ""'),
        {"system_fields"},
    ),
    "a system without a field that may be empty": (
        _text("systems/box.json", '"hw_notes"', '"notes"'),
        {"system_fields"},
    ),
    "a system behind a network in the closed division": (
        _text("systems/box.json", "{", '{"is_network": "true", '),
        {"system_description"},
    ),
    "an edge system": (_text("systems/box.json", "datacenter", "edge"), {"system_description"}),
    "a field of the measurements": (
        _text(RESULT / "measurements.json", "weight_data_types", "weights"),
        {"measurements"},
    ),
    "measurements that are not JSON": (
        _text(RESULT / "measurements.json", "{", "["),
        {"measurements"},
    ),
    "TEST06 failed": (
        _text(T06 / "verify_accuracy.txt", "EOS check pass: True", "EOS check pass: False"),
        {"test06_verified"},
    ),
    "TEST06 skipped its first tokens": (
        _text(T06 / "verify_accuracy.txt", "First token check pass: True", "First token: Skipped"),
        {"test06_verified"},
    ),
    "TEST06's answers are cut": (
        _text(T06 / "accuracy" / ACCURACY, "]", ""),
        {
            "test06_log_is_whole",
            "test06_sample_count",
            "test06_first_token",
            "test06_eos",
            "test06_token_count",
        },
    ),
    "a first token that is another": (
        _text(
            T06 / "accuracy" / ACCURACY, '"qsl_idx": 7, "data": "0B', '"qsl_idx": 7, "data": "0C'
        ),
        {"test06_first_token"},
    ),
    "a run that is not VALID": (
        _text(PERF / DETAIL, '"value": "VALID"', '"value": "INVALID"'),
        {"result_valid"},
    ),
    "a shorter run": (_text(PERF / DETAIL, "600000", "60000"), {"min_duration"}),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_seen_by_its_rules_alone(name, submission, tmp_path):
    damage, rules = DAMAGES[name]
    damage(submission)
    wrong = failed(tmp_path)
    assert {rule for names in wrong.values() for rule in names} == rules
    of_every_result = {"system_description", "system_fields"}
    if not rules & of_every_result and name != "no sources":
        assert set(wrong) == {"Someone-box-llama3.1-8b-Server"}


@pytest.mark.parametrize("status", ["sold", ""])
def test_a_systems_wrong_status_is_told_with_those_allowed(submission, tmp_path, status):
    rule = "system_description"

    def told():
        return [
            v
            for v in by_name(tmp_path)["Someone-box-llama3.1-8b-Server"].verdicts
            if v.rule == rule
        ]

    (held,) = told()
    assert held.found == "Someone, closed, datacenter, status available"
    _text("systems/box.json", '"status": "available"', f'"status": "{status}"')(submission)
    (refused,) = told()
    assert (refused.status, refused.found) == ("failed", f"status '{status}'")
    required = "Someone, closed, datacenter, status available or preview or rdi"
    assert refused.required == required


def test_interactive_is_held_to_its_own_limits(submission, tmp_path):
    log = submission / "results/box/llama3.1-8b/Interactive/performance/run_1" / DETAIL
    log.write_text(log.read_text().replace("450000000", "1500000000"))
    assert failed(tmp_path) == {"Someone-box-llama3.1-8b-Interactive": ["ttft_limit"]}


def test_files_in_the_other_layout_fail_the_layout_alone(tmp_path):
    write_submission(tmp_path, LLAMA3_1_8B, V5_1)
    assert failed(tmp_path) == {}
    wrong = failed(tmp_path, V6_1)
    assert {tuple(rules) for rules in wrong.values()} == {("layout", "seeds")}


def test_both_layouts_at_once_fail_the_layout(submission, tmp_path):
    (submission / "compliance/box/llama3.1-8b/Server").mkdir(parents=True)
    assert failed(tmp_path) == {"Someone-box-llama3.1-8b-Server": ["layout"]}


@pytest.mark.parametrize(
    ("row", "scenarios", "why"),
    [
        (LLAMA3_1_8B, ("Offline",), "no Server or Interactive"),
        (LLAMA3_1_8B, ("Server", "Interactive"), "no Offline"),
        (LLAMA3_1_8B, ("Offline", "Interactive"), None),
        (LLAMA3_1_8B_EDGE, ("Offline",), "no SingleStream"),
        (LLAMA3_1_8B_EDGE, ("SingleStream",), "no Offline"),
    ],
)
def test_required_scenarios(tmp_path, row, scenarios, why):
    write_submission(tmp_path, row, V6_0, scenarios=scenarios)
    (said,) = found(tmp_path, "required_scenarios")
    assert (": failed:" in said) == (why is not None)
    assert why is None or why in said


def test_an_unknown_benchmark_is_named_and_fails(tmp_path):
    write_submission(tmp_path, LLAMA3_1_8B, V6_1, name="resnet50")
    judged = by_name(tmp_path)["Someone-box-resnet50"]
    assert judged.failed_rules == ["benchmark_known"]
    assert not any(v.passed for v in judged.verdicts if v.rule != "division_known")
    assert "resnet50, an unknown benchmark" in found(tmp_path, "benchmark_known")[0]


def test_an_unknown_scenario_is_named_and_fails(submission, tmp_path):
    (submission / "results/box/llama3.1-8b/MultiStream").mkdir()
    assert failed(tmp_path) == {"Someone-box-llama3.1-8b": ["scenarios_known"]}
    assert "MultiStream" in found(tmp_path, "scenarios_known")[0]


def test_the_network_division_is_named_and_fails(submission, tmp_path):
    (tmp_path / "closed").rename(tmp_path / "network")
    assert ["division_known"] in failed(tmp_path).values()


@pytest.mark.parametrize("folder", ["performance", "accuracy", "TEST06"])
def test_a_missing_run_fails_and_never_raises(submission, tmp_path, folder):
    shutil.rmtree(submission / RESULT / folder)
    wrong = failed(tmp_path)["Someone-box-llama3.1-8b-Server"]
    assert "required_files" in wrong
    of_run = {"performance": "result_valid", "accuracy": "accuracy_rouge1", "TEST06": "test06_eos"}
    assert of_run[folder] in wrong


def test_an_empty_scenario_folder_fails_what_it_lacks(submission, tmp_path):
    shutil.rmtree(submission / RESULT)
    (submission / RESULT).mkdir()
    wrong = failed(tmp_path)["Someone-box-llama3.1-8b-Server"]
    assert {"layout", "required_files", "result_valid", "accuracy_log_is_whole"} <= set(wrong)


def test_a_system_without_results_is_named_and_fails(submission, tmp_path):
    shutil.copy(submission / "systems/box.json", submission / "systems/idle.json")
    assert failed(tmp_path) == {"Someone-idle": ["system_has_results"]}
    shutil.rmtree(submission / "results")
    (submission / "results").write_text("")
    assert set(failed(tmp_path)) == {"Someone-idle", "Someone-box"}


def test_a_second_run_is_judged_under_its_own_name(submission, tmp_path):
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance", V6_1)
    run.entries["result_validity"] = "INVALID"
    write_run(submission / RESULT / "performance/run_2", run)
    assert failed(tmp_path) == {"Someone-box-llama3.1-8b-Server": ["run_2-result_valid"]}


def test_test06_settings_are_judged_where_their_log_is_there(submission, tmp_path):
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "test06", V6_1)
    write_run(submission / T06 / "performance/run_1", run)
    statuses = {
        v.rule: v.status
        for v in by_name(tmp_path)["Someone-box-llama3.1-8b-Server"].verdicts
        if v.rule.startswith("test06")
    }
    assert set(statuses.values()) == {"passed"}
    run.entries["effective_min_duration_ms"] = 600_000
    write_run(submission / T06 / "performance/run_1", run)
    assert failed(tmp_path) == {"Someone-box-llama3.1-8b-Server": ["test06_settings"]}


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_no_damage_to_any_file_raises_or_passes_unseen(untouched, tmp_path, data):
    root = tmp_path / "tree"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(untouched, root)
    files = sorted(p for p in root.rglob("*") if p.is_file())
    file = data.draw(st.sampled_from(files))
    content = file.read_bytes()
    kind = data.draw(st.sampled_from(["gone", "folder", "noise", "link", "empty"]))
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "noise":
        file.write_bytes(data.draw(st.binary(max_size=200)))
    elif kind == "link":
        file.symlink_to(file.name)
    elif kind == "empty":
        file.write_bytes(b"")
    judged = judge_folder(root)
    unread = ("user.conf", "README.md", "mlperf_log_summary.txt")
    if kind != "noise" or file.name not in unread:
        # The cut accuracy log is judged by its size alone, and noise may have one.
        cut = file.name == ACCURACY and "TEST06" not in file.parts and kind == "noise"
        assert cut or any(j.failed_rules for j in judged), (file, kind, content[:20])


# Logs by themselves


def write_loose(root: Path, row, scenario: str, name: str = "somewhere") -> Path:
    accuracy = MadeRun(row, row.scenario(scenario), "accuracy", V6_1)
    folder = root / name
    write_run(folder / "acc", accuracy)
    (folder / "acc" / ACCURACY).write_text(accuracy.accuracy_json)
    (folder / "acc/accuracy.txt").write_text(accuracy.accuracy_txt)
    write_run(folder / "perf", MadeRun(row, row.scenario(scenario), "performance", V6_1))
    return folder


@pytest.mark.parametrize("scenario", ["Offline", "Server", "Interactive"])
def test_loose_logs_are_known_by_what_they_say(tmp_path, scenario):
    write_loose(tmp_path, LLAMA3_1_8B, scenario)
    judged = by_name(tmp_path)
    assert set(judged) == {"somewhere-acc", "somewhere-perf"}
    for one in judged.values():
        assert (one.scenario, one.category, one.round) == (scenario, "datacenter", V6_1)
        assert all(v.passed for v in one.verdicts), [v.line for v in one.verdicts if not v.passed]


def test_loose_accuracy_without_figures_is_not_judged_by_them(tmp_path):
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    (folder / "acc/accuracy.txt").unlink()
    assert failed(tmp_path) == {}
    statuses = {v.rule: v.status for v in by_name(tmp_path)["somewhere-acc"].verdicts}
    assert statuses["accuracy_rouge1"] == "not judged"
    statuses = {v.rule: v.status for v in by_name(tmp_path)["somewhere-perf"].verdicts}
    assert statuses["accuracy_passed"] == "not judged"


def test_loose_performance_counts_only_with_its_accuracy(tmp_path):
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    txt = folder / "acc/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "30.0"))
    assert failed(tmp_path) == {
        "somewhere-acc": ["accuracy_rouge1"],
        "somewhere-perf": ["accuracy_passed"],
    }


def test_loose_accuracy_may_be_held_to_the_high_gate(tmp_path):
    folder = write_loose(tmp_path, LLAMA3_1_8B, "Offline")
    txt = folder / "acc/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "38.5"))
    assert failed(tmp_path) == {}
    wrong = [j.failed_rules for j in judge_folder(tmp_path, high_accuracy=True)]
    assert wrong == [["accuracy_rouge1"], ["accuracy_passed"]]


def test_loose_logs_of_no_known_benchmark_fail_and_say_so(tmp_path):
    write_run(tmp_path / "x", MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance"))
    log = tmp_path / "x" / DETAIL
    log.write_text(log.read_text().replace("13368", "777"))
    assert failed(tmp_path) == {"x": ["benchmark_known"]}
    assert "logs of 777 samples" in found(tmp_path, "benchmark_known")[0]


def judge_as(folder: Path, row, scenario: str, rouge1: float | None = None) -> list[Judged]:
    """Write a valid run of each mode into the folder, and judge the folder."""
    write_loose(folder.parent, row, scenario, folder.name)
    if rouge1 is not None:
        txt = folder / "acc/accuracy.txt"
        txt.write_text(re.sub(r"'rouge1': [\d.]+", f"'rouge1': {rouge1}", txt.read_text()))
    return judge_folder(folder)


@pytest.mark.parametrize("above", ["open", "server", "TEST06", "llama3.1-8b", "llama2-70b-99"])
@pytest.mark.parametrize(
    ("row", "scenario"),
    [(LLAMA3_1_8B, "Offline"), (LLAMA3_1_8B, "Server"), (LLAMA3_1_8B_EDGE, "SingleStream")],
)
def test_where_loose_logs_are_kept_says_nothing_about_them(tmp_path, above, row, scenario):
    judged = judge_as(tmp_path / above / "run", row, scenario, rouge1=10)
    assert [(j.category, j.scenario) for j in judged] == [(row.category, scenario)] * 2
    assert [j.failed_rules for j in judged] == [["accuracy_rouge1"], ["accuracy_passed"]]


@pytest.mark.parametrize("name", ["server", "Interactive", "Offline", "llama3.1-8b"])
@pytest.mark.parametrize(
    ("row", "scenario"),
    [
        (LLAMA3_1_8B, "Offline"),
        (LLAMA3_1_8B, "Server"),
        (LLAMA3_1_8B, "Interactive"),
        (LLAMA3_1_8B_EDGE, "SingleStream"),
    ],
)
def test_a_loose_log_wins_over_its_folders_names(tmp_path, name, row, scenario):
    judged = judge_as(tmp_path / name, row, scenario)
    judged += judge_folder(tmp_path)
    assert {(j.category, j.scenario) for j in judged} == {(row.category, scenario)}
    assert [j.failed_rules for j in judged] == [[]] * 4


@pytest.mark.parametrize("name", ["Server", "interactive"])
def test_a_folders_name_tells_server_and_interactive_apart_where_limits_do_not(tmp_path, name):
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Interactive"), "performance", V6_1)
    run.entries["requested_server_ttft_latency"] = 123
    write_run(tmp_path / name, run)
    assert [j.scenario for j in judge_folder(tmp_path / name)] == [name.capitalize()]
    assert [j.scenario for j in judge_folder(tmp_path)] == [name.capitalize()]


@pytest.mark.parametrize(("name", "gate_failed"), [("llama2-70b-99", 0), ("llama2-70b-99.9", 2)])
def test_a_folders_name_tells_benchmarks_of_as_many_samples_apart(tmp_path, name, gate_failed):
    row = LLAMA2_70B_99
    folder = tmp_path / name / "Offline"
    assert sum(len(j.failed_rules) for j in judge_as(folder, row, "Offline", rouge1=44.3)) == 0
    judged = judge_folder(tmp_path)
    assert sum(len(j.failed_rules) for j in judged) == gate_failed


def test_names_decide_where_a_loose_log_says_nothing(tmp_path):
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1)
    del run.entries["effective_scenario"], run.entries["qsl_reported_total_count"]
    write_run(tmp_path / "llama3.1-8b" / "Offline", run)
    (judged,) = judge_folder(tmp_path)
    assert (judged.category, judged.scenario) == ("datacenter", "Offline")
    (judged,) = judge_folder(tmp_path / "llama3.1-8b" / "Offline")
    assert judged.failed_rules == ["benchmark_known"]


@pytest.mark.parametrize("said", ["MultiStream", "Interactive", "offline", 3])
def test_a_scenario_that_loadgen_does_not_have_is_never_passed(tmp_path, said):
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1)
    run.entries["effective_scenario"] = said
    write_run(tmp_path / "Offline", run)
    assert failed(tmp_path) == {"Offline": ["scenarios_known"]}


def test_loose_logs_are_open_by_a_folder_that_was_given(tmp_path):
    folder = tmp_path / "open" / "run"
    judge_as(folder, LLAMA3_1_8B, "Offline", rouge1=10)
    assert failed(tmp_path / "open") == failed(tmp_path) == {}


@pytest.mark.parametrize(
    ("row", "scenario"),
    [
        (LLAMA3_1_8B_EDGE, "Offline"),
        (LLAMA3_1_8B, "Offline"),
        (LLAMA3_1_8B, "Interactive"),
    ],
)
def test_accuracy_is_taken_from_the_same_benchmark_and_scenario(tmp_path, row, scenario):
    def status() -> str:
        (one,) = [v for j in judge_folder(tmp_path) for v in j.verdicts if v.rule == ACCURACY_TOO]
        return one.status

    other = write_loose(tmp_path, row, scenario)
    shutil.rmtree(other / "perf")
    server = LLAMA3_1_8B.scenario("Server")
    write_run(other / "dc_perf", MadeRun(LLAMA3_1_8B, server, "performance", V6_1))
    assert status() == "not judged"
    write_loose(tmp_path / "x", LLAMA3_1_8B, "Server")
    (tmp_path / "x/somewhere/acc").rename(other / "dc_acc")
    shutil.rmtree(tmp_path / "x")
    assert status() == "passed"


def test_a_smoke_result_of_this_suite_is_judged_as_smoke(tmp_path):
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", V6_1)
    run.entries["effective_min_duration_ms"] = 10_000
    write_run(tmp_path / "Performance", run)
    meta = {
        "benchmark": "llama3.1-8b",
        "scenario": "Offline",
        "profile": "smoke",
        "round": "v6.1",
        "model": EMBEDDED.model,
        "dataset": EMBEDDED.dataset,
    }
    (tmp_path / "summary.json").write_text(json.dumps({"meta": meta}))
    (judged,) = judge_folder(tmp_path)
    assert judged.failed_rules == []
    assert [v.rule for v in judged.verdicts if v.status == "shortened"] == ["min_duration"]


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
    scores = EMBEDDED.baselines["datacenter"]
    rouge = {**scores.rouge, "run_gen_len": scores.gen_len, "run_gen_num": scores.gen_num}
    (folder / "Accuracy/rouge.json").write_text(json.dumps(rouge))
    meta = {
        "benchmark": "llama3.1-8b",
        "scenario": "Server",
        "profile": "smoke",
        "round": "v6.1",
        "model": EMBEDDED.model,
        "dataset": EMBEDDED.dataset,
    }
    (folder / "summary.json").write_text(json.dumps({"meta": meta}))
    return folder


@pytest.mark.parametrize(
    ("given", "modes", "accuracy"),
    [
        (".", ["accuracy", "test06", "performance", "performance"], "passed"),
        ("*", ["accuracy", "test06", "performance", "performance"], "passed"),
        ("*/Performance", ["performance", "performance"], "not judged"),
        ("*/Compliance", ["test06"], None),
    ],
)
def test_every_run_of_an_own_result_is_judged_by_its_summary(tmp_path, given, modes, accuracy):
    write_own_result(tmp_path)
    (root,) = tmp_path.glob(given) if given != "." else (tmp_path,)
    judged = judge_folder(root)
    assert [set(j.modes) for j in judged] == [{mode} for mode in modes]
    assert [(j.category, j.scenario) for j in judged] == [("datacenter", "Server")] * len(modes)
    assert [j.failed_rules for j in judged] == [[]] * len(modes)
    counted = [v.status for j in judged for v in j.verdicts if v.rule == ACCURACY_TOO]
    assert counted == [accuracy] * modes.count("performance")


def test_a_summary_far_above_says_nothing_of_a_run(tmp_path):
    folder = write_own_result(tmp_path)
    (folder / "x/y").mkdir(parents=True)
    (folder / "Compliance/TEST06").rename(folder / "x/y/z")
    assert failed(folder) == {"x-y-z": ["benchmark_known"]}
    assert failed(folder / "x/y/z") == {"z": ["benchmark_known"]}


def test_trial_runs_of_a_search_are_judged_only_where_they_were_asked_for(tmp_path):
    folder = write_own_result(tmp_path)
    (judged,) = judge_folder(folder / "PeakQps")
    assert (judged.scenario, judged.failed_rules) == ("Server", ["result_valid"])
    (folder / "summary.json").rename(tmp_path / "summary.json")
    assert any("PeakQps" in name for name in by_name(folder))


def test_an_audit_run_is_known_by_its_seed(tmp_path):
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "test06", V6_1)
    write_run(tmp_path / "x", run)
    (tmp_path / "x" / ACCURACY).write_text(run.accuracy_json)
    (judged,) = judge_folder(tmp_path)
    assert {v.rule.partition("_")[0] for v in judged.verdicts} == {"test06"}
    assert judged.failed_rules == []


def test_logs_are_found_and_hidden_folders_are_not(tmp_path):
    assert not holds_logs(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / DETAIL).write_text(line("a", 1))
    assert not holds_logs(tmp_path)
    assert find_runs(tmp_path).loose == ()


# Through pytest


def pytest_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_each_rule_of_each_run_is_a_test_of_its_name(submission, tmp_path):
    log = submission / PERF / DETAIL
    log.write_text(log.read_text().replace("600000", "60000"))
    done = pytest_run("-m", "compliance", f"--logs={tmp_path}", "-q", "-rfs")
    name = "Someone-box-llama3.1-8b-Server"
    assert done.returncode == 1
    assert f"FAILED tests/compliance/test_logs.py::test_rule[{name}-min_duration]" in done.stdout
    assert "found 60,000 ms, required at least 600,000 ms" in done.stdout
    assert f"{name} v6.1:" in done.stdout
    assert "1 failed" in done.stdout


@pytest.mark.parametrize("option", [(), ("--high-accuracy",)])
def test_the_high_gate_is_asked_for_by_its_option(submission, tmp_path, option):
    txt = submission / ACC / "accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "38.5"))
    done = pytest_run("-m", "compliance", f"--logs={tmp_path}", "-q", *option)
    wrong = set(re.findall(r"FAILED .*-(accuracy_\w+)\]", done.stdout))
    assert wrong == ({"accuracy_rouge1", "accuracy_passed"} if option else set())
    assert done.returncode == (1 if option else 0)


def test_a_marker_picks_from_the_logs(submission, tmp_path):
    done = pytest_run("-m", "server and performance", f"--logs={tmp_path}", "--collect-only", "-q")
    tests = [t for t in done.stdout.splitlines() if "::" in t]
    assert tests and all("-Server-" in t for t in tests)


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("nowhere", "no such folder"),
        ("empty", "no LoadGen log"),
        ("searched", "only trial runs of a search"),
    ],
)
def test_a_folder_without_logs_is_a_usage_error(tmp_path, folder, said):
    (tmp_path / "empty").mkdir()
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    write_run(tmp_path / "searched/PeakQps/01", run)
    (tmp_path / "searched/summary.json").write_text("{}")
    done = pytest_run(f"--logs={tmp_path / folder}")
    assert done.returncode == 4
    assert f"--logs {tmp_path / folder}: {said}" in done.stderr


def test_without_logs_there_is_no_test_of_them():
    done = pytest_run("tests/compliance", "--collect-only", "-q")
    assert "test_logs" not in done.stdout


def test_judging_loads_no_engine(submission, tmp_path):
    code = (
        "import sys, pathlib\n"
        "from mlperf_suite.judging.judge import judge_folder\n"
        f"assert judge_folder(pathlib.Path({str(tmp_path)!r}))\n"
        "heavy = {'vllm', 'torch', 'transformers', 'mlperf_loadgen', 'datasets'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


# Logs of real submissions


@pytest.mark.skipif(not REAL.is_dir(), reason="no real submissions beside the repository")
def test_real_logs_pass_every_rule_about_logs():
    judged = judge_folder(REAL)
    assert {j.round.name for j in judged} == {"v5.1"}
    runs = [j for j in judged if j.scenario]
    assert len(runs) == 4
    for one in runs:
        # The files are a part of a sample tree: v5.1's logs, laid out as v6 wants them.
        assert one.failed_rules == ["layout", "required_files"], one.name


@pytest.mark.skipif(not REAL.is_dir(), reason="no real submissions beside the repository")
@pytest.mark.parametrize("key", ["result_validity", "early_stopping_met", "num_errors"])
def test_a_line_taken_out_of_a_real_log_is_missed(tmp_path, key):
    for log in REAL.rglob("run_1/mlperf_log_detail.txt"):
        target = tmp_path / log.relative_to(REAL)
        target.parent.mkdir(parents=True)
        lines = log.read_text().splitlines()
        target.write_text("\n".join(x for x in lines if f'"key": "{key}"' not in x))
    rules = {"result_validity": "result_valid", "num_errors": "log_is_whole"}
    for one in judge_folder(tmp_path):
        if one.scenario and not (key == "early_stopping_met" and one.scenario == "Offline"):
            assert rules.get(key, "early_stopping") in one.failed_rules


def test_the_table_has_every_benchmark_once():
    assert len({b.id for b in BENCHMARKS.values()}) == len(BENCHMARKS) == 6
    assert LLAMA2_70B_99.id in BENCHMARKS
