"""Results of the official HTTP client: honest ones pass, each damage is seen by its rules alone.

MLPERF_RESULTS_V6_1 names a checkout of github.com/mlcommons/inference_results_v6.1, and
MLPERF_INFERENCE one of github.com/mlcommons/inference.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evidence.official_client.client_damages import (
    ACCURACY,
    CLIENT_DAMAGES,
    CLIENT_TREES,
    CONFIG,
    EVENTS,
    SCENARIOS,
    SUMMARY,
    WITH_EVENTS,
    ClientDamage,
    damaged,
    tree_of,
    write_honest_submissions,
)
from meta_tests.made_client import (
    client_events,
    client_run,
    client_summary,
    write_client_submission,
)
from meta_tests.made_runs import write_submission
from meta_tests.tampering.verdicts import CHECKER, official_verdict, own_verdict
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.client_results.client_benchmarks import client_benchmark
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.rules.registry import rule_named, rules_of
from mlperf_suite.rules.verdict import Verdict

RESULTS = Path(os.environ.get("MLPERF_RESULTS_V6_1") or "absent")
CHECKOUT = Path(os.environ.get("MLPERF_INFERENCE") or "absent")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "official-checker.md"
PREFIX = "client_"
UNGATED = {"wan-2.2-t2v-a14b", "qwen3.6-27b"}
SYSTEM = "VR-NVL72_VR-288GB_aarch64x72_TRT"
PUBLISHED = {
    "deepseek-r1/Offline": "1,183,326.85",
    "deepseek-r1/Server": "1,175,890.22",
    "deepseek-r1/Interactive": "652,750.14",
}


def of_client(root: Path) -> dict[str, dict[str, Verdict]]:
    """The verdicts of the rules on the client's results, by run and rule without its prefix."""
    return {
        group.name: {v.rule.removeprefix(PREFIX): v for v in group.verdicts}
        for group in judge_folder(root)
        if any(v.rule.startswith(PREFIX) for v in group.verdicts)
    }


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each benchmark, with an honest submission."""
    root = tmp_path_factory.mktemp("honest")
    write_honest_submissions(root)
    return root


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_honest_result_passes(honest: Path, name: str) -> None:
    judged = of_client(honest / name)
    assert len(judged) == len(SCENARIOS[name])
    not_passed = {
        rule: v.status
        for verdicts in judged.values()
        for rule, v in verdicts.items()
        if not v.passed
    }
    assert "failed" not in not_passed.values()
    # A scenario without events.jsonl says nothing of its prompts; gpt-oss-120b has two data sets.
    assert bool(not_passed.keys() - {"salt", "accuracy_lengths"}) == (name in UNGATED)


@pytest.mark.parametrize("name", CLIENT_DAMAGES)
def test_a_damage_is_seen_by_its_rules_alone(honest: Path, tmp_path: Path, name: str) -> None:
    damage = CLIENT_DAMAGES[name]
    benchmark, scenario = damage.where.split("/")
    tree = damaged(name, honest, tmp_path / "tree")
    verdicts = of_client(tree)[f"Someone-box-{benchmark}-{scenario}"]
    failures = {rule for rule, verdict in verdicts.items() if verdict.status == "failed"}
    assert failures == damage.rules, [v.line for v in verdicts.values() if v.status == "failed"]
    assert all(verdict.line.isprintable() for verdict in verdicts.values())


def test_sums_beyond_2_to_53_agree_with_their_events(tmp_path: Path) -> None:
    name, scenario = WITH_EVENTS.split("/")
    submission = write_client_submission(tmp_path, name, (scenario,), with_events=scenario)
    benchmark = client_benchmark(name, scenario)
    assert benchmark is not None
    run = client_run(benchmark)
    run = replace(run, latency=run.latency + 2**45 + 1)
    folder = submission / "results" / "box" / name / scenario
    summary = client_summary(run)
    assert summary["latency"]["total"] % 2**8 > 0
    (folder / SUMMARY).write_text(json.dumps(summary))
    (folder / EVENTS).write_text(client_events(run))
    (verdicts,) = of_client(tmp_path).values()
    assert verdicts["events_agree"].passed, verdicts["events_agree"].line


def test_answers_of_one_length_have_a_mean_that_their_percentiles_allow(tmp_path: Path) -> None:
    submission = write_client_submission(tmp_path, "deepseek-r1", ("Offline",))
    benchmark = client_benchmark("deepseek-r1", "Offline")
    assert benchmark is not None
    for length in (1, 3, 97, 3801):
        run = client_run(benchmark)
        run = replace(run, lengths=run.lengths * 0 + length)
        summary = submission / "results" / "box" / "deepseek-r1" / "Offline" / SUMMARY
        summary.write_text(json.dumps(client_summary(run)))
        (verdicts,) = of_client(tmp_path).values()
        assert verdicts["distributions"].passed, verdicts["distributions"].line


def checks_of_page() -> list[tuple[str, str, set[str]]]:
    """Of each check of the official checker: of what it is, its name, and the rules beside it."""
    text = PAGE.read_text().partition("| of | check | looks at | here |")[2].partition("\n\n")[0]
    rows = [re.findall(r" (.*?) \|", line) for line in text.splitlines()[2:]]
    return [
        (of, check.strip("`"), set(re.findall(r"`(\w+)`", here))) for of, check, _, here in rows
    ]


def test_each_check_of_the_official_checker_has_rules_and_each_rule_a_place() -> None:
    checks = checks_of_page()
    assert all(rules for _, _, rules in checks)
    named = {rule for _, _, rules in checks for rule in rules}
    of_client = {rule.name for rule in rules_of("client")}
    assert of_client - named == {"client_logs_of_its_own"}
    assert {name for name in named - of_client if rule_named(name) is None} == set()


PARTS = ("performance", "accuracy", "compliance", "measurements", "system", "power")
NOT_OF_THE_CLIENT = {
    "performance": {"performance_sample_count_check", "min_query_count_check"},
    "accuracy": {"accuracy_json_check"},
    "compliance": {
        *("dir_exists_check", "performance_check", "accuracy_check"),
        "compliance_performance_check",
    },
}
"""Checks of the official checker that it leaves out, or makes of LoadGen's results alone."""


