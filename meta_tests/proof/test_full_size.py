"""A tree of each round at full size, before the official checker: `make submission-proof`."""

from __future__ import annotations

import pytest

from mlperf_suite.benchmarks.rounds import ROUNDS
from proof.__main__ import WORK, prove


@pytest.mark.slow
@pytest.mark.parametrize("round_", ROUNDS)
def test_the_official_checker_accepts_the_tree_of_a_round(round_: str) -> None:
    assert prove(WORK, [round_], at_once=5) == 0
