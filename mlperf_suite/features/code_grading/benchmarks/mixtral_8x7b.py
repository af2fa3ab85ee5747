"""Mixtral 8x7B on OpenOrca, GSM8K and MBXP.

Source of the generation settings: language/mixtral-8x7b/SUT.py of github.com/mlcommons/inference.
"""

from __future__ import annotations

from mlperf_suite.benchmarks.audits import TEST06
from mlperf_suite.benchmarks.definition import (
    UNTIL_V6_0,
    Benchmark,
    ExpectedScore,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    from_a_file,
    offline,
    server,
)
from mlperf_suite.benchmarks.embedded import smoke_form
from mlperf_suite.benchmarks.model_marks import TEMPLATE, ModelMarks, Sibling
from mlperf_suite.benchmarks.prompts import PublishedTokens
from mlperf_suite.features.code_grading import frames
from mlperf_suite.features.code_grading.scorers.mbxp import Mbxp
from mlperf_suite.features.code_grading.scorers.mixtral_8x7b import MBXP, MixtralScorer

_SAMPLES = 15_000
_REFERENCE = ReferenceAccuracy(
    (
        at_least("rouge1", 45.5989),
        at_least("rouge2", 23.3526),
        at_least("rougeL", 30.4608),
        at_least("gsm8k", 73.66),
        at_least("mbxp", 60.16),
        # The checker uses different references for its two limits: 144.84 below, 145.9 above.
        ExpectedScore("tokens_per_sample", "tokens", 144.84, 0.9, 0.9, 145.9 * 1.1),
    ),
    _SAMPLES,
)
_OFFICIAL = Workload(
    model="mistralai/Mixtral-8x7B-Instruct-v0.1",
    marks=ModelMarks(
        shape={
            "model_type": "mixtral",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 14336,
            "num_local_experts": 8,
            "vocab_size": 32000,
            "num_experts_per_tok": 2,
        },
        template=r"\[INST\]",
        siblings=(
            Sibling("mistralai/Mixtral-8x7B-v0.1", TEMPLATE),
            Sibling("NousResearch/Nous-Hermes-2-Mixtral-8x7B-DPO", "vocab_size"),
        ),
    ),
    load=from_a_file("09292024_mixtral_15k_mintoken2_v1.parquet", frames.MIXTRAL_8X7B.load),
    prompt=PublishedTokens(),
    generation=Generation(
        max_new_tokens=1024,
        min_new_tokens=2,
        # The text of the ids 13 13940 28832 13, after which the reference forces an EOS.
        stops=((MBXP, "\n```\n"),),
        keeps_eos=False,
    ),
    scorer=MixtralScorer(Mbxp()),
    reference=_REFERENCE,
    mean_tokens=145,
    prompt_tokens=400,
    context=4096,
)
MIXTRAL_8X7B = Benchmark(
    "mixtral-8x7b",
    "datacenter",
    _SAMPLES,
    (offline("mixtral-8x7b"), server("mixtral-8x7b", 2000, 200)),
    UNTIL_V6_0,
    (2,),
    _REFERENCE,
    (TEST06,),
    required=(("Offline",), ("Server",)),
    workload=_OFFICIAL,
    smoke=smoke_form(_OFFICIAL, samples=9),
)
BENCHMARKS = (MIXTRAL_8X7B,)