@pytest.mark.skipif(not (CHECKOUT / CHECKER).is_dir(), reason="no MLPERF_INFERENCE")
@pytest.mark.parametrize("part", PARTS)
def test_the_page_names_each_check_of_the_official_checker(part: str) -> None:
    (file,) = (CHECKOUT / CHECKER / "submission_checker" / "checks").glob(f"{part}_check*.py")
    source = file.read_text()
    checks = re.findall(r"self\.checks\.append\(self\.(\w+)\)", source)
    named = [check for of, check, _ in checks_of_page() if of == part]
    assert named == [c for c in checks if c not in NOT_OF_THE_CLIENT.get(part, ())]


def rows_of_page() -> dict[str, tuple[str, str]]:
    """By damage and tree the official checker's verdict and the suite's."""
    text = PAGE.read_text().partition("## Results of the official HTTP client")[2]
    row = r"^\| (.+?) \| ((?:passes|fails|traceback).*?) \| (.+?) \|$"
    return {m[1]: (m[2], m[3]) for m in re.finditer(row, text, re.MULTILINE)}


def test_the_checkers_page_has_a_row_for_each_damage_and_tree() -> None:
    assert list(rows_of_page()) == [*CLIENT_DAMAGES, *CLIENT_TREES]


@pytest.mark.parametrize("name", CLIENT_TREES)
def test_of_each_tree_the_page_says_what_the_suite_says(
    honest: Path, tmp_path: Path, name: str
) -> None:
    tree = tree_of(name, honest, tmp_path / "tree")
    assert own_verdict(tree, ROUNDS["v6.1"]) == rows_of_page()[name][1]


@pytest.mark.skipif(not (CHECKOUT / CHECKER).is_dir(), reason="no MLPERF_INFERENCE")
@pytest.mark.parametrize("name", [*CLIENT_DAMAGES, *CLIENT_TREES])
def test_the_checker_says_what_the_page_says(honest: Path, tmp_path: Path, name: str) -> None:
    write = tree_of if name in CLIENT_TREES else damaged
    tree = write(name, honest, tmp_path / "tree")
    assert official_verdict(tree, CHECKOUT, ROUNDS["v6.1"]) == rows_of_page()[name][0]


