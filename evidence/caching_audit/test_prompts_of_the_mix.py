"""The prompts of the caching audit's mix, made from any data: as long as the data's, and alike."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.features.caching_audit.audit import median_sample, new_prompts

TOKENS = st.lists(st.integers(0, 50), min_size=1, max_size=60)


@given(st.lists(TOKENS, min_size=1, max_size=12), TOKENS, TOKENS, st.integers(0, 2**32))
def test_new_prompts_have_the_length_and_the_shape_of_the_data(
    bodies: list[list[int]], head: list[int], tail: list[int], seed: int
) -> None:
    data = [[*head, *body, *tail] for body in bodies]
    length = len(data[median_sample(data)])
    prompts = new_prompts(data, length, 5, random.Random(seed))
    assert [len(prompt) for prompt in prompts] == [length] * 5
    assert {token for prompt in prompts for token in prompt} <= {t for p in data for t in p}
    if len(data) > 1:
        head_length = min(len(head), length // 4)
        assert all(prompt[:head_length] == head[:head_length] for prompt in prompts)
        ends = min(len(tail), length // 4)
        assert all(prompt[length - ends :] == tail[len(tail) - ends :] for prompt in prompts)


@given(st.lists(TOKENS, min_size=1, max_size=30))
def test_the_median_sample_is_one_of_the_middle(prompts: list[list[int]]) -> None:
    length = len(prompts[median_sample(prompts)])
    shorter = sum(len(prompt) < length for prompt in prompts)
    longer = sum(len(prompt) > length for prompt in prompts)
    assert max(shorter, longer) <= len(prompts) / 2
