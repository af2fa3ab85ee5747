"""Results of the official HTTP client: honest ones pass, each break is seen by its rules alone."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from meta_tests.features.endpoints.client_breaks import (
    ACCURACY,
    CONFIG,
    EVENTS,
    OF_EVENTS,
    OF_FILES,
    SUMMARY,
    TOOLS,
    WITH_EVENTS,
    Break,
)
from meta_tests.features.endpoints.made_official_client import (
    client_events,
    client_run,
    client_summary,
    write_client_submission,
)
from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.tampering.member_changes import GONE, change_file, kept
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OFFICIAL_CLIENT_MODELS,
    official_client_benchmark,
)
from mlperf_suite.features.endpoints.official_client_results.client_events import RunEvents
from mlperf_suite.features.endpoints.rules.official_client_rules import issue_times
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.rules.registry import EVERY_SCENARIO, rules_of
from mlperf_suite.rules.verdict import Verdict

pytestmark = pytest.mark.usefixtures("yaml_once")
PREFIX = "client_"
RESULTS = "closed/Someone/results/box"
SCENARIOS = [
    f"{name}/{scenario}"
    for name in OFFICIAL_CLIENT_MODELS
    for scenario in EVERY_SCENARIO
    if official_client_benchmark(name, scenario)
]
"""All that the client may measure, of the benchmarks that are there."""
NOT_JUDGED = {
    "wan-2.2-t2v-a14b": {"accuracy_gate"},
    "qwen3.6-27b": {"accuracy_gate", "seeds", "min_duration", "lasted"},
}


def client_verdicts(root: Path) -> dict[str, dict[str, Verdict]]:
    """The verdicts of the rules on the client's results, by run and rule without its prefix."""
    return {
        group.name: {v.rule.removeprefix(PREFIX): v for v in group.verdicts}
        for group in judge_folder(root)
        if any(v.rule.startswith(PREFIX) for v in group.verdicts)
    }


