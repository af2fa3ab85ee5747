"""Judging submissions that are damaged: the rules that see it, and nothing that raises."""

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.submission_check.made_submissions import system_fields, write_submission
from meta_tests.judging.trees import (
    ALSO_SEEN,
    RESULT,
    ROOT,
    V5_1,
    V6_0,
    V6_1,
    broken_rules,
    by_name,
    failures_by_run,
    independent_failures,
    known_rules,
    verdict_lines,
)
from meta_tests.made_runs import MadeRun, write_run
from meta_tests.tampering.edits import at, bytes_edited, removed, replaced, text_edited
from meta_tests.tampering.member_changes import GONE, change_file
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.features.submission_check.submission_rules import (
    SYSTEM_FIELDS_OF_A_NETWORK,
    missing_system_fields,
)
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL

Change = Callable[[Path], object]
SERVER = "Someone-box-llama3.1-8b-Server"


@pytest.fixture(scope="module")
def both_categories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed submission of both forms of Llama 3.1 8B."""
    root = tmp_path_factory.mktemp("both")
    for benchmark in (LLAMA3_1_8B, LLAMA3_1_8B_EDGE):
        submission = write_submission(root, benchmark, V6_1)
    system = submission / "systems/box.json"
    system.write_text(system.read_text().replace('"edge"', '"datacenter,edge"'))
    return root


def hidden_folder(beside: str) -> Change:
    return lambda folder: (folder / beside).with_name(".git").mkdir()


def renamed(path: str, name: str) -> Change:
    return lambda folder: (folder / path).rename((folder / path).with_name(name))


def settings(text: str) -> Change:
    return text_edited(at(f"{RESULT}/user.conf"), lambda _: text)


def field(name: str, value: object) -> Change:
    """A field of the system's description is another, or None: gone."""
    return lambda folder: change_file(SYSTEM(folder), {name: GONE if value is None else value})


SYSTEM, MEASUREMENTS = at("systems/box.json"), at(f"{RESULT}/measurements.json")
ACCURACY_TXT, VERIFIED = (
    at(f"{RESULT}/accuracy/accuracy.txt"),
    at(f"{RESULT}/TEST06/verify_accuracy.txt"),
)
AUDIT = at(f"{RESULT}/TEST06/accuracy/{ACCURACY}")
OF_SYSTEM = "system_description system_fields"
OF_ANSWERS = (
    "test06_log_is_whole test06_sample_count test06_first_token test06_eos test06_token_count"
)
DAMAGES: list[tuple[str, Change]] = [
    ("required_files", removed(at(f"{RESULT}/README.md"))),
    ("user_conf", settings("*.Server.target_qps = 9\n*.*.schedule_rng_seed = 7\n")),
    ("user_conf", settings("llama2-70b.Server.target_qps = 9\n")),
    ("", settings("llama2-70b.Server.target_qps = 9\nllama3_1-8b.*.target_qps = 9 # a seed\n")),
    ("", settings("# *.*.qsl_rng_seed = 7\n")),
    ("required_files", removed(at("src"))),
    ("layout", renamed("src", "code")),
    ("measurements", renamed(f"{RESULT}/measurements.json", "box.json")),
    ("required_files", bytes_edited(ACCURACY_TXT, lambda raw: raw + b"\xff\n")),
    (f"required_files {OF_SYSTEM}", removed(SYSTEM)),
    (f"required_files {OF_ANSWERS} test06_verified", removed(at(f"{RESULT}/TEST06"))),
    ("required_scenarios", removed(at("results/box/llama3.1-8b-edge/SingleStream"))),
    ("measurements", replaced(": .made up.", ': ""', MEASUREMENTS, 1)),
    ("measurements", replaced("{", "[", MEASUREMENTS)),
    ("measurements", replaced("{", '{"retraining": "", ', MEASUREMENTS)),
    ("measurements", lambda folder: change_file(MEASUREMENTS(folder), {"retraining": "Yes"})),
    ("", lambda folder: change_file(MEASUREMENTS(folder), {"retraining": "No"})),
    ("system_description", field("status", "sold")),
    ("system_fields", field("cooling", "air\nclosed,Someone,other")),
    ("", field("cooling", "air\n")),
    ("system_fields", field("sw_notes", 8)),
    (OF_SYSTEM, field("is_network", "true")),
    (OF_SYSTEM, replaced("{", "", SYSTEM)),
    (OF_SYSTEM, replaced(r"^\{", '{"accelerators_per_node": "1", ', SYSTEM, 1)),
    ("system_has_results", hidden_folder("")),
    ("system_has_results", hidden_folder("results/box")),
    ("benchmark_known", hidden_folder("results/box/llama3.1-8b")),
    ("scenarios_known", hidden_folder("results/box/llama3.1-8b/Offline")),
    ("accuracy_rouge2", replaced("'rouge2'", "'rouge2': 99.0, 'rouge2'", ACCURACY_TXT)),
    ("accuracy_every_sample", replaced("'gen_num': 13368.0", "'gen_num': 5000", ACCURACY_TXT)),
    ("same_system", replaced("PySUT", "Other", at(f"{RESULT}/accuracy/{DETAIL}"))),
    (OF_ANSWERS, replaced("]", "", AUDIT)),
    ("test06_verified", text_edited(VERIFIED, lambda text: text + "TEST FAIL\n")),
]


