"""Trees of each round at full size, before the official checker: `make submission-proof`."""

from __future__ import annotations

import pytest

from evidence.submission.__main__ import WORK, prove
from evidence.submission.data import DATASETS
from evidence.submission.published import PUBLISHED
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.rounds import ROUNDS

TREES = [
    (round_, ids)
    for round_ in ROUNDS
    for ids in (tuple(DATASETS), *((id_,) for id_ in PUBLISHED))
    if round_ in BENCHMARKS[ids[0]].rounds
    if all(round_ not in scenario.rounds for scenario in BENCHMARKS[ids[0]].of_client)
]
"""Without those that need a scenario of the official client's too: qwen3-vl-235b-a22b of v6.1."""


@pytest.mark.parametrize(
    ("round_", "ids"), TREES, ids=lambda value: str(value) if value in ROUNDS else value[0]
)
def test_the_official_checker_accepts_the_tree(round_: str, ids: tuple[str, ...]) -> None:
    assert prove(WORK, [round_], at_once=5, benchmarks=ids) == 0
