"""The benchmarks that the suite knows, one row each.

Sources: mlperf.conf (sample counts, minimum durations, latency limits) and constants.py of the
official submission checker (rounds, required scenarios, compliance tests), both of
github.com/mlcommons/inference. EOS ids: each model's own generation_config.json.
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
    """One benchmark in one category: `samples` is the size of its data and performance set.

    `required`: groups of scenarios; a closed submission has at least one of each group.
    `rounds`: those that offer it. `eos_token_ids`: the ids with which the model ends an answer.
    """

    id: str
    category: Category
    samples: int
    scenarios: tuple[Scenario, ...]
    required: tuple[tuple[str, ...], ...]
    rounds: tuple[str, ...]
    eos_token_ids: tuple[int, ...]
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


_OFFLINE_AND_ONLINE = (("Offline",), ("Server", "Interactive"))
_ALL_ROUNDS = ("v5.1", "v6.0", "v6.1")
_UNTIL_V6_0 = ("v5.1", "v6.0")
_LLAMA2_EOS = (2,)
_LLAMA3_1_EOS = (128001, 128008, 128009)

LLAMA3_1_8B = Benchmark(
    "llama3.1-8b",
    "datacenter",
    13_368,
    (
        _offline("llama3_1-8b"),
        _server("Server", "llama3_1-8b", 2000, 100),
        _server("Interactive", "llama3_1-8b-interactive", 500, 30),
    ),
    _OFFLINE_AND_ONLINE,
    _ALL_ROUNDS,
    _LLAMA3_1_EOS,
    ("TEST06",),
)
LLAMA3_1_8B_EDGE = Benchmark(
    "llama3.1-8b-edge",
    "edge",
    5_000,
    (_offline("llama3_1-8b-edge"), _single_stream("llama3_1-8b-edge")),
    (("SingleStream",), ("Offline",)),
    _ALL_ROUNDS,
    _LLAMA3_1_EOS,
)


def _llama2_70b(id_: str, rounds: tuple[str, ...]) -> Benchmark:
    return Benchmark(
        id_,
        "datacenter",
        24_576,
        (
            _offline("llama2-70b"),
            _server("Server", "llama2-70b", 2000, 200),
            _server("Interactive", "llama2-70b-interactive", 450, 40),
        ),
        _OFFLINE_AND_ONLINE,
        rounds,
        _LLAMA2_EOS,
        ("TEST06",),
    )


LLAMA2_70B_99 = _llama2_70b("llama2-70b-99", _UNTIL_V6_0)
LLAMA2_70B_99_9 = _llama2_70b("llama2-70b-99.9", _ALL_ROUNDS)
MIXTRAL_8X7B = Benchmark(
    "mixtral-8x7b",
    "datacenter",
    15_000,
    (_offline("mixtral-8x7b"), _server("Server", "mixtral-8x7b", 2000, 200)),
    (("Offline",), ("Server",)),
    _UNTIL_V6_0,
    _LLAMA2_EOS,
    ("TEST06",),
)
LLAMA3_1_405B = Benchmark(
    "llama3.1-405b",
    "datacenter",
    8_313,
    (
        _offline("llama3_1-405b"),
        _server("Server", "llama3_1-405b", 6000, 175),
        _server("Interactive", "llama3_1-405b-interactive", 4500, 80),
    ),
    _OFFLINE_AND_ONLINE,
    _UNTIL_V6_0,
    _LLAMA3_1_EOS,
    ("TEST06",),
)

RUNNABLE: dict[Category, Benchmark] = {"datacenter": LLAMA3_1_8B, "edge": LLAMA3_1_8B_EDGE}
"""What the suite runs, by category."""

BENCHMARKS: dict[str, Benchmark] = {
    b.id: b
    for b in (
        LLAMA3_1_8B,
        LLAMA3_1_8B_EDGE,
        LLAMA2_70B_99,
        LLAMA2_70B_99_9,
        MIXTRAL_8X7B,
        LLAMA3_1_405B,
    )
}
"""What the suite judges, by id: what it runs, and what it knows from logs alone."""

_ALIASES = {
    "llama3_1-8b": LLAMA3_1_8B,
    "llama3_1-8b-edge": LLAMA3_1_8B_EDGE,
    "llama3_1-405b": LLAMA3_1_405B,
}
"""Names that submissions may use besides (model_mapping of the official checker)."""

SCENARIOS: tuple[str, ...] = ("Offline", "Server", "Interactive", "SingleStream")


def find_benchmark(name: str) -> Benchmark | None:
    """The benchmark that a submission calls so, or None where nobody here knows it."""
    return BENCHMARKS.get(name) or _ALIASES.get(name)
