"""Damages to trees of real logs, in bulk: none raises, and no rule that one violates passes.

The table of docs/evidence/damaged-logs.md is what the slow test prints.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.tampering.random_damages import KINDS, Tree
from meta_tests.tampering.trees import LLAMA3_1_405B, round_of_tree, unpack
from meta_tests.tampering.violations import demands
from mlperf_suite.judging.judge import judge_folder

CASES = 10_000
_BULK: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
}
_MOST_RULES = 4


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(unpack(LLAMA3_1_405B, tmp_path_factory.mktemp("honest")))


class Tally:
    """How many damages of each kind were seen and by what, and what was harmless and why."""

    def __init__(self) -> None:
        self.cases, self.seen = Counter[str](), Counter[str]()
        self.rules: dict[str, Counter[str]] = defaultdict(Counter)
        self.harmless = Counter[str]()

    def tables(self) -> Iterator[str]:
        yield "| damage | cases | seen | by (the most) | harmless |"
        yield "|---|---:|---:|---|---:|"
        for kind in KINDS:
            cases, detections = self.cases[kind], self.seen[kind]
            rules = ", ".join(f"`{rule}`" for rule, _ in self.rules[kind].most_common(_MOST_RULES))
            yield f"| {kind} | {cases:,} | {detections:,} | {rules} | {cases - detections:,} |"
        cases, detections = self.cases.total(), self.seen.total()
        yield f"| all | {cases:,} | {detections:,} | | {cases - detections:,} |"
        yield ""
        yield "| harmless | cases |"
        yield "|---|---:|"
        for why, count in self.harmless.most_common():
            yield f"| {why} | {count:,} |"


def judged(tree: Tree) -> dict[str, str]:
    """The worst status of each rule, by its name."""
    statuses: dict[str, str] = {}
    for group in judge_folder(tree.root, round_of_tree(LLAMA3_1_405B)):
        for verdict in group.verdicts:
            before = statuses.get(verdict.rule, "passed")
            statuses[verdict.rule] = min(before, verdict.status, key=_WORST_FIRST.index)
    return statuses


_WORST_FIRST = ("failed", "not judged", "shortened", "passed")


def one_damage(tree: Tree, tally: Tally) -> Callable[[random.Random], None]:
    """A test of one damage, which is undone after it."""

    def check(rng: random.Random) -> None:
        kind = rng.choice(list(KINDS))
        try:
            damage = KINDS[kind](rng, tree)
            statuses = judged(tree)
            expectations = demands(tree, damage)
        finally:
            tree.heal()
        failures = [rule for rule, status in statuses.items() if status == "failed"]
        tally.cases[kind] += 1
        tally.rules[kind].update(failures)
        for demand in expectations:
            passed = all(statuses.get(rule, "passed") == "passed" for rule in demand.rules)
            assert not (demand.rules and passed), (damage, sorted(demand.rules), failures)
        if failures or any(demand.rules for demand in expectations):
            tally.seen[kind] += 1
        else:
            tally.harmless[", ".join(dict.fromkeys(e.harmless for e in expectations))] += 1

    return check


def test_damages_in_bulk(tree: Tree) -> None:
    check = one_damage(tree, Tally())
    settings(max_examples=300, **_BULK)(given(st.randoms(use_true_random=True))(check))()


@pytest.mark.slow
def test_ten_thousand_damages(tree: Tree) -> None:
    tally = Tally()
    check = one_damage(tree, tally)
    settings(max_examples=CASES, **_BULK)(given(st.randoms(use_true_random=True))(check))()
    assert tally.cases.total() >= CASES
    print("\n".join(tally.tables()))
