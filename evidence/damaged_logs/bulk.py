"""Damages to a tree of real logs, in bulk: none raises, and no rule that one violates passes.

    python -m evidence.damaged_logs.bulk --write

damages a tree 10,000 times and prints what detected the damages, by their kinds; --write puts that
into docs/evidence/damaged-logs.md. --seed draws other damages than those of the page.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from evidence.damaged_logs.random_damages import KINDS, Tree
from evidence.damaged_logs.violations import demands
from evidence.tables import PAGES, rewrite_table
from meta_tests.tampering.trees import LLAMA3_1_405B, round_of_tree, unpack
from mlperf_suite.judging.judge import judge_folder

CASES = 10_000
_MAX_LISTED_RULES = 4
_BY_KIND = "| damage | cases | detected | most often by | harmless |"
_BY_REASON = "| harmless | cases |"


class Tally:
    """How many damages of each kind were seen and by what, and what was harmless and why."""

    def __init__(self) -> None:
        self.cases, self.seen = Counter[str](), Counter[str]()
        self.rules: dict[str, Counter[str]] = defaultdict(Counter)
        self.harmless = Counter[str]()

    def by_kind(self) -> Iterator[str]:
        for kind in KINDS:
            cases, detections = self.cases[kind], self.seen[kind]
            rules = ", ".join(
                f"`{rule}`" for rule, _ in self.rules[kind].most_common(_MAX_LISTED_RULES)
            )
            yield f"| {kind} | {cases:,} | {detections:,} | {rules} | {cases - detections:,} |"
        cases, detections = self.cases.total(), self.seen.total()
        yield f"| all | {cases:,} | {detections:,} | | {cases - detections:,} |"

    def by_reason(self) -> Iterator[str]:
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
    assert "failed" not in judged(tree).values()

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
        for required in expectations:
            passed = all(statuses.get(rule, "passed") == "passed" for rule in required.rules)
            assert not (required.rules and passed), (damage, sorted(required.rules), failures)
        if failures or any(required.rules for required in expectations):
            tally.seen[kind] += 1
        else:
            tally.harmless[", ".join(dict.fromkeys(e.harmless for e in expectations))] += 1

    return check


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=0, help="of the draws (%(default)s)")
    parser.add_argument("--write", action="store_true", help="into the page")
    options = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        check = one_damage(Tree(unpack(LLAMA3_1_405B, Path(folder))), tally)
        for case in range(options.cases):
            check(random.Random(f"{options.seed} {case}"))
    for header, rows in ((_BY_KIND, list(tally.by_kind())), (_BY_REASON, list(tally.by_reason()))):
        print("\n".join((header, *rows)), flush=True)
        if options.write:
            rewrite_table(PAGES / "damaged-logs.md", header, rows)


if __name__ == "__main__":
    main()
