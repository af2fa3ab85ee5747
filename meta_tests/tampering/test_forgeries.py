"""Forged submissions: the official checker accepts each, and a rule of the suite sees it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from meta_tests.tampering.forgeries import FORGERIES, NOT_SEEN, forge
from meta_tests.tampering.trees import HONEST_TREES, LLAMA2, round_of_tree, unpack
from meta_tests.tampering.verdicts import CHECKER, broken_rules, official_verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "forgeries.md"
CHECKOUT = Path(os.environ.get("MLPERF_INFERENCE") or "absent")
ROUND = round_of_tree(LLAMA2)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(LLAMA2, tmp_path_factory.mktemp("honest"))


@pytest.fixture
def tree(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "tree"))


@pytest.mark.parametrize("name", HONEST_TREES)
def test_an_honest_tree_obeys_every_rule(name: str, tmp_path: Path) -> None:
    assert broken_rules(unpack(name, tmp_path), round_of_tree(name)) == []


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_seen_by_its_rules_alone(name: str, tree: Path) -> None:
    forgery = FORGERIES[name]
    assert forgery.rules
    forge(tree, forgery, ROUND)
    assert set(broken_rules(tree, ROUND)) == forgery.rules


@pytest.mark.parametrize("name", NOT_SEEN)
def test_a_forgery_that_leaves_every_redundancy_intact_is_not_seen(name: str, tree: Path) -> None:
    forge(tree, NOT_SEEN[name], ROUND)
    assert broken_rules(tree, ROUND) == []


@pytest.mark.slow
@pytest.mark.skipif(not (CHECKOUT / CHECKER).is_dir(), reason="no MLPERF_INFERENCE")
@pytest.mark.parametrize("name", [*FORGERIES, *NOT_SEEN])
def test_the_official_checker_accepts_a_forgery(name: str, tree: Path) -> None:
    forge(tree, (FORGERIES | NOT_SEEN)[name], ROUND)
    assert official_verdict(tree, CHECKOUT, ROUND) == "passes"


def test_the_page_has_a_row_for_each_forgery() -> None:
    rows = re.findall(
        r"^\| (.+?) \| .+? \| (?:passes|not tried|nothing)", PAGE.read_text(), re.MULTILINE
    )
    assert rows == [*FORGERIES, *NOT_SEEN]
    assert len(FORGERIES) >= 40
