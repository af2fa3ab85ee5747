"""Files of a system's power supplies, and its private id.

That the official checker takes them so is evidence/submission_check/test_nameplates.py.
"""

from pathlib import Path

import pytest

from meta_tests.features.submission_check.made_power import write_session
from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.features.submission_check.nameplates import (
    ALIASES,
    MERGED,
    RACK,
    WITH_POWER,
    WITHOUT_POWER,
    nameplate,
)
from meta_tests.judging.trees import broken_rules
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.judging.judge import judge_folder

V6_1 = ROUNDS["v6.1"]
SCENARIOS = ("Server", "Offline")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    write_submission(root, LLAMA3_1_8B, V6_1, scenarios=SCENARIOS)
    return root


@pytest.fixture(scope="module")
def with_power(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("power")
    submission = write_submission(root, LLAMA3_1_8B, V6_1, scenarios=SCENARIOS)
    performance = submission / "results/box/llama3.1-8b/Server/performance"
    write_session(performance, performance / "run_1")
    return root


@pytest.fixture(autouse=True)
def without_nameplate(tree: Path, with_power: Path) -> None:
    for root in (tree, with_power):
        nameplate(root).unlink(missing_ok=True)


def words_on(tree: Path, round_: Round = V6_1) -> str:
    """What the rule says of the Server result."""
    groups = {group.name: group for group in judge_folder(tree, round_)}
    verdicts = groups["Someone-box-llama3.1-8b-Server"].verdicts
    return next(v.line for v in verdicts if v.rule == "system_description")


@pytest.mark.parametrize("name", WITH_POWER)
def test_it_is_yaml_and_with_power_has_watts(name: str, tree: Path, with_power: Path) -> None:
    for root, texts in ((tree, WITHOUT_POWER), (with_power, WITH_POWER)):
        text, right = texts.get(name, ("", True))
        nameplate(root).write_text(text)
        assert broken_rules(root, V6_1) == ([] if right else ["system_description"])


def test_the_watts_are_of_the_supplies_that_are_needed(with_power: Path) -> None:
    assert "design power" not in words_on(with_power)
    nameplate(with_power).write_text(RACK)
    assert "design power 5,200.0 W" in words_on(with_power)


@pytest.mark.parametrize("content", [b"\xff", b"x" * 2**20, b"[" * 1000, MERGED.encode()])
def test_what_takes_long_or_is_no_text_is_one_verdict(content: bytes, tree: Path) -> None:
    nameplate(tree).write_bytes(content)
    assert "system_description: failed: found box_power.yaml is" in words_on(tree)


def test_a_part_that_is_named_many_times_is_counted_at_once(with_power: Path) -> None:
    nameplate(with_power).write_text(ALIASES)
    assert broken_rules(with_power, V6_1) == []
