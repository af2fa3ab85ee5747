"""What MMLU must show: every question answered and scored, and a score that is high enough."""

import pytest

pytestmark = pytest.mark.mmlu


def test_rule(mmlu_verdict, expect):
    expect(mmlu_verdict)


def test_share(mmlu_share):
    """With several engines and pytest-xdist: each worker's share of the subjects is scored."""
    assert mmlu_share.scored == mmlu_share.planned
