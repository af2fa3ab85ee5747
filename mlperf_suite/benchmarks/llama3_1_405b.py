"""Llama 3.1 405B on long contexts.

Source of the generation settings: language/llama3.1-405b/SUT_VLLM.py of
github.com/mlcommons/inference, whose tag v5.1 has 2 as the fewest tokens of an answer, and 1 since
pull request 2349.
"""

from __future__ import annotations

from dataclasses import replace

from mlperf_suite.benchmarks.audits import TEST06
from mlperf_suite.benchmarks.definition import (
    UNTIL_V6_0,
    Benchmark,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    from_a_file,
    interactive,
    offline,
    server,
    within,
)
from mlperf_suite.benchmarks.embedded import smoke_form
from mlperf_suite.benchmarks.model_identity import EOS, LLAMA_3_1_ROPE, ModelIdentity, SiblingModel
from mlperf_suite.benchmarks.prompts import PublishedTokens
from mlperf_suite.datasets import mlperf_frames
from mlperf_suite.scorers.llama3_1_405b import LongContextScorer

_SAMPLES = 8_313
_REFERENCE = ReferenceAccuracy(
    (
        at_least("rougeL", 21.6666),
        at_least("exact_match", 90.1335),
        within("tokens_per_sample", "tokens", 684.68),
    ),
    _SAMPLES,
)
_OFFICIAL = Workload(
    model="meta-llama/Llama-3.1-405B-Instruct",
    model_identity=ModelIdentity(
        shape={
            "model_type": "llama",
            "hidden_size": 16384,
            "num_hidden_layers": 126,
            "num_attention_heads": 128,
            "intermediate_size": 53248,
            "vocab_size": 128256,
            "rope_scaling": LLAMA_3_1_ROPE,
        },
        eos=128009,
        siblings=(
            SiblingModel("meta-llama/Llama-3.1-405B", EOS),
            SiblingModel("NousResearch/Hermes-3-Llama-3.1-405B", EOS),
        ),
    ),
    load=from_a_file(
        "mlperf_llama3.1_405b_dataset_8313_processed_fp16_eval.parquet",
        mlperf_frames.LLAMA3_1_405B.load,
    ),
    prompt=PublishedTokens(),
    generation=Generation(max_new_tokens=2000, temperature=1.0),
    scorer=LongContextScorer(),
    reference=_REFERENCE,
    mean_tokens=684.68,
    prompt_tokens=9400,
    cleans_up_spaces=True,
    # The reference's limit on a sequence (model_max_length).
    context=22_000,
)


def _as_in_v5_1(workload: Workload) -> Workload:
    return replace(workload, generation=replace(workload.generation, min_new_tokens=2))


LLAMA3_1_405B = Benchmark(
    "llama3.1-405b",
    "datacenter",
    _SAMPLES,
    (
        offline("llama3_1-405b"),
        server("llama3_1-405b", 6000, 175),
        interactive("llama3_1-405b-interactive", 4500, 80),
    ),
    UNTIL_V6_0,
    (128001, 128008, 128009),
    _REFERENCE,
    (TEST06,),
    workload=_OFFICIAL,
    smoke=smoke_form(_OFFICIAL, samples=8),
    by_round={"v5.1": _as_in_v5_1},
    aliases=("llama3_1-405b",),
)
BENCHMARKS = (LLAMA3_1_405B,)
