"""Forged submissions: a rule of the suite sees each, the official checker accepts all but one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evidence.forgeries.forgeries import (
    FORGERIES,
    HEADERS,
    NOT_SEEN,
    PAGE,
    forge,
    names_on_the_page,
)
from evidence.from_elsewhere import INFERENCE, needs_inference
from evidence.verdicts import official_verdict
from meta_tests.judging.trees import broken_rules
from meta_tests.tampering.trees import LLAMA2, round_of_tree, unpack
from mlperf_suite.rules.registry import every_rule

ROUND = round_of_tree(LLAMA2)
REFUSED = {"each figure of tokens and accuracy.txt's mean up by 15% (Server)": "fails: accuracy"}
"""Those that the official checker sees."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(LLAMA2, tmp_path_factory.mktemp("honest"))


@pytest.fixture
def tree(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "tree"))


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


@needs_inference
@pytest.mark.parametrize("name", [*FORGERIES, *NOT_SEEN])
def test_the_official_checker_accepts_a_forgery_or_says_why(name: str, tree: Path) -> None:
    forge(tree, (FORGERIES | NOT_SEEN)[name], ROUND)
    assert official_verdict(tree, INFERENCE, ROUND) == REFUSED.get(name, "passes")


def test_the_page_counts_the_forgeries_and_those_that_only_rules_on_consistency_see() -> None:
    name = "mlperf_suite.features.log_consistency"
    rules = {rule.name for rule in every_rule() if rule.check.__module__.startswith(name)}
    alone = sum(forgery.rules <= rules for forgery in FORGERIES.values())
    words = PAGE.read_text()
    assert f"in {len(FORGERIES)} ways" in words and f" {alone} of them would pass here" in words


@pytest.mark.parametrize("header", HEADERS)
def test_the_page_has_a_row_for_each_forgery(header: str) -> None:
    assert names_on_the_page(header) == list(HEADERS[header])
