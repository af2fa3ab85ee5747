"""Llama 2 70B on OpenOrca, at both accuracy targets.

Source of the generation settings: language/llama2-70b/SUT.py of github.com/mlcommons/inference.
"""

from __future__ import annotations

from mlperf_suite.benchmarks.audits import TEST06
from mlperf_suite.benchmarks.definition import (
    ALL_ROUNDS,
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
from mlperf_suite.benchmarks.model_identity import TEMPLATE, ModelIdentity, SiblingModel
from mlperf_suite.benchmarks.prompts import PublishedTokens
from mlperf_suite.datasets import mlperf_frames
from mlperf_suite.scorers.rouge import OpenOrcaScorer

_SAMPLES = 24_576
_FILE = "open_orca_gpt4_tokenized_llama.sampled_24576.parquet"


def _llama2_70b(id_: str, rounds: tuple[str, ...], share: float) -> Benchmark:
    reference = ReferenceAccuracy(
        (
            at_least("rouge1", 44.4312, share),
            at_least("rouge2", 22.0352, share),
            at_least("rougeL", 28.6162, share),
            within("tokens_per_sample", "tokens", 294.45),
        ),
        _SAMPLES,
    )
    workload = Workload(
        model="meta-llama/Llama-2-70b-chat-hf",
        model_identity=ModelIdentity(
            shape={
                "model_type": "llama",
                "hidden_size": 8192,
                "num_hidden_layers": 80,
                "num_attention_heads": 64,
                "intermediate_size": 28672,
                "vocab_size": 32000,
            },
            template="<<SYS>>",
            siblings=(
                SiblingModel("meta-llama/Llama-2-70b-hf", TEMPLATE),
                SiblingModel("codellama/CodeLlama-70b-Instruct-hf", "vocab_size"),
            ),
        ),
        load=from_a_file(_FILE, mlperf_frames.LLAMA2_70B.load),
        prompt=PublishedTokens(),
        generation=Generation(max_new_tokens=1024),
        scorer=OpenOrcaScorer(),
        reference=reference,
        mean_tokens=294.45,
        prompt_tokens=300,
        cleans_up_spaces=True,
        context=2048,
    )
    return Benchmark(
        id_,
        "datacenter",
        _SAMPLES,
        (
            offline("llama2-70b"),
            server("llama2-70b", 2000, 200),
            interactive("llama2-70b-interactive", 450, 40),
        ),
        rounds,
        (2,),
        reference,
        (TEST06,),
        workload=workload,
        smoke=smoke_form(workload, samples=7),
    )


LLAMA2_70B_99 = _llama2_70b("llama2-70b-99", UNTIL_V6_0, 0.99)
LLAMA2_70B_99_9 = _llama2_70b("llama2-70b-99.9", ALL_ROUNDS, 0.999)
BENCHMARKS = (LLAMA2_70B_99, LLAMA2_70B_99_9)