@pytest.mark.parametrize(("rules", "change"), DAMAGES)
def test_a_damage_is_seen_by_its_rules(
    rules: str, change: Change, both_categories: Path, tmp_path: Path
) -> None:
    shutil.copytree(both_categories, tmp_path / "tree")
    change(tmp_path / "tree/closed/Someone")
    assert set(broken_rules(tmp_path / "tree", V6_1)) - ALSO_SEEN == set(rules.split())


@pytest.mark.parametrize(
    ("pattern", "new"),
    [(r"^(\{.*\}),$", r"\1,\n\1,"), (r"^\{.*\},\n", ""), (r'("qsl_idx" : )\d', r"\g<1>1")],
    ids=["an answer twice", "an answer left out", "another sample"],
)
def test_answers_that_loadgen_would_not_log_are_seen(
    both_categories: Path, tmp_path: Path, pattern: str, new: str
) -> None:
    shutil.copytree(both_categories, tmp_path / "tree")
    replaced(pattern, new, AUDIT, 1)(tmp_path / "tree/closed/Someone")
    assert broken_rules(tmp_path / "tree", V6_1) == known_rules(["test06_issue_order"])


def test_interactive_is_held_to_its_own_limits(submission: Path, tmp_path: Path) -> None:
    log = submission / "results/box/llama3.1-8b/Interactive/performance/run_1" / DETAIL
    log.write_text(re.sub(r"\b4500(\d{5})\b", r"15000\1", log.read_text()))
    assert independent_failures(tmp_path) == {"Someone-box-llama3.1-8b-Interactive": ["ttft_limit"]}


def test_files_in_the_other_layout_fail_the_layout_alone(tmp_path: Path) -> None:
    write_submission(tmp_path, LLAMA3_1_8B, V5_1)
    assert failures_by_run(tmp_path) == {}
    wrong = failures_by_run(tmp_path, V6_1)
    assert {tuple(rules) for rules in wrong.values()} == {("layout", "seeds")}
    (file,) = tmp_path.glob("closed/*/measurements/box/*/Server/box*.json")
    (tmp_path / "closed/Someone/code").rename(tmp_path / "closed/Someone/src")
    file.rename(file.with_name("measurements.json"))
    assert "no box*.json in measurements/box/" in "".join(verdict_lines(tmp_path, "measurements"))
    assert failures_by_run(tmp_path)[SERVER] == ["layout", "measurements"]


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
def test_required_scenarios(tmp_path: Path, row: Any, scenarios: Any, why: Any) -> None:
    write_submission(tmp_path, row, V6_0, scenarios=scenarios)
    (line,) = verdict_lines(tmp_path, "required_scenarios")
    assert (": failed:" in line) == (why is not None)
    assert why is None or why in line


