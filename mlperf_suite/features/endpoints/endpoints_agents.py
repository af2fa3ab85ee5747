"""The agentic benchmarks of the series MLPerf Endpoints: trajectories at fixed concurrencies.

They have curves alone, and no run under LoadGen. Sources: endpoints_rules.md §3.2 of
mlcommons/endpoints_policies, and examples/10_Agentic_Inference/README.md of mlcommons/endpoints
(613 trajectories, sampling, inline scores).
"""

from __future__ import annotations

from dataclasses import replace

from mlperf_suite.benchmarks.chat_prompts import EMBEDDED_TEMPLATE, ChatMessages
from mlperf_suite.benchmarks.definition import (
    Benchmark,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    from_a_file,
)
from mlperf_suite.datasets.agent_sessions import load_sessions
from mlperf_suite.scorers.bash_calls import INLINE, InlineScorer

_TRAJECTORIES, _SMOKE_TOKENS, _OWN_TURNS = 613, 16, 11
_AS_KIMI = Generation(max_new_tokens=8192, min_new_tokens=0, temperature=1.0, top_k=0, seed=None)


def _benchmark(
    id_: str, model: str, inline: float, turn_tokens: float, generation: Generation
) -> Benchmark:
    reference = ReferenceAccuracy((at_least(INLINE, inline, 1.0, 1.0),), _TRAJECTORIES)
    official = Workload(
        model=model,
        load=from_a_file("agentic_combined.jsonl of the series", load_sessions),
        prompt=ChatMessages(),
        generation=generation,
        scorer=InlineScorer(),
        reference=reference,
        mean_tokens=turn_tokens,
        # Not published.
        prompt_tokens=20_000,
    )
    smoke = replace(
        official,
        model="embedded",
        load=load_sessions,
        dataset="embedded",
        prompt=ChatMessages(EMBEDDED_TEMPLATE),
        generation=replace(generation, max_new_tokens=_SMOKE_TOKENS),
        mean_tokens=_SMOKE_TOKENS,
        prompt_tokens=250,
        context=2_048,
        ungated="another model on conversations of this project: the score is not a result",
        own_samples=_OWN_TURNS,
    )
    return Benchmark(
        id_,
        "datacenter",
        _TRAJECTORIES,
        (),
        (),
        (),
        reference,
        workload=official,
        smoke=smoke,
        required=(),
        in_trees=False,
        chats=True,
    )


BENCHMARKS = (
    _benchmark("kimi-k3", "moonshotai/Kimi-K3", 58.32, 472.5, _AS_KIMI),
    _benchmark(
        "qwen3_6-35b-a3b",
        "Qwen/Qwen3.6-35B-A3B",
        55.86,
        383.0,
        replace(_AS_KIMI, top_k=20, top_p=0.95),
    ),
    # Its sampling is not published: that of Kimi-K3.
    _benchmark("deepseek-v4_1-flash", "deepseek-ai/DeepSeek-V4.1-Flash", 52.36, 881.5, _AS_KIMI),
)
