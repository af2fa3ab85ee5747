"""The published tables of damages have a row for each, whose rules alone detect it."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.submission_check.damages import BY_DAMAGE, DAMAGES, PAGE, damages_of, trees
from evidence.submission_check.submission_damages import FURTHER
from evidence.tables import table_after
from evidence.tree_edits import Home
from meta_tests.features.submission_check.made_submissions import write_submission
from meta_tests.judging.trees import ALSO_SEEN, broken_rules
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS, Round


def test_the_page_has_a_row_for_each_damage() -> None:
    names = [row.removeprefix("| ").split(" | ")[:2] for row in table_after(PAGE, BY_DAMAGE)]
    assert names == [
        [id_, name]
        for id_, benchmark, round_ in trees()
        for name in (DAMAGES if benchmark is None else damages_of(benchmark, round_))
    ]


@pytest.fixture(scope="module")
def tree_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A closed tree of a benchmark in its newest round, or of both forms of Llama 3.1 8B."""

    @functools.cache
    def write(id_: str) -> Path:
        root = tmp_path_factory.mktemp("tree")
        submission = write_submission(root, BENCHMARKS[id_], newest_round(BENCHMARKS[id_]))
        if id_ == LLAMA3_1_8B.id:
            write_submission(root, LLAMA3_1_8B_EDGE, newest_round(LLAMA3_1_8B_EDGE))
            system = submission / "systems/box.json"
            system.write_text(system.read_text().replace('"edge"', '"datacenter,edge"'))
        return root

    return write


def newest_round(benchmark: Benchmark) -> Round:
    return ROUNDS[benchmark.rounds[-1]]


OF_LLAMA = DAMAGES | FURTHER
EACH_DAMAGE = [(LLAMA3_1_8B.id, name) for name in OF_LLAMA] + [
    (benchmark.id, name)
    for benchmark in BENCHMARKS.values()
    if benchmark.in_trees and not benchmark.id.startswith("llama3.1-8b")
    for name in damages_of(benchmark, newest_round(benchmark))
]


@pytest.mark.parametrize(("id_", "name"), EACH_DAMAGE)
def test_each_damage_is_seen_by_its_rules_alone(
    tree_of: Callable[[str], Path], tmp_path: Path, id_: str, name: str
) -> None:
    root = tmp_path / "tree"
    shutil.copytree(tree_of(id_), root)
    benchmark, round_ = BENCHMARKS[id_], newest_round(BENCHMARKS[id_])
    damages = OF_LLAMA if benchmark is LLAMA3_1_8B else damages_of(benchmark, round_)
    damages[name].change(Home(root / "closed/Someone", round_.layout, id_))
    # A scenario of the official client alone is not in a tree of LoadGen's logs.
    absent = {"required_scenarios"} if benchmark.of_client else set()
    found = set(broken_rules(root, round_)) - ALSO_SEEN - absent
    assert found == damages[name].rules - absent
