"""qwen3-vl-235b-a22b: the category of a product from its texts and its picture.

Sources: multimodal/qwen3-vl/README.md of mlcommons/inference ("Reference Implementation
Specification": sampling, 48,289 samples, the reference's F1, Interactive's limit), mlperf.conf (no
token latencies, Server's target_latency), and examples/08_Qwen3-VL-235B-A22B_Example of
mlcommons/endpoints (v6.1: at most 150 tokens). LoadGen runs Server in v6.0 alone: since v6.1 the
official HTTP client measures it, and Interactive.
"""

from __future__ import annotations

from dataclasses import replace

from mlperf_suite.benchmarks.definition import (
    F1,
    NO_MARKS,
    Benchmark,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    from_a_file,
    offline_samples,
    samples_at_a_rate,
)
from mlperf_suite.benchmarks.model_marks import ModelMarks, Sibling
from mlperf_suite.features.multimodal.hierarchical_f1 import HierarchicalF1Scorer
from mlperf_suite.features.multimodal.product_prompts import ProductPrompt
from mlperf_suite.features.multimodal.products import load_products
from mlperf_suite.random_models import RANDOM_BLIP2

_ID, _SAMPLES, _DRAWINGS, _SMOKE_TOKENS = "qwen3-vl-235b-a22b", 48_289, 32, 48
_SERVER_MS = 12_000
_REFERENCE = ReferenceAccuracy((at_least(F1, 79.03),), _SAMPLES)
_V6_0 = Workload(
    model="Qwen/Qwen3-VL-235B-A22B-Instruct",
    marks=ModelMarks(
        shape={
            "model_type": "qwen3_vl_moe",
            "text_config": {
                "hidden_size": 4096,
                "num_hidden_layers": 94,
                "num_experts": 128,
                "num_experts_per_tok": 8,
                "vocab_size": 151936,
            },
        },
        siblings=(
            Sibling("Qwen/Qwen3-VL-30B-A3B-Instruct", "text_config"),
            Sibling("Qwen/Qwen3-VL-235B-A22B-Thinking"),
        ),
    ),
    load=from_a_file("the folder of Shopify/product-catalogue's parquet files", load_products),
    prompt=ProductPrompt("v6.0"),
    # The reference limits no answer; a valid one has some fifty tokens.
    generation=Generation(
        max_new_tokens=2048, min_new_tokens=0, temperature=0.7, top_p=0.8, top_k=20, seed=None
    ),
    scorer=HierarchicalF1Scorer(),
    reference=_REFERENCE,
    # Neither is published.
    mean_tokens=60,
    prompt_tokens=1500,
    context=32_768,
    media="picture",
)


def _as_in_v6_1(workload: Workload) -> Workload:
    """With the prompt, the answer limit and the scorer of mlcommons/endpoints."""
    longest = min(150, workload.generation.max_new_tokens)
    return replace(
        workload,
        prompt=ProductPrompt("v6.1"),
        generation=replace(workload.generation, max_new_tokens=longest),
        scorer=HierarchicalF1Scorer(strips=True),
    )


QWEN3_VL = Benchmark(
    _ID,
    "datacenter",
    _SAMPLES,
    (offline_samples(_ID), samples_at_a_rate("Server", _ID, _SERVER_MS, ("v6.0",))),
    ("v6.0", "v6.1"),
    # The ids of <|im_end|> and <|endoftext|>.
    (151645, 151643),
    _REFERENCE,
    workload=_V6_0,
    smoke=replace(
        _V6_0,
        model=RANDOM_BLIP2,
        marks=NO_MARKS,
        load=load_products,
        dataset="embedded",
        generation=replace(_V6_0.generation, max_new_tokens=_SMOKE_TOKENS),
        mean_tokens=_SMOKE_TOKENS,
        context=4096,
        ungated="random weights of another architecture: no answer is meant",
        own_samples=_DRAWINGS,
    ),
    by_round={"v6.1": _as_in_v6_1},
    answers_as_text=True,
    of_client=(
        samples_at_a_rate("Server", _ID, _SERVER_MS, ("v6.1",)),
        samples_at_a_rate("Interactive", _ID, 1_500, ("v6.1",)),
    ),
)
BENCHMARKS = (QWEN3_VL,)
