"""Each damage of the published table is seen by the suite, and named by a rule."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from meta_tests.made_runs import system_fields, write_submission
from mlperf_suite.benchmarks.definition import RUNNABLE
from mlperf_suite.benchmarks.rounds import ROUNDS
from proof.damages import DAMAGES, Home, own_verdict

ROUND = ROUNDS["v6.1"]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "submission.md"
NOTHING = next(iter(DAMAGES))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("whole")
    for benchmark in RUNNABLE.values():
        submission = write_submission(root, benchmark, ROUND)
        for log in submission.glob("results/*/*/*/accuracy/mlperf_log_accuracy.json"):
            log.write_text("[\n" + "x" * 8000 + "\n]\n")
    both = system_fields() | {"submitter": "Someone", "division": "closed", "status": "available"}
    described = both | {"system_type": "datacenter,edge"}
    (submission / "systems" / "box.json").write_text(json.dumps(described))
    return root


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_named_by_a_rule(name: str, tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "tree")
    DAMAGES[name](Home(tmp_path / "tree/closed/Someone", ROUND.layout))
    assert (own_verdict(tmp_path / "tree", ROUND) == "passes") == (name == NOTHING)


def test_the_page_has_a_row_for_each_damage() -> None:
    rows = re.findall(r"^\| (.+?) \| (?:passes|fails|traceback)", PAGE.read_text(), re.MULTILINE)
    assert rows == list(DAMAGES)
    assert len(rows) > 25
