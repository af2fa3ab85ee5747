"""Results of the official HTTP client: honest ones pass, each damage is seen by its rules alone."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from evidence.endpoints.client_damages import (
    CLIENT_DAMAGES,
    CLIENT_TREES,
    SCENARIOS,
    damaged,
    tree_of,
    write_honest_submissions,
)
from evidence.from_elsewhere import INFERENCE, RESULTS_V6_1, needs_inference, needs_results_v6_1
from evidence.verdicts import CHECKER, official_verdict, own_verdict
from meta_tests.features.endpoints.client_breaks import SUMMARY
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.rules.registry import rule_named, rules_of
from mlperf_suite.rules.verdict import Verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "official-checker.md"
PREFIX = "client_"
UNGATED = {"wan-2.2-t2v-a14b", "qwen3.6-27b"}
SYSTEM = "VR-NVL72_VR-288GB_aarch64x72_TRT"
PUBLISHED = {
    "deepseek-r1/Offline": "1,183,326.85",
    "deepseek-r1/Server": "1,175,890.22",
    "deepseek-r1/Interactive": "652,750.14",
}


def client_verdicts(root: Path) -> dict[str, dict[str, Verdict]]:
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
    judged = client_verdicts(honest / name)
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
    verdicts = client_verdicts(tree)[f"Someone-box-{benchmark}-{scenario}"]
    failures = {rule for rule, verdict in verdicts.items() if verdict.status == "failed"}
    lines = [v.line for v in verdicts.values() if v.status == "failed"]
    assert failures == set(damage.rules.split()), lines
    assert all(verdict.line.isprintable() for verdict in verdicts.values())


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
    client_rules = {rule.name for rule in rules_of("client")}
    of_the_suite = ("logs_of_its_own", "issue_times", "warmup_prompts")
    assert client_rules - named == {f"{PREFIX}{name}" for name in of_the_suite}
    assert {name for name in named - client_rules if rule_named(name) is None} == set()


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


@needs_inference
@pytest.mark.parametrize("part", PARTS)
def test_the_page_names_each_check_of_the_official_checker(part: str) -> None:
    (file,) = (INFERENCE / CHECKER / "submission_checker" / "checks").glob(f"{part}_check*.py")
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


@pytest.fixture
def changed(name: str, honest: Path, tmp_path: Path) -> Path:
    """The tree of a row of the page."""
    write = tree_of if name in CLIENT_TREES else damaged
    return write(name, honest, tmp_path / "tree")


@pytest.mark.parametrize("name", [*CLIENT_DAMAGES, *CLIENT_TREES])
def test_the_suite_says_what_the_page_says(changed: Path, name: str) -> None:
    assert own_verdict(changed, ROUNDS["v6.1"]) == rows_of_page()[name][1]


@needs_inference
@pytest.mark.parametrize("name", [*CLIENT_DAMAGES, *CLIENT_TREES])
def test_the_checker_says_what_the_page_says(changed: Path, name: str) -> None:
    assert official_verdict(changed, INFERENCE, ROUNDS["v6.1"]) == rows_of_page()[name][0]


@needs_inference
def test_the_checkers_summary_calls_requests_tokens(honest: Path, tmp_path: Path) -> None:
    table = tmp_path / "summary.csv"
    assert official_verdict(honest / "deepseek-r1", INFERENCE, ROUNDS["v6.1"], table) == "passes"
    rows = {row["Scenario"]: row for row in csv.DictReader(table.read_text().splitlines())}
    assert {row["Units"] for row in rows.values()} == {"Tokens/s"}
    folder = honest / "deepseek-r1/closed/Someone/results/box/deepseek-r1"
    for scenario, name in (("Offline", "qps"), ("Interactive", "qps"), ("Server", "tps")):
        figure = json.loads((folder / scenario / SUMMARY).read_text())[name]
        assert float(rows[scenario]["Result"]) == pytest.approx(figure)


def test_every_rule_is_broken_by_a_damage() -> None:
    names = {rule.name.removeprefix(PREFIX) for rule in rules_of("client")}
    broken = {rule for damage in CLIENT_DAMAGES.values() for rule in damage.rules.split()}
    # A copy, an unknown benchmark and a round are no damage of one file.
    assert names - broken == {"logs_of_its_own", "benchmark_allowed"}


@needs_results_v6_1
def test_the_published_results_are_valid() -> None:
    judged = client_verdicts(RESULTS_V6_1 / "closed" / "NVIDIA")
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
