"""Llama 3.1 405B on long contexts. Judged from logs."""

from __future__ import annotations

from mlperf_suite.benchmarks.definition import (
    OFFICIAL_SOURCE,
    OFFLINE_AND_ONLINE,
    UNTIL_V6_0,
    Benchmark,
    ReferenceAccuracy,
    at_least,
    interactive,
    offline,
    server,
    within,
)

LLAMA3_1_405B = Benchmark(
    "llama3.1-405b",
    "datacenter",
    8_313,
    (
        offline("llama3_1-405b"),
        server("llama3_1-405b", 6000, 175),
        interactive("llama3_1-405b-interactive", 4500, 80),
    ),
    OFFLINE_AND_ONLINE,
    UNTIL_V6_0,
    (128001, 128008, 128009),
    ReferenceAccuracy(
        (
            at_least("rougeL", 21.6666),
            at_least("exact_match", 90.1335),
            within("tokens_per_sample", "tokens", 684.68),
        ),
        8_313,
        OFFICIAL_SOURCE,
    ),
    ("TEST06",),
    aliases=("llama3_1-405b",),
)
BENCHMARKS = (LLAMA3_1_405B,)
