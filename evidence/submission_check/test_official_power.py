"""The official power checks beside the suite's rules, on made-up sessions and on public ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from evidence.from_elsewhere import INFERENCE, RESULTS, needs_inference, needs_results
from evidence.submission_check.more_power_damages import DAMAGES as MORE_DAMAGES
from evidence.submission_check.power_checks import differences, official, own
from evidence.verdicts import official_verdict, own_verdict
from meta_tests.features.submission_check.made_power import write_measurement, write_session
from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.features.submission_check.power_damages import DAMAGES
from mlperf_suite.benchmarks.catalog import find_benchmark
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.judging.verdict_group import scenario_of

pytestmark = needs_inference
SCENARIOS = ((LLAMA3_1_8B, "Offline"), (LLAMA3_1_8B_EDGE, "SingleStream"))


def public() -> Iterator[tuple[Path, Scenario]]:
    """Each measurement of the results; of a benchmark that is not known with another's scenario."""
    for client in sorted(RESULTS.rglob("performance/power/client.json")):
        folder = client.parents[1]
        scenario = scenario_of(find_benchmark(folder.parents[1].name), folder.parent.name)
        for benchmark in (LLAMA3_1_8B, LLAMA3_1_8B_EDGE):
            scenario = scenario or scenario_of(benchmark, folder.parent.name)
        if scenario is not None:
            yield folder, scenario


def compare(jobs: dict[str, tuple[Path, Scenario]]) -> dict[str, list[str]]:
    """What is not the same, by the job's name."""
    checker = official(INFERENCE, jobs.values())
    assert len(checker) == len(jobs)
    words = {
        name: differences(verdicts, own(folder, scenario))
        for (name, (folder, scenario)), verdicts in zip(jobs.items(), checker, strict=True)
    }
    return {name: differing_rules for name, differing_rules in words.items() if differing_rules}


def damaged(whole: Path, scenario: Scenario, into: Path) -> dict[str, tuple[Path, Scenario]]:
    jobs = {}
    for number, (name, damage) in enumerate({**DAMAGES, **MORE_DAMAGES}.items()):
        copy = into / str(number)
        shutil.copytree(whole, copy)
        try:
            damage.change(copy)
        except LookupError:
            # A real session has not all that a made-up one has.
            continue
        jobs[name] = (copy, scenario)
    return jobs


@pytest.mark.parametrize(("row", "name"), SCENARIOS, ids=lambda item: getattr(item, "id", item))
def test_both_say_the_same_of_each_damage(tmp_path: Path, row: Benchmark, name: str) -> None:
    scenario = row.scenario(name)
    whole = write_measurement(tmp_path / "whole", row, scenario)
    jobs = damaged(whole, scenario, tmp_path / "damaged")
    assert len(jobs) == len(DAMAGES) + len(MORE_DAMAGES)
    assert compare(jobs) == {}


@pytest.mark.parametrize("round_", ROUNDS.values(), ids=lambda item: item.name)
def test_both_judge_a_tree_with_power(tmp_path: Path, round_: Round) -> None:
    """The checker's whole program on the round's tree, and on one whose power is damaged."""
    submission = write_submission(tmp_path, LLAMA3_1_8B, round_)
    for performance in submission.glob("results/*/*/*/performance"):
        write_session(performance, performance / "run_1")
    assert official_verdict(tmp_path, INFERENCE, round_) == "passes"
    assert own_verdict(tmp_path, round_) == "passes"
    DAMAGES["debug mode"].change(next(submission.glob("results/*/*/Offline/performance")))
    # Its power check has no name but that of every check.
    assert official_verdict(tmp_path, INFERENCE, round_) == "fails: base"
    assert own_verdict(tmp_path, round_) == "`power_debug`"


@needs_results
def test_both_say_the_same_of_public_measurements(tmp_path: Path) -> None:
    jobs = {str(folder): (folder, scenario) for folder, scenario in public()}
    assert jobs and compare(jobs) == {}


@needs_results
def test_both_say_the_same_of_a_public_measurement_with_each_damage(tmp_path: Path) -> None:
    folder, scenario = next(
        (folder, scenario)
        for folder, scenario in public()
        if all(holds for holds in own(folder, scenario).values())
    )
    jobs = damaged(folder, scenario, tmp_path)
    assert len(jobs) > 45
    assert compare(jobs) == {}
