"""Damages to a tree of real logs, in bulk: none raises, and no rule that one violates passes.

bulk.py makes more of them, and the tables of docs/evidence/damaged-logs.md.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.damaged_logs.bulk import Tally, one_damage
from evidence.damaged_logs.random_damages import Tree
from meta_tests.tampering.trees import LLAMA3_1_405B, unpack


def test_damages_in_bulk(tmp_path: Path) -> None:
    """A case that fails is made smaller."""
    check = one_damage(Tree(unpack(LLAMA3_1_405B, tmp_path)), Tally())
    in_bulk = settings(
        max_examples=1000,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    in_bulk(given(st.randoms(use_true_random=True))(check))()
