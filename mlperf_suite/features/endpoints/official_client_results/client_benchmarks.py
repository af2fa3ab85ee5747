"""What MLPerf demands of a benchmark's result from the official HTTP client, round v6.1.

Source: constants.py of the submission checker (ENDPOINTS_ALLOWED_MODELS, LLM_LATENCY_LIMITS,
accuracy-target, accuracy-sample-count). A benchmark of this suite keeps its own limits and
reference accuracy; those that the suite cannot run have a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import find_benchmark
from mlperf_suite.benchmarks.definition import Category, ExpectedScore, at_least
from mlperf_suite.loadgen.load_plan import ScenarioKey

OFFICIAL_CLIENT_MODELS = (
    *("wan-2.2-t2v-a14b", "qwen3-vl-235b-a22b", "qwen3.6-27b", "llama3.1-8b"),
    *("llama3.1-8b-edge", "gpt-oss-120b", "deepseek-r1"),
)
"""The benchmarks that may be measured with the client (ENDPOINTS_ALLOWED_MODELS)."""
OFFICIAL_CLIENT_ROUND = "v6.1"
"""The first round that takes the client's results."""
QWEN3_6, WAN = "qwen3.6-27b", "wan-2.2-t2v-a14b"
_QWEN3_VL = "qwen3-vl-235b-a22b"
_SCALES = {"gpt-oss-120b": 100.0, _QWEN3_VL: 100.0}
"""What turns a number in accuracy_results.json into the reference's unit: pass_at_1,
shopify_category_f1 and code_bench_scorer write a share, the scorer of deepseek-r1 percents
(evaluation/scoring.py)."""


OFFICIAL_CLIENT_SCENARIOS = ("Offline", "Server", "Interactive")
"""Those that a session runs with the client."""


@dataclass(frozen=True, slots=True)
class OfficialClientRunKey(ScenarioKey):
    """One scenario of a benchmark, by their names, as a session runs it with the client."""

    kind: ClassVar[str] = "official client"
    mode: ClassVar[Mode] = "performance"

    def __str__(self) -> str:
        return f"{self.benchmark} {self.scenario} with the official client"


@dataclass(frozen=True, slots=True)
class OfficialClientBenchmark:
    """The demands on one scenario of a benchmark.

    `samples`: of the data set; `answers`: of the accuracy run. `limits_ms`: by the series of
    result_summary.json whose 99th percentile has a limit. `expected`: the scores that are gated;
    none if MLPerf's figure cannot be compared. `scale`: from the client's number to their unit.
    `also`: a second category that offers the benchmark. `mean_tokens`: the least and the most mean
    length of an answer, as the benchmark's TEST09 has them.
    """

    id: str
    category: Category
    scenario: str
    samples: int
    answers: int
    limits_ms: Mapping[str, float] = field(default_factory=dict)
    expected: tuple[ExpectedScore, ...] = ()
    scale: float = 1.0
    also: Category | None = None
    mean_tokens: tuple[float, float] | None = None


_OWN_DATA = {(_QWEN3_VL, "interactive"): (8_000, (at_least("f1", 78.78),))}
"""Samples and scores of a scenario with data of its own."""
_OTHERS = (
    OfficialClientBenchmark(QWEN3_6, "edge", "SingleStream", 995, 995),
    OfficialClientBenchmark(WAN, "datacenter", "Offline", 248, 248),
    OfficialClientBenchmark(WAN, "datacenter", "SingleStream", 248, 248),
)


def official_client_benchmark(name: str, scenario: str) -> OfficialClientBenchmark | None:
    """The demands on a scenario, case does not matter, by the names of folders; None if it is
    unknown."""
    names = (name, scenario.lower())
    row = next((r for r in _OTHERS if (r.id, r.scenario.lower()) == names), None)
    benchmark = find_benchmark(name)
    if row or benchmark is None or benchmark.id not in OFFICIAL_CLIENT_MODELS:
        return row
    own = next((s for s in benchmark.every_scenario if s.name.lower() == names[1]), None)
    if own is None:
        return None
    samples, expected = _OWN_DATA.get(names, (benchmark.samples, benchmark.reference.scores))
    test09 = benchmark.audit("test09")
    return OfficialClientBenchmark(
        benchmark.id,
        benchmark.category,
        own.name,
        samples,
        samples if names in _OWN_DATA else benchmark.samples_of("accuracy"),
        own.limits,
        expected,
        _SCALES.get(benchmark.id, 1.0),
        mean_tokens=test09.mean_tokens if test09 else None,
    )
