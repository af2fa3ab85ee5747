"""The tables of the series MLPerf Endpoints v1.0: cohorts and their seeds, models, regions.

Sources: endpoints_rules.md, endpoints_submission_rules.md and seedset.yaml of
github.com/mlcommons/endpoints_policies, whose sections (§) are named; targets and drafters: the
data of endpoints-submission-cli 1.5.3.0, the official checker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mlperf_suite.benchmarks.definition import ExpectedScore, at_least
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OfficialClientBenchmark,
)

ULTRA_LOW = 32
"""The highest concurrency of an ultra-low point, and of C_min (§5.4)."""
MIN_POINTS, MAX_POINTS = 7, 32
"""Of a curve; a dedicated Offline point is one more than the fewest (§5.3)."""
OFFLINE_SHARE = 0.98
"""Of the throughput at C_max, which a dedicated Offline point must reach (§5.7.2)."""
MIN_PASSES = 4
"""Super-passes of a steady-state window (§4.4)."""
MANDATORY = ("ultra-low", "low", "medium", "high")
"""The regions that need a point, with an accuracy run (§5.3)."""
_COHORT = re.compile(r"(\d{4})-(0[1-9]|1[0-2])-C([01])", re.ASCII)
_COHORTS_OF_A_SEED_SET = 4
_COHORTS_BEFORE_A_DRAFTER = 2


def cohort_number(name: str) -> int | None:
    """A cohort, as "2026-10-C1", counted in cohorts from year 0; None for any other text (§4.2)."""
    if (match := _COHORT.fullmatch(name)) is None:
        return None
    year, month, index = map(int, match.groups())
    return (year * 12 + month - 1) * 2 + index


def _from(first: str, target: str, wait: int) -> int | None:
    """How many cohorts a target is after the first one that is allowed; None if it is none."""
    start, number = cohort_number(first), cohort_number(target)
    return None if start is None or number is None else number - start - wait


@dataclass(frozen=True, slots=True)
class SeedSet:
    """Seeds that MLCommons published for a cohort and the three after it (§4.6)."""

    cohort: str
    seeds: Mapping[str, int]

    def serves(self, cohort: str) -> bool:
        """Whether a submission to that cohort may use it."""
        later = _from(self.cohort, cohort, 0)
        return later is not None and 0 <= later < _COHORTS_OF_A_SEED_SET


SEED_SETS = {
    "A": SeedSet(
        "2026-10-C1",
        {
            "scheduler_rng_seed": 10487924139932647040,
            "sample_index_rng_seed": 586478644936801402,
            "model_seed": 9315206023656308754,
        },
    )
}
SERIES = Round("Endpoints v1.0", 0, 586478644936801402, 10487924139932647040, "none", "v6")
"""What stands for the round in verdicts on a package; it has no seed of a library (qsl)."""


def _model(
    name: str, samples: int, answers: int, *expected: ExpectedScore, scale: float = 1.0
) -> OfficialClientBenchmark:
    # Server: what streams, and so has TTFT and TPOT.
    return OfficialClientBenchmark(
        name, "datacenter", "Server", samples, answers, {}, expected, scale
    )


_LENGTH = 8_167_644
SERIES_MODELS = {
    model.id: model
    for model in (
        _model("deepseek-r1", 4388, 4388, at_least("exact_match", 81.3582)),
        _model("gpt-oss-120b", 6396, 4395, at_least("exact_match", 83.13), scale=100.0),
        _model(
            "llama3_1-8b",
            13368,
            13368,
            at_least("rouge1", 38.7792),
            at_least("rouge2", 15.9075),
            at_least("rougeL", 24.4957),
            at_least("rougeLsum", 35.793),
            ExpectedScore("gen_len", "characters", _LENGTH, 0.9, 0.9, 1.1 * _LENGTH),
        ),
    )
}
"""The benchmarks of one turn, by the names of their folders (§3.2)."""


@dataclass(frozen=True, slots=True)
class AgenticTargets:
    """Gates of a benchmark of several turns (§3.2): scores in percent, tokens of a turn.

    `inline`: of the performance run at every point; `swe_bench`: of the mean over the mandatory
    regions; `tokens`: least and most mean length of a turn at every point.
    """

    inline: float
    swe_bench: float
    tokens: tuple[float, float]


AGENTIC_TARGETS = {
    "kimi-k3": AgenticTargets(58.32, 93.5, (425.0, 520.0)),
    "qwen3_6-35b-a3b": AgenticTargets(55.86, 69.0, (344.0, 422.0)),
    "deepseek-v4_1-flash": AgenticTargets(52.36, 96.4, (793.0, 970.0)),
}
AGENTIC_SAMPLING: dict[str, dict[str, float]] = {
    "kimi-k3": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 8192},
    "qwen3_6-35b-a3b": {
        **{"temperature": 1.0, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.0},
        **{"presence_penalty": 1.5, "max_new_tokens": 8192},
    },
}
"""The only parameters that may be set (examples/10_Agentic_Inference/README.md of
mlcommons/endpoints), which has none of DeepSeek-V4.1-Flash."""
AGENTIC_MODELS = tuple(AGENTIC_TARGETS)
"""The benchmarks of several turns, by the names of their folders (§3.2)."""
CONCURRENCY, AGENTIC = "concurrency", "agentic_inference"
"""Load patterns (§6.1)."""
TRAJECTORIES = 613
"""Conversations of the data set of several turns, each issued equally often."""
SWE_BENCH_PROBLEMS = 200
"""Both: examples/10_Agentic_Inference/README.md of github.com/mlcommons/endpoints."""
_DRAFTERS_COHORT = "2026-09-C1"
_DRAFTERS = {
    "deepseek-r1": (
        "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad",
        "93947a0d7bd04f73ff98636f6b18ff5839e7aaf9",
    ),
    "gpt-oss-120b": ("633caf45f31288cbb70ee237f7c939db707ecc94",),
}
"""The approved drafters of speculative decoding by the revision of their weights (§2.9.4)."""


def is_approved_drafter(model: str, checksum: object, target: str) -> bool:
    """Whether a benchmark may be submitted to that cohort with the drafter of that checksum."""
    later = _from(_DRAFTERS_COHORT, target, _COHORTS_BEFORE_A_DRAFTER)
    approved = [f"git-sha1:{revision}" for revision in _DRAFTERS.get(model, ())]
    return checksum in approved and later is not None and later >= 0


@dataclass(frozen=True, slots=True)
class Regions:
    """The concurrencies of a curve's regions, each by its last one (§5.5)."""

    c_min: int
    low: int
    medium: int
    c_max: int
    c_min_declared: bool = False

    @classmethod
    def of(cls, c_max: int, c_min: int, *, c_min_declared: bool = False) -> Regions:
        """The regions between two concurrencies. `c_min_declared`: the ultra-low region ends at
        C_min and not at 32. Raises ValueError if they are no bounds of a curve."""
        if not 1 <= c_min <= ULTRA_LOW < c_max:
            raise ValueError(f"C_min {c_min:,} and C_max {c_max:,}")
        third = math.log2(c_max - c_min) / 3
        # round() rounds halves to even, which the rules prescribe.
        low, medium = round(c_min + 2**third), round(c_min + 2 ** (2 * third))
        return cls(c_min, low, medium, c_max, c_min_declared)

    @property
    def margin(self) -> int:
        """The highest concurrency that a point may have (§5.4)."""
        return math.ceil(1.10 * self.c_max)

    @property
    def ultra_low(self) -> int:
        return self.c_min if self.c_min_declared else ULTRA_LOW

    def of_point(self, concurrency: int) -> Iterator[str]:
        """The mandatory regions that a point may count for: the ultra-low one reaches to 32, unless
        C_min is declared, so it may be there and in another."""
        if 1 <= concurrency <= self.ultra_low:
            yield "ultra-low"
        ends = (("low", self.low), ("medium", self.medium), ("high", self.c_max))
        if concurrency > self.c_min:
            yield from [name for name, end in ends if concurrency <= end][:1]

    def declared_as(self, concurrency: int) -> str:
        """What point.yaml calls the region of a point (§8.3)."""
        if concurrency <= self.c_min:
            return "low_latency"
        names = (("low", self.low), ("med", self.medium), ("high", self.c_max))
        region = next((name for name, end in names if concurrency <= end), None)
        return f"{region}_concurrency" if region else "margin"


def min_duration_s(concurrency: int, *, agentic: bool = False) -> float:
    """How long a point must be measured, in seconds (§6.2). `agentic`: of several turns."""
    if concurrency <= ULTRA_LOW:
        return 600.0
    return 2400.0 if agentic else 1200.0
