"""The benchmarks that the suite knows."""

from __future__ import annotations

from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.registry import BENCHMARKS


def test_the_table_has_every_benchmark_once():
    assert len({b.id for b in BENCHMARKS.values()}) == len(BENCHMARKS) == 6
    assert LLAMA2_70B_99.id in BENCHMARKS
