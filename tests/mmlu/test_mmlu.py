"""What MMLU must show: every question answered and scored, and a score that is high enough."""

import pytest

pytestmark = [pytest.mark.mmlu, pytest.mark.xdist_group("engine")]


def test_rule(mmlu_verdict, expect):
    expect(mmlu_verdict)
