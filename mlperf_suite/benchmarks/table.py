"""The benchmarks that the suite knows, one row each.

Sources: mlperf.conf (sample counts, minimum durations, latency limits) and constants.py of the
official submission checker (required scenarios), both of github.com/mlcommons/inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Category = Literal["datacenter", "edge"]
CATEGORIES: tuple[Category, ...] = ("datacenter", "edge")

MIN_DURATION_MS = 600_000
"""Every scenario of a submission runs ten minutes (mlperf.conf; the checker's TEST_DURATION_MS)."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """The limits on the 99th percentile of the time to first token and per output token, in ms."""

    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of a benchmark.

    `name` is what people and submissions say; `loadgen_scenario` and `loadgen_model` are what
    LoadGen's configuration calls it. `metric` is the key of the detail log that decides.
    """

    name: str
    loadgen_model: str
    loadgen_scenario: str
    metric: str
    metric_unit: str
    limits: TokenLimits | None = None

    @property
    def marker(self) -> str:
        return self.name.lower()

    @property
    def streams(self) -> bool:
        """Whether LoadGen is told the first token: everywhere but in Offline."""
        return self.loadgen_scenario != "Offline"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark in one category: `samples` is the size of its data and performance set."""

    id: str
    category: Category
    samples: int
    scenarios: tuple[Scenario, ...]
    compliance_tests: tuple[str, ...] = ()

    def scenario(self, name: str) -> Scenario:
        """The scenario of that name; raises KeyError where the benchmark has none."""
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        raise KeyError(f"{self.id} has no scenario {name}")


def _offline(model: str) -> Scenario:
    return Scenario("Offline", model, "Offline", "result_tokens_per_second", "tokens/s")


def _server(name: str, model: str, ttft_ms: float, tpot_ms: float) -> Scenario:
    limits = TokenLimits(ttft_ms, tpot_ms)
    return Scenario(name, model, "Server", "result_completed_tokens_per_second", "tokens/s", limits)


def _single_stream(model: str) -> Scenario:
    return Scenario(
        "SingleStream", model, "SingleStream", "result_90.00_percentile_latency_ns", "ns"
    )


LLAMA3_1_8B = Benchmark(
    "llama3.1-8b",
    "datacenter",
    13_368,
    (
        _offline("llama3_1-8b"),
        _server("Server", "llama3_1-8b", 2000, 100),
        _server("Interactive", "llama3_1-8b-interactive", 500, 30),
    ),
    ("TEST06",),
)
LLAMA3_1_8B_EDGE = Benchmark(
    "llama3.1-8b-edge",
    "edge",
    5_000,
    (_offline("llama3_1-8b-edge"), _single_stream("llama3_1-8b-edge")),
)

RUNNABLE: dict[Category, Benchmark] = {"datacenter": LLAMA3_1_8B, "edge": LLAMA3_1_8B_EDGE}
"""What the suite runs, by category."""

SCENARIOS: tuple[str, ...] = ("Offline", "Server", "Interactive", "SingleStream")