def test_an_unknown_benchmark_is_named_and_fails(tmp_path: Path) -> None:
    write_submission(tmp_path, LLAMA3_1_8B, V6_1, name="resnet50")
    judged = by_name(tmp_path)["Someone-box-resnet50"]
    assert judged.failed_rules == ["benchmark_known"]
    assert not any(v.passed for v in judged.verdicts if v.rule != "division_known")
    assert "resnet50, an unknown benchmark" in verdict_lines(tmp_path, "benchmark_known")[0]


@pytest.mark.parametrize(
    ("folder", "failures"),
    [
        ("results/box/bert-99/Offline", {}),
        ("results/box/retinanet/Offline", {"Someone-box-retinanet": ["benchmark_of_round"]}),
        ("results/box/llama3.1-8b/MultiStream", {"Someone-box-llama3.1-8b": ["scenarios_known"]}),
        ("compliance/box/llama3.1-8b/Server", {SERVER: ["layout"]}),
    ],
    ids=["another benchmark of MLPerf", "another round's", "another scenario", "both layouts"],
)
def test_what_is_not_judged_is_named(
    submission: Path, tmp_path: Path, folder: str, failures: dict[str, list[str]]
) -> None:
    (submission / folder).mkdir(parents=True)
    assert failures_by_run(tmp_path) == failures | {"Someone": ["submission_upload"]}
    if not failures:
        verdicts = by_name(tmp_path)["Someone-box-bert-99"].verdicts
        assert {v.status for v in verdicts} == {"not judged"}


@pytest.mark.parametrize("place", ["Closed/Someone", "x/closed/level/Someone", "Someone"])
def test_a_tree_in_no_division_is_refused_in_one_line(
    submission: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "root" / place).parent.mkdir(parents=True)
    submission.rename(tmp_path / "root" / place)
    (group,) = judge_folder(tmp_path / "root")
    assert [v.status for v in group.verdicts] == ["failed"]
    assert "closed/<submitter>/" in group.verdicts[0].line


def test_a_linked_run_is_named(submission: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root/run").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root/here").symlink_to(tmp_path / "root")
    (group,) = judge_folder(tmp_path / "root")
    assert [v.status for v in group.verdicts] == ["not judged"]
    assert f"--logs {tmp_path / 'root/run'}" in group.verdicts[0].why


def test_a_linked_benchmark_is_judged(submission: Path, tmp_path: Path) -> None:
    """Of a submission with another benchmark, the only one that no link leads to."""
    write_submission(tmp_path, LLAMA3_1_8B_EDGE, V6_1, submitter="Another")
    folder = submission / "results/box/llama3.1-8b"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/Server/accuracy/accuracy.txt").unlink()
    assert "required_files" in failures_by_run(tmp_path)[SERVER]


@pytest.mark.parametrize(("name", "broken"), [("offline", []), ("OFFLINE", ["scenarios_known"])])
def test_a_scenarios_case_is_the_official_one_or_lower(
    submission: Path, tmp_path: Path, name: str, broken: list[str]
) -> None:
    folder = submission / "results/box/llama3.1-8b"
    (folder / "Offline").rename(folder / name)
    assert failures_by_run(tmp_path).get("Someone-box-llama3.1-8b", []) == broken