def rules_with_status(verdicts: dict[str, Verdict], status: str) -> set[str]:
    return {rule for rule, verdict in verdicts.items() if verdict.status == status}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each scenario, with an honest submission of it alone."""
    root = tmp_path_factory.mktemp("honest")
    for where in SCENARIOS:
        name, scenario = where.split("/")
        events = scenario if where == WITH_EVENTS else None
        write_client_submission(root / where, name, (scenario,), with_events=events)
    return root


@pytest.mark.parametrize("where", SCENARIOS)
def test_an_honest_result_passes(honest: Path, where: str) -> None:
    name, _ = where.split("/")
    benchmark = official_client_benchmark(*where.split("/"))
    assert benchmark is not None
    (verdicts,) = client_verdicts(honest / where).values()
    assert rules_with_status(verdicts, "failed") == set()
    # Nothing is said of prompts without events.jsonl.
    not_judged = NOT_JUDGED.get(name, set()) | (set() if where == WITH_EVENTS else {"salt"})
    # Of other samples in the accuracy run, whose answers have lengths of their own.
    not_judged |= {"accuracy_lengths"} if benchmark.mean_tokens else set()
    assert rules_with_status(verdicts, "not judged") == not_judged


@pytest.mark.parametrize(
    "case", [case for case in (*OF_FILES, *OF_EVENTS) if case.where in SCENARIOS], ids=str
)
def test_a_break_is_seen_by_its_rules_alone(honest: Path, case: Break) -> None:
    path = honest / case.where / RESULTS / case.where / case.file
    with kept(path):
        change_file(path, case.change)
        (verdicts,) = client_verdicts(honest / case.where).values()
    if "/power/" in case.file:
        path.parent.rmdir()
    lines = [verdict.line for verdict in verdicts.values()]
    assert rules_with_status(verdicts, "failed") == set(case.rules.split()), lines
    assert all(line.isprintable() for line in lines)


def test_every_rule_has_a_break() -> None:
    names = {rule.name.removeprefix(PREFIX) for rule in rules_of("client")}
    broken = {rule for case in (*OF_FILES, *OF_EVENTS) for rule in case.rules.split()}
    # A copy and a round are no break of one file: below.
    assert names - broken == {"logs_of_its_own", "benchmark_allowed"}


def summary_verdict(honest: Path, where: str, rule: str, **changes: Any) -> Verdict:
    """Of a run whose latencies or lengths are others, in its summary and in its events."""
    folder = honest / where / RESULTS / where
    benchmark = official_client_benchmark(*where.split("/"))
    assert benchmark is not None
    run = client_run(benchmark)
    run = replace(run, **{name: change(getattr(run, name)) for name, change in changes.items()})
    with kept(folder / SUMMARY, folder / EVENTS):
        (folder / SUMMARY).write_text(json.dumps(client_summary(run)))
        if (folder / EVENTS).exists():
            (folder / EVENTS).write_text(client_events(run))
        (verdicts,) = client_verdicts(honest / where).values()
    return verdicts[rule]


def test_sums_beyond_2_to_53_agree_with_their_events(honest: Path) -> None:
    later = {"latency": lambda ns: ns + 2**45 + 1}
    verdict = summary_verdict(honest, WITH_EVENTS, "events_agree", **later)
    assert verdict.passed, verdict.line


@pytest.mark.parametrize(
    ("early_ns", "status"), [(5e5, "passed"), (5e7, "passed"), (6e7, "failed")]
)
def test_an_end_is_stamped_a_moment_before_its_first_chunk(
    honest: Path, early_ns: float, status: str
) -> None:
    def with_one(series: Any) -> Any:
        return np.concatenate(([-early_ns], series[1:]))

    verdict = summary_verdict(honest, "llama3.1-8b/Server", "distributions", tpot=with_one)
    assert verdict.status == status, verdict.line


@pytest.mark.parametrize("length", [1, 3801])
def test_answers_of_one_length_have_their_percentiles_mean(honest: Path, length: int) -> None:
    alike = {"lengths": lambda lengths: lengths * 0 + length}
    verdict = summary_verdict(honest, "llama3.1-8b/Offline", "distributions", **alike)
    assert verdict.passed, verdict.line


@pytest.mark.parametrize(
    ("variation", "count", "passed"),
    [
        *((v, 1000, p) for v, p in ((0.499, False), (0.501, True), (1.999, True), (2.001, False))),
        (0.0, 999, True),
    ],
)
def test_gaps_between_requests_vary_as_poisson_times_do(
    variation: float, count: int, passed: bool
) -> None:
    gaps = [count, 1000 * count, round(10**6 * count * (1 + variation**2))]
    facts = Mock(issues_at_a_rate=True, events=RunEvents(gaps=gaps))
    assert issue_times(facts).passed is passed


def test_a_copied_result_is_seen_in_both(honest: Path, tmp_path: Path) -> None:
    shutil.copytree(honest / "llama3.1-8b/Server", tmp_path / "tree")
    results = tmp_path / "tree" / RESULTS / "llama3.1-8b"
    shutil.copytree(results / "Server", results / "Interactive")
    verdicts = client_verdicts(tmp_path / "tree")
    copied = [name for name, of in verdicts.items() if of["logs_of_its_own"].status == "failed"]
    assert copied == [f"Someone-box-llama3.1-8b-{name}" for name in ("Interactive", "Server")]
    # Runs of which nothing is known are no copies.
    for scenario in ("Server", "Interactive"):
        change_file(results / scenario / SUMMARY, {"duration_ns": None})
    verdicts = client_verdicts(tmp_path / "tree")
    assert rules_with_status(verdicts[copied[0]], "failed") >= {"logs_of_its_own"}
    for scenario in ("Server", "Interactive"):
        change_file(results / scenario / ACCURACY, {"accuracy_scores.0.duration_s": GONE})
    verdicts = client_verdicts(tmp_path / "tree")
    assert [of["logs_of_its_own"].status for of in verdicts.values()] == ["passed", "passed"]


def test_a_round_before_v6_1_takes_none(honest: Path) -> None:
    failed = [group.failed_rules for group in judge_folder(honest / TOOLS, ROUNDS["v6.0"])]
    assert any("client_benchmark_allowed" in rules for rules in failed)


def test_an_open_result_has_no_limit_and_no_gate(tmp_path: Path) -> None:
    submission = write_client_submission(tmp_path, "llama3.1-8b", ("Server",), "open")
    folder = submission / "results/box/llama3.1-8b/Server"
    change_file(folder / ACCURACY, {"accuracy_scores.0.score.rouge1": "0.0"})
    (verdicts,) = client_verdicts(tmp_path).values()
    assert rules_with_status(verdicts, "failed") == set()


@pytest.fixture(scope="module")
def both_trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("both")
    write_submission(root, LLAMA3_1_8B, ROUNDS["v6.1"], scenarios=("Offline",))
    write_client_submission(root, "llama3.1-8b", ("Server",))
    return root


@pytest.fixture
def mixed(both_trees: Path, tmp_path: Path) -> Path:
    """The root of a submission of LoadGen's Offline and the client's Server."""
    return Path(shutil.copytree(both_trees, tmp_path / "mixed"))


def failures(root: Path) -> dict[str, list[str]]:
    return {group.name: group.failed_rules for group in judge_folder(root) if group.failed_rules}


def test_a_tree_may_hold_results_of_loadgen_and_of_the_client(both_trees: Path) -> None:
    assert failures(both_trees) == {}
    assert [group.round.name for group in judge_folder(both_trees)] == ["v6.1"] * 4
    assert list(client_verdicts(both_trees)) == ["Someone-box-llama3.1-8b-Server"]


def test_a_scenario_with_loadgens_detail_log_is_loadgens(mixed: Path) -> None:
    results = mixed / RESULTS / "llama3.1-8b"
    shutil.copytree(results / "Server", results / "Offline", dirs_exist_ok=True)
    assert failures(mixed) == {}
    (results / "Server" / "accuracy" / "mlperf_log_detail.txt").write_text("")
    assert client_verdicts(mixed) == {}
    assert "required_files" in failures(mixed)["Someone-box-llama3.1-8b-Server"]
    shutil.rmtree(results / "Server")
    assert failures(mixed)["Someone-box-llama3.1-8b"] == ["required_scenarios"]


@pytest.mark.parametrize("name", ["llama3.1-8b/MultiStream", "llama2-70b-99/Server", "mine/Server"])
def test_a_place_that_the_client_may_not_measure_fails(mixed: Path, name: str) -> None:
    shutil.copytree(mixed / RESULTS / "llama3.1-8b/Server", mixed / RESULTS / name)
    assert failures(mixed)


def test_the_layout_of_the_clients_own_script_is_refused_by_the_names_of_files(mixed: Path) -> None:
    folder = mixed / RESULTS / "llama3.1-8b/Server"
    (folder / "performance" / "run_1").mkdir()
    for path in (folder / SUMMARY, folder / CONFIG):
        path.rename(folder / "performance" / "run_1" / path.name)
    (verdicts,) = client_verdicts(mixed).values()
    assert f"{CONFIG}, {SUMMARY}" in verdicts["required_files"].line


def test_a_result_of_another_version_of_the_client_is_judged(mixed: Path) -> None:
    for file, changes in (
        (SUMMARY, {"version": "9.9", "git_sha": "abc", "a_series_of_tomorrow": {"total": 1}}),
        (ACCURACY, {"accuracy_scores.0.grader": "of tomorrow"}),
        (CONFIG, {"version": "2.0", "settings.runtime.of_tomorrow": [1]}),
    ):
        change_file(mixed / RESULTS / "llama3.1-8b/Server" / file, changes)
    assert failures(mixed) == {}


def test_a_result_outside_a_submission_is_refused(mixed: Path) -> None:
    shutil.copytree(mixed / RESULTS / "llama3.1-8b/Server", mixed / "alone/Server")
    assert failures(mixed) == {"alone-Server": ["benchmark_known"]}
    for root in (mixed / "alone", mixed / "alone/Server", mixed / "alone/Server/performance"):
        (group,) = judge_folder(root)
        assert group.failed_rules == ["benchmark_known"]
        assert "outside a submission's tree" in group.verdicts[0].line