@pytest.mark.skipif(not (CHECKOUT / CHECKER).is_dir(), reason="no MLPERF_INFERENCE")
def test_the_checkers_summary_calls_requests_tokens(honest: Path, tmp_path: Path) -> None:
    table = tmp_path / "summary.csv"
    assert official_verdict(honest / "deepseek-r1", CHECKOUT, ROUNDS["v6.1"], table) == "passes"
    rows = {row["Scenario"]: row for row in csv.DictReader(table.read_text().splitlines())}
    assert {row["Units"] for row in rows.values()} == {"Tokens/s"}
    folder = honest / "deepseek-r1/closed/Someone/results/box/deepseek-r1"
    for scenario, name in (("Offline", "qps"), ("Interactive", "qps"), ("Server", "tps")):
        figure = json.loads((folder / scenario / SUMMARY).read_text())[name]
        assert float(rows[scenario]["Result"]) == pytest.approx(figure)


def test_every_rule_is_broken_by_a_damage() -> None:
    names = {rule.name.removeprefix(PREFIX) for rule in rules_of("client")}
    broken = {rule for damage in CLIENT_DAMAGES.values() for rule in damage.rules}
    # A copy, an unknown benchmark and a round are no damage of one file: tested below.
    assert names - broken == {"logs_of_its_own", "benchmark_allowed"}
    assert len(CLIENT_DAMAGES) >= 60


def test_a_run_without_a_request_that_has_figures_is_judged(honest: Path, tmp_path: Path) -> None:
    shutil.copytree(honest / "deepseek-r1", tmp_path / "tree")
    folder = tmp_path / "tree/closed/Someone/results/box/deepseek-r1/Server"
    names = ("ttft", "tpot", "output_sequence_lengths")
    changes: dict[str, Any] = {f"{name}.histogram": {} for name in names}
    changes |= {"tpot.percentiles": {}, "n_samples_completed": 0}
    ClientDamage(SUMMARY, changes, frozenset()).make(folder)
    verdicts = of_client(tmp_path)["Someone-box-deepseek-r1-Server"]
    assert verdicts["distributions"].status == "failed"


def test_a_copied_result_is_seen_in_both(honest: Path, tmp_path: Path) -> None:
    shutil.copytree(honest / "llama3.1-8b", tmp_path / "tree")
    results = tmp_path / "tree/closed/Someone/results/box/llama3.1-8b"
    shutil.rmtree(results / "Interactive")
    shutil.copytree(results / "Server", results / "Interactive")
    verdicts = of_client(tmp_path / "tree")
    copied = [name for name, of in verdicts.items() if of["logs_of_its_own"].status == "failed"]
    assert copied == [f"Someone-box-llama3.1-8b-{name}" for name in ("Interactive", "Server")]


def test_a_round_before_v6_1_takes_none(honest: Path) -> None:
    (group,) = (
        g for g in judge_folder(honest / "qwen3.6-27b", ROUNDS["v6.0"]) if "SingleStream" in g.name
    )
    assert "client_benchmark_allowed" in group.failed_rules


def test_an_open_result_has_no_limit_and_no_gate(tmp_path: Path) -> None:
    submission = write_client_submission(tmp_path, "deepseek-r1", ("Server",), "open")
    folder = submission / "results/box/deepseek-r1/Server"
    CLIENT_DAMAGES["a score of 0"].make(folder)
    (verdicts,) = of_client(tmp_path).values()
    assert [rule for rule, verdict in verdicts.items() if verdict.status == "failed"] == []