def test_the_network_division_is_named_and_fails(submission: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").rename(tmp_path / "network")
    assert ["division_known"] in failures_by_run(tmp_path).values()


def test_an_empty_scenario_folder_fails_what_it_lacks(submission: Path, tmp_path: Path) -> None:
    shutil.rmtree(submission / RESULT)
    (submission / RESULT).mkdir()
    wrong = failures_by_run(tmp_path)[SERVER]
    assert {"required_files", "accuracy_log_is_whole"} <= set(wrong)


def test_the_clients_files_replace_no_log_where_it_may_not_measure(tmp_path: Path) -> None:
    submission = write_submission(tmp_path, LLAMA2_70B_99, V6_0, scenarios=("Offline", "Server"))
    offline = submission / "results/box/llama2-70b-99/Offline"
    for name in ("performance", "accuracy"):
        shutil.rmtree(offline / name)
    (offline / "performance").mkdir()
    (offline / "performance/result_summary.json").write_text("{}")
    wrong = failures_by_run(tmp_path, V6_0)
    assert "required_files" in wrong["Someone-box-llama2-70b-99-Offline"]


def test_a_system_without_results_is_named_and_fails(submission: Path, tmp_path: Path) -> None:
    shutil.copy(submission / "systems/box.json", submission / "systems/idle.json")
    assert failures_by_run(tmp_path) == {"Someone-idle": ["system_has_results"]}
    shutil.rmtree(submission / "results")
    (submission / "results").write_text("")
    assert set(failures_by_run(tmp_path)) == {"Someone-idle", "Someone-box"}


def test_a_second_run_is_judged_under_its_own_name(submission: Path, tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance", V6_1)
    run.entries["result_validity"] = "INVALID"
    write_run(submission / RESULT / "performance/run_2", run)
    assert independent_failures(tmp_path) == {SERVER: ["run_2-result_valid"]}


@pytest.mark.parametrize(
    ("key", "value", "failures"),
    [
        ("num_errors", 0, []),
        ("effective_min_duration_ms", 600_000, ["test06_log_agrees", "test06_settings"]),
        ("result_validity", "VALID", ["test06_log_agrees"]),
        ("test_datetime", "2025-03-04T10:00:00Z", ["test06_log_agrees"]),
        ("sut_name", "Other", ["same_system", "test06_log_agrees"]),
    ],
)
def test_a_submitted_audit_is_judged_as_a_run(
    submission: Path, tmp_path: Path, key: str, value: object, failures: list[str]
) -> None:
    """It has the SUT of its summary, which keeps the old one, and is INVALID of too few queries."""
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "test06", V6_1)
    run.entries[key] = value
    write_run(submission / RESULT / "TEST06/performance/run_1", run)
    assert sorted(failures_by_run(tmp_path).get(SERVER, [])) == known_rules(failures)


# What a description of a system must say where it counts, or speaks of a network


COUNTS = ("number_of_nodes", "accelerators_per_node")


@pytest.mark.parametrize("value", ["8", " 8 ", 8, 8.0])
def test_counts_are_whole_numbers_and_of_a_network_nothing_need_be_said(value: object) -> None:
    for of_network in ({}, {"is_network": None}, {"is_network": ""}):
        described = system_fields() | dict.fromkeys(COUNTS, value) | of_network
        assert missing_system_fields(described) == []


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", ["8 GPUs", "1 node", "8, 4", "-1", 1.5, True, [8], math.inf])
def test_counts_in_words_are_wrong(name: str, value: object) -> None:
    (wrong,) = missing_system_fields(system_fields() | {name: value})
    assert wrong.startswith(f"{name} ") and "not a whole number of " in wrong


@pytest.mark.parametrize("word", ["TODO", "<tbd>", "FIXME"])
def test_a_description_of_placeholders_is_not_filled_in(word: str) -> None:
    """Two stand in one of 125 public descriptions."""
    some = dict.fromkeys(("cooling", "framework"), word)
    assert missing_system_fields(system_fields() | some) == []
    wrong = missing_system_fields(system_fields() | some | {"operating_system": word})
    assert len(wrong) == 3 and all(each.endswith(word) for each in wrong)


@pytest.mark.parametrize("value", ["false", "true", "no"])
def test_any_text_asks_for_the_fields_of_a_network(value: str) -> None:
    described = system_fields() | {"is_network": value}
    (wrong,) = missing_system_fields(described)
    assert wrong.startswith(f"is_network {value} without network_type, ")
    assert all(name in wrong for name in SYSTEM_FIELDS_OF_A_NETWORK)
    # They must be there, empty or not.
    assert missing_system_fields(dict.fromkeys(SYSTEM_FIELDS_OF_A_NETWORK, "") | described) == []


@pytest.mark.parametrize("value", [False, True, 0, 1, [], {}])
def test_what_is_no_text_is_wrong_whatever_it_is(value: object) -> None:
    described = {**system_fields(), **dict.fromkeys(SYSTEM_FIELDS_OF_A_NETWORK, "x")}
    (wrong,) = missing_system_fields(described | {"is_network": value})
    assert wrong.startswith("is_network ") and wrong.endswith(" is not text: leave it out")


def test_the_system_on_the_page_has_every_field() -> None:
    described = json.loads((ROOT / "docs" / "system.json").read_text())
    assert missing_system_fields(described) == []
