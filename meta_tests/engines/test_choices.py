"""How a model is split over GPUs where the user left it open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.vllm_arguments import choose_tensor_parallel

MODELS = st.sampled_from([(32, 8), (64, 8), (128, 8), (9, 3), (36, 12), (14, 2), (12, 12), (40, 1)])


def can_split(gpus: int, heads: int, kv_heads: int) -> bool:
    """Each GPU has as many heads as the others, and whole KV heads or copies of one."""
    per_gpu, rest = divmod(heads, gpus)
    kv = kv_heads % gpus if gpus <= kv_heads else gpus % kv_heads
    return per_gpu > 0 and rest == kv == 0


@given(gpus=st.integers(0, 16), model=MODELS)
def test_auto_takes_the_most_that_the_model_can_be_split_over(
    gpus: int, model: tuple[int, int]
) -> None:
    choice = choose_tensor_parallel(gpus, *model, request=None)
    assert can_split(choice.value, *model)
    assert not any(can_split(n, *model) for n in range(choice.value + 1, gpus + 1))


@given(gpus=st.integers(0, 16), model=MODELS, request=st.none() | st.integers(1, 16))
def test_an_idle_gpu_is_never_kept_quiet(
    gpus: int, model: tuple[int, int], request: int | None
) -> None:
    choice = choose_tensor_parallel(gpus, *model, request=request)
    idle = max(0, gpus - choice.value)
    assert (f"idle GPUs: {idle} (" in choice.why) == bool(idle)
    if idle:
        assert choice.why.endswith(f"({', '.join(map(str, range(choice.value, gpus)))})")


@given(gpus=st.integers(0, 16), model=MODELS, request=st.integers(1, 16))
def test_what_was_asked_is_kept(gpus: int, model: tuple[int, int], request: int) -> None:
    choice = choose_tensor_parallel(gpus, *model, request=request)
    assert choice.value == request
    assert choice.why.startswith("as asked")


@pytest.mark.parametrize(
    ("gpus", "model", "value", "why"),
    [
        (0, (32, 8), 1, "auto: no GPU"),
        (1, (32, 8), 1, "auto: the only GPU"),
        (8, (32, 8), 8, "auto: all 8 GPUs"),
        (6, (36, 12), 6, "auto: all 6 GPUs"),
        (
            6,
            (32, 8),
            4,
            "auto: 32 attention heads and 8 KV heads cannot be split over 5 or 6 GPUs; "
            "idle GPUs: 2 (4, 5)",
        ),
    ],
)
def test_the_reason_is_said(gpus: int, model: tuple[int, int], value: int, why: str) -> None:
    choice = choose_tensor_parallel(gpus, *model, request=None)
    assert (choice.value, choice.why) == (value, why)