@pytest.mark.skipif(not RESULTS.is_dir(), reason="MLPERF_RESULTS_V6_1 names no checkout")
def test_the_published_results_are_valid() -> None:
    judged = of_client(RESULTS / "closed" / "NVIDIA")
    # Those of VR-NVL72; without events.jsonl nothing is said of the prompts.
    assert len([name for name in judged if SYSTEM in name]) == 6
    verdicts = [v for of in judged.values() for v in of.values()]
    assert [v.line for v in verdicts if v.status == "failed"] == []
    for where, tokens_per_s in PUBLISHED.items():
        name = where.replace("/", "-")
        (rates,) = (
            of["rates"] for run, of in judged.items() if SYSTEM in run and run.endswith(name)
        )
        assert rates.found.endswith(f"tps {tokens_per_s}")


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """The root of a submission of LoadGen's Offline and the client's Server."""
    write_submission(tmp_path, LLAMA3_1_8B, ROUNDS["v6.1"], scenarios=("Offline",))
    write_client_submission(tmp_path, "llama3.1-8b", ("Server",))
    return tmp_path


def failures(root: Path) -> dict[str, list[str]]:
    return {group.name: group.failed_rules for group in judge_folder(root) if group.failed_rules}


def test_a_tree_may_hold_results_of_loadgen_and_of_the_client(mixed: Path) -> None:
    assert failures(mixed) == {}
    assert list(of_client(mixed)) == ["Someone-box-llama3.1-8b-Server"]
    assert len(judge_folder(mixed)) == 3
    assert {group.round.name for group in judge_folder(mixed)} == {"v6.1"}


def test_a_scenario_with_loadgens_detail_log_is_loadgens(mixed: Path) -> None:
    results = mixed / "closed/Someone/results/box/llama3.1-8b"
    shutil.copytree(results / "Server", results / "Offline", dirs_exist_ok=True)
    assert failures(mixed) == {}
    (results / "Server" / "accuracy" / "mlperf_log_detail.txt").write_text("")
    assert of_client(mixed) == {}
    assert "required_files" in failures(mixed)["Someone-box-llama3.1-8b-Server"]


def test_a_scenario_of_the_client_counts_as_there(mixed: Path) -> None:
    shutil.rmtree(mixed / "closed/Someone/results/box/llama3.1-8b/Server")
    assert failures(mixed) == {"Someone-box-llama3.1-8b": ["required_scenarios"]}


@pytest.mark.parametrize("name", ["llama3.1-8b/MultiStream", "llama2-70b-99/Server", "mine/Server"])
def test_a_scenario_or_benchmark_that_the_client_may_not_measure_fails(
    mixed: Path, name: str
) -> None:
    results = mixed / "closed/Someone/results/box"
    shutil.copytree(results / "llama3.1-8b" / "Server", results / name)
    assert failures(mixed)


def test_the_layout_of_the_clients_own_script_is_refused_by_the_names_of_files(mixed: Path) -> None:
    folder = mixed / "closed/Someone/results/box/llama3.1-8b/Server"
    (folder / "performance" / "run_1").mkdir()
    for path in (folder / SUMMARY, folder / CONFIG):
        path.rename(folder / "performance" / "run_1" / path.name)
    (verdicts,) = of_client(mixed).values()
    assert f"{CONFIG}, {SUMMARY}" in verdicts["required_files"].line


def test_a_result_of_another_version_of_the_client_is_judged(honest: Path, tmp_path: Path) -> None:
    shutil.copytree(honest / "deepseek-r1", tmp_path / "tree")
    folder = tmp_path / "tree/closed/Someone/results/box/deepseek-r1/Server"
    for file, changes in (
        (SUMMARY, {"version": "9.9", "git_sha": "abc", "a_series_of_tomorrow": {"total": 1}}),
        (ACCURACY, {"accuracy_scores.0.grader": "of tomorrow"}),
        (CONFIG, {"version": "2.0", "settings.runtime.of_tomorrow": [1]}),
    ):
        ClientDamage(file, changes, frozenset()).make(folder)
    assert failures(tmp_path) == {}


def test_a_result_outside_a_submission_is_refused(mixed: Path) -> None:
    scenario = mixed / "closed/Someone/results/box/llama3.1-8b/Server"
    shutil.copytree(scenario, mixed / "alone/Server")
    assert failures(mixed) == {"alone-Server": ["benchmark_known"]}
    for root in (mixed / "alone", mixed / "alone/Server", mixed / "alone/Server/performance"):
        (group,) = judge_folder(root)
        assert group.failed_rules == ["benchmark_known"]
        assert "outside a submission's tree" in group.verdicts[0].line
