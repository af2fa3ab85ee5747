"""Llama 2 70B on OpenOrca, in its two accuracy grades. Judged from logs."""

from __future__ import annotations

from mlperf_suite.benchmarks.definition import (
    ALL_ROUNDS,
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

_SAMPLES = 24_576


def _llama2_70b(id_: str, rounds: tuple[str, ...], share: float) -> Benchmark:
    return Benchmark(
        id_,
        "datacenter",
        _SAMPLES,
        (
            offline("llama2-70b"),
            server("llama2-70b", 2000, 200),
            interactive("llama2-70b-interactive", 450, 40),
        ),
        OFFLINE_AND_ONLINE,
        rounds,
        (2,),
        ReferenceAccuracy(
            (
                at_least("rouge1", 44.4312, share),
                at_least("rouge2", 22.0352, share),
                at_least("rougeL", 28.6162, share),
                within("tokens_per_sample", "tokens", 294.45),
            ),
            _SAMPLES,
            OFFICIAL_SOURCE,
        ),
        ("TEST06",),
    )


LLAMA2_70B_99 = _llama2_70b("llama2-70b-99", UNTIL_V6_0, 0.99)
LLAMA2_70B_99_9 = _llama2_70b("llama2-70b-99.9", ALL_ROUNDS, 0.999)
BENCHMARKS = (LLAMA2_70B_99, LLAMA2_70B_99_9)
