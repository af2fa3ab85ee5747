"""edge-agentic: recorded sessions of a coding agent and function calling, by Qwen3.6-27B.

Sources: language/edge-agentic/README.md of mlcommons/inference, and of mlcommons/endpoints
examples/11_Edge_Agentic_Example, compliance/checker.py and config/rulesets/mlcommons/rules.py.
"""

from __future__ import annotations

from dataclasses import replace

from mlperf_suite.benchmarks.definition import (
    OWN_HEAD,
    UNKNOWN_IDENTITY,
    Benchmark,
    Generation,
    Part,
    ReferenceAccuracy,
    Scenario,
    Speculation,
    Workload,
    at_least,
    from_a_file,
)
from mlperf_suite.benchmarks.model_identity import ModelIdentity, SiblingModel
from mlperf_suite.features.chats.agent_sessions import load_sessions
from mlperf_suite.features.chats.chat_prompts import CHATS, EMBEDDED_TEMPLATE, ChatMessages
from mlperf_suite.features.chats.function_calls import (
    NORMALIZED,
    OVERALL,
    FunctionCallScorer,
    load_own_questions,
    load_questions,
)

_TURNS, _QUESTIONS, _SMOKE_TOKENS = 1_007, 995, 32
_SHARE = 0.97
_REFERENCE = ReferenceAccuracy(
    (at_least(OVERALL, 86.23, _SHARE, _SHARE), at_least(NORMALIZED, 87.96, _SHARE, _SHARE)),
    _QUESTIONS,
)
_GENERATION = Generation(max_new_tokens=1024, min_new_tokens=0, top_k=0)
_SMOKE_GENERATION = replace(_GENERATION, max_new_tokens=_SMOKE_TOKENS)
_OFFICIAL = Workload(
    model="Qwen/Qwen3.6-27B",
    model_identity=ModelIdentity(
        shape={
            "model_type": "qwen3_5",
            "text_config": {"hidden_size": 5120, "num_hidden_layers": 64, "vocab_size": 248320},
        },
        siblings=(SiblingModel("Qwen/Qwen3.5-27B"),),
    ),
    load=from_a_file("agentic_coding_2.5h.jsonl of mlcommons/endpoints", load_sessions),
    prompt=ChatMessages(tool_parser="qwen3_coder", reasoning_parser="qwen3"),
    generation=_GENERATION,
    scorer=FunctionCallScorer(),
    reference=_REFERENCE,
    # Of the recorded answers, and of the conversations' prompts; not published as such.
    mean_tokens=150,
    prompt_tokens=9_000,
    context=32_768,
    parts={"accuracy": Part(load_questions, _GENERATION, 60)},
)
QWEN3_6_27B = Benchmark(
    "qwen3.6-27b",
    "edge",
    _TURNS,
    # LoadGen has no part in it.
    (Scenario("SingleStream", "", "SingleStream", "tokens_per_sec", "tokens/s"),),
    ("v6.1",),
    (),
    _REFERENCE,
    workload=_OFFICIAL,
    smoke=replace(
        _OFFICIAL,
        model="embedded",
        model_identity=UNKNOWN_IDENTITY,
        load=load_sessions,
        dataset="embedded",
        prompt=ChatMessages(EMBEDDED_TEMPLATE, tool_parser="hermes"),
        generation=_SMOKE_GENERATION,
        scorer=FunctionCallScorer(own_questions=True),
        mean_tokens=_SMOKE_TOKENS,
        prompt_tokens=250,
        context=2_048,
        parts={"accuracy": Part(load_own_questions, _SMOKE_GENERATION, _SMOKE_TOKENS)},
        ungated="another model on questions of this project: the score is not a result",
        own_samples=24,
    ),
    accuracy_samples=_QUESTIONS,
    required=(("SingleStream",),),
    # The model's own MTP head, lossless, with any number of steps.
    speculation=Speculation(
        ("v6.1",),
        ("mtp", "qwen3_5_mtp", "nextn"),
        (OWN_HEAD, _OFFICIAL.model),
        (),
        steps=tuple(range(1, 17)),
        scenario="SingleStream",
    ),
    in_trees=False,
    run_kind=CHATS,
)
BENCHMARKS = (QWEN3_6_27B,)
