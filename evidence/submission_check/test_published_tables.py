"""The published tables of damages have a row for each, whose rules alone detect it."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.submission_check.damages import DAMAGES, damages_of
from evidence.submission_check.submission_damages import FURTHER
from evidence.tree_edits import Home
from meta_tests.judging.trees import ALSO_SEEN, broken_rules
from meta_tests.made_runs import write_submission
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS, Round

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, CHECKERS_PAGE = DOCS / "submission.md", DOCS / "evidence" / "official-checker.md"


def test_the_page_has_a_row_for_each_damage() -> None:
    rows = re.findall(r"^\| (.+?) \| (?:passes|fails|traceback)", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(DAMAGES)
    assert len(rows) > 25


def test_the_checkers_page_has_a_row_for_each_damage_to_gpt_oss_120b() -> None:
    text = CHECKERS_PAGE.read_text().partition("All cases of gpt-oss-120b")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (.+?) \| (?:passes|fails|traceback)", text, re.MULTILINE)
    assert rows == list(damages_of(BENCHMARKS["gpt-oss-120b"], ROUNDS["v6.1"]))


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
