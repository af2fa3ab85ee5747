"""The rules of a power measurement on made-up sessions: each is broken by its damages alone.

That the official checks say the same is evidence/submission_check/test_official_power.py.
"""

import shutil
from pathlib import Path

import pytest

from meta_tests.features.submission_check.made_power import LENGTH, WATTS, write_measurement
from meta_tests.features.submission_check.power_damages import DAMAGES, facts_of
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.features.submission_check.power_measurement import power_figures
from mlperf_suite.rules import judge
from mlperf_suite.rules.registry import rules_of

OFFLINE = LLAMA3_1_8B.scenario("Offline")
SINGLE = LLAMA3_1_8B_EDGE.scenario("SingleStream")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_measurement(tmp_path_factory.mktemp("whole"), LLAMA3_1_8B, OFFLINE)


def test_each_rule_has_a_damage() -> None:
    broken = {f"power_{rule}" for damage in DAMAGES.values() for rule in damage.rules}
    assert broken == {rule.name for rule in rules_of("power")}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_breaks_its_rules_and_no_other(tmp_path: Path, whole: Path, name: str) -> None:
    folder = tmp_path / "performance"
    shutil.copytree(whole, folder)
    DAMAGES[name].change(folder)
    verdicts = judge(facts_of(folder, OFFLINE))
    failed = [v.rule.removeprefix("power_") for v in verdicts if v.status == "failed"]
    assert sorted(failed) == sorted(DAMAGES[name].rules)


def test_the_figures_are_the_mean_within_the_load(whole: Path) -> None:
    facts = facts_of(whole, OFFLINE)
    figures, rate = power_figures(facts), facts.detail[OFFLINE.metric]
    assert (figures.watts, figures.metric, figures.unit) == (WATTS, WATTS, "W")
    assert figures.efficiency == pytest.approx(rate / WATTS)
    (words,) = (v.found for v in judge(facts) if v.rule == "power_samples")
    assert words == f"9,436 W, {rate / WATTS:,.4g} tokens/s a W"


def test_single_stream_has_millijoules_a_query(tmp_path: Path) -> None:
    facts = facts_of(write_measurement(tmp_path, LLAMA3_1_8B_EDGE, SINGLE), SINGLE)
    figures, queries = power_figures(facts), facts.detail["result_query_count"]
    assert figures.metric == pytest.approx(WATTS * LENGTH.total_seconds() * 1000 / queries)
    assert figures.efficiency == pytest.approx(1000 / figures.metric)
