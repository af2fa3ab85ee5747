"""Llama 3.1 8B: summaries of news articles, datacenter and edge.

The edge form differs only in category, scenarios, samples and reference accuracy.
"""

from __future__ import annotations

from dataclasses import replace

from mlperf_suite.benchmarks.audits import TEST06
from mlperf_suite.benchmarks.definition import (
    ALL_ROUNDS,
    Benchmark,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    interactive,
    offline,
    server,
    single_stream,
    within,
)
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.model_identity import EOS, LLAMA_3_1_ROPE, ModelIdentity, SiblingModel
from mlperf_suite.benchmarks.prompts import SUMMARIZE, TextPrompt
from mlperf_suite.datasets.news import edge_draw, load_news
from mlperf_suite.scorers.rouge import RougeScorer

_EOS = (128001, 128008, 128009)
_REFERENCE = ReferenceAccuracy(
    (
        at_least("rouge1", 38.7792),
        at_least("rouge2", 15.9075),
        at_least("rougeL", 24.4957),
        at_least("rougeLsum", 35.793),
        within("gen_len", "characters", 8_167_644),
    ),
    13_368,
)
_EDGE_REFERENCE = ReferenceAccuracy(
    (
        at_least("rouge1", 39.06),
        at_least("rouge2", 16.1147),
        at_least("rougeL", 24.6375),
        at_least("rougeLsum", 36.124),
        within("gen_len", "characters", 3_051_113),
    ),
    5_000,
)
OFFICIAL = Workload(
    model="meta-llama/Llama-3.1-8B-Instruct",
    model_identity=ModelIdentity(
        shape={
            "model_type": "llama",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 14336,
            "vocab_size": 128256,
            "rope_scaling": LLAMA_3_1_ROPE,
        },
        # <|eot_id|>, with which an instructed model ends its turn.
        eos=128009,
        siblings=(
            SiblingModel("meta-llama/Llama-3.1-8B", EOS),
            SiblingModel("meta-llama/Meta-Llama-3-8B", "rope_scaling"),
            SiblingModel("meta-llama/Meta-Llama-3-8B-Instruct", "rope_scaling"),
            SiblingModel("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", EOS),
            SiblingModel("NousResearch/Hermes-3-Llama-3.1-8B", EOS),
        ),
    ),
    dataset="cnn_dailymail",
    load=load_news,
    # Raw text with the tokenizer's BOS and no chat template, as in the official preparation.
    prompt=TextPrompt(SUMMARIZE, chat=False, truncate_tokens=8000),
    generation=Generation(),
    scorer=RougeScorer(),
    reference=_REFERENCE,
    mean_tokens=128,
    # Approximate: the mean over 50 articles, including the text around them.
    prompt_tokens=705,
    cleans_up_spaces=True,
    # Fits the longest official prompt, 8,000 tokens, and its 128 new tokens.
    context=8192,
)
EDGE = replace(OFFICIAL, select=edge_draw, reference=_EDGE_REFERENCE)

LLAMA3_1_8B = Benchmark(
    "llama3.1-8b",
    "datacenter",
    13_368,
    (
        offline("llama3_1-8b"),
        server("llama3_1-8b", 2000, 100),
        interactive("llama3_1-8b-interactive", 500, 30),
    ),
    ALL_ROUNDS,
    _EOS,
    _REFERENCE,
    (TEST06,),
    workload=OFFICIAL,
    smoke=EMBEDDED,
    aliases=("llama3_1-8b",),
    by_default=True,
)
LLAMA3_1_8B_EDGE = Benchmark(
    "llama3.1-8b-edge",
    "edge",
    5_000,
    (offline("llama3_1-8b-edge"), single_stream("llama3_1-8b-edge")),
    ALL_ROUNDS,
    _EOS,
    _EDGE_REFERENCE,
    required=(("SingleStream",), ("Offline",)),
    workload=EDGE,
    smoke=EMBEDDED,
    aliases=("llama3_1-8b-edge",),
    by_default=True,
)
BENCHMARKS = (LLAMA3_1_8B, LLAMA3_1_8B_EDGE)
