"""What MMLU must fulfil: every question answered and scored, and a sufficient score."""

import pytest

pytestmark = pytest.mark.mmlu


def test_mmlu_all_scored(mmlu_run):
    """Every planned question was scored."""
    mmlu_run.obeys("mmlu_all_scored")


def test_mmlu_score(mmlu_run):
    """The score is above the level of guessing, or at least --mmlu-min-accuracy."""
    mmlu_run.obeys("mmlu_score")


def test_share(mmlu_share):
    """With several engines and pytest-xdist: each worker's share of the subjects is scored."""
    assert mmlu_share.scored == mmlu_share.planned
