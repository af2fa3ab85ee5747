"""What one LoadGen run is asked to do, and what its log must contain afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from mlperf_suite.benchmarks.audits import Audit, Mode
from mlperf_suite.benchmarks.definition import LOADGEN, MIN_DURATION_MS, Benchmark, Scenario
from mlperf_suite.benchmarks.rounds import Round

ACCURACY_ONLY, PERFORMANCE_ONLY = "AccuracyOnly", "PerformanceOnly"
AUDIT_MODES: tuple[Mode, ...] = ("test06", "test07", "test09", "test01")
"""MLPerf's own audits, which are part of a submission."""
COMPARED: tuple[Mode, Mode] = ("accuracy", "performance")
"""The runs with whose answers and rate an audit may be compared."""
MODES: tuple[Mode, ...] = (*COMPARED, *AUDIT_MODES)
PERFORMANCE_SAMPLES_KEY = "performance_sample_count_override"
ACCURACY_SAMPLES_KEY = "accuracy_sample_count_override"


def loadgen_mode(mode: Mode) -> str:
    """LoadGen's test mode: but for accuracy, every run is a performance run."""
    return ACCURACY_ONLY if mode == "accuracy" else PERFORMANCE_ONLY


@dataclass(frozen=True, slots=True)
class ScenarioKey:
    """Identifies what a session makes of a benchmark's scenario. `benchmark`: its id."""

    benchmark: str
    scenario: str

    @property
    def benchmark_and_scenario(self) -> tuple[str, str]:
        """What its result is of: the benchmark's id and the scenario's name."""
        return self.benchmark, self.scenario


@dataclass(frozen=True, slots=True)
class RunKey(ScenarioKey):
    """Identifies a run: a benchmark's scenario in one mode."""

    mode: Mode
    kind: ClassVar[str] = LOADGEN

    def __str__(self) -> str:
        return f"{self.benchmark} {self.scenario} {self.mode}"


@dataclass(frozen=True, slots=True)
class Shortened:
    """What a smoke run uses in place of MLPerf's durations (ms) and query counts.

    `latency_percent`: the percentile that Server's early stopping decides. `latency_factor`: by how
    much the latency limits are multiplied. `samples`: how many samples of the data set it
    uses, None for all.
    """

    min_duration_ms: int
    min_query_count: int
    samples: int | None = None
    latency_percent: int | None = None
    latency_factor: int = 1


SMOKE: dict[str, Shortened] = {
    "Offline": Shortened(10_000, 1),
    # The 99th percentile would take 459 queries, and the limits are set for GPUs.
    "Server": Shortened(20_000, 64, latency_percent=90, latency_factor=10),
    # One by one, 84 samples would take minutes; with 22, equal issue mode makes 66 queries.
    "SingleStream": Shortened(10_000, 64, samples=22),
}
"""By LoadGen's scenario. Early stopping needs at least 64 queries, shortened or not."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The settings of one run.

    `user_conf` is written to user.conf and `audit_conf` to audit.config, both with LoadGen's own
    keys. `log_values` maps keys of the detail log to the values that show that they took effect.
    """

    scenario: Scenario
    mode: Mode
    samples: int
    user_conf: Mapping[str, float | int]
    log_values: Mapping[str, object]
    audit_conf: Mapping[str, float | int] = field(default_factory=dict)

    def user_conf_text(self) -> str:
        """The text of user.conf; LoadGen ignores lines whose `=` is not surrounded by spaces."""
        prefix = f"{self.scenario.loadgen_model}.{self.scenario.loadgen_scenario}"
        return "".join(f"{prefix}.{key} = {value}\n" for key, value in self.user_conf.items())

    def audit_conf_text(self) -> str:
        """The text of audit.config, in the format of the official audit files."""
        return "".join(f"*.*.{key} = {value}\n" for key, value in self.audit_conf.items())


def plan_run(
    benchmark: Benchmark,
    scenario: Scenario,
    mode: Mode,
    round_: Round,
    samples: int,
    *,
    target_qps: float | None = None,
    expected_latency_ms: float | None = None,
    shortened: Shortened | None = None,
    audit_queries: int | None = None,
    audit: Audit | None = None,
) -> LoadPlan:
    """Plan a run over `samples` samples.

    An audit is a performance run under its audit.config. `target_qps`: the samples/s expected of
    Offline, or the queries/s that Server issues. `expected_latency_ms`: of one SingleStream query.
    `shortened` None keeps MLPerf's own rules; user.conf then sets the target rate and what
    mlperf.conf leaves out. `audit_queries`: how many queries a shortened audit issues and logs;
    None keeps its own number. `audit`: replaces the benchmark's own audit of this mode.
    """
    conf: dict[str, float | int] = {}
    if target_qps is not None and scenario.loadgen_scenario != "SingleStream":
        conf["target_qps"] = target_qps
    if expected_latency_ms is not None and scenario.loadgen_scenario == "SingleStream":
        conf["target_latency"] = expected_latency_ms
    min_duration_ms = MIN_DURATION_MS
    if shortened is not None:
        min_duration_ms = shortened.min_duration_ms
        conf["min_duration"] = min_duration_ms
        offline = scenario.loadgen_scenario == "Offline"
        conf["min_query_count"] = samples if offline else shortened.min_query_count
        if scenario.limits and shortened.latency_percent is not None:
            conf["target_latency_percentile"] = shortened.latency_percent
            for name, limit_ms in scenario.limits.items():
                conf[_LIMIT_CONF[name]] = int(limit_ms * shortened.latency_factor)
    elif mode == "performance" and scenario.min_queries is not None:
        conf["min_query_count"] = min(scenario.min_queries, samples)
    conf |= _sizes(benchmark, mode, samples)
    log_values: dict[str, object] = {
        "effective_scenario": scenario.loadgen_scenario,
        "effective_test_mode": loadgen_mode(mode),
        "effective_min_duration_ms": min_duration_ms,
        "effective_performance_sample_count": samples,
        "effective_sample_concatenate_permutation": True,
        # LoadGen writes the entry only if it counts them.
        **({"requested_use_token_latencies": True} if scenario.counts_tokens else {}),
        "qsl_reported_total_count": samples,
        **{f"effective_{name}": seed for name, seed in round_.seeds.items()},
    }
    for name, key in _SAID_AGAIN.items():
        if name in conf:
            log_values[key] = conf[name]
    log_values |= _latency_values(scenario, conf)
    if "target_latency_percentile" in conf:
        percent = conf["target_latency_percentile"]
        log_values["effective_target_latency_percentile"] = percent / 100
    audit = audit or benchmark.audit(mode)
    if audit is None:
        return LoadPlan(scenario, mode, samples, conf, log_values)
    audit = audit if audit_queries is None else audit.of(audit_queries)
    return LoadPlan(scenario, mode, samples, conf, {**log_values, **audit.effective}, audit.conf)


def _latency_values(scenario: Scenario, conf: Mapping[str, float]) -> dict[str, float]:
    """The latencies that the log must repeat, in ns: that expected, or the limits."""
    if scenario.loadgen_scenario == "SingleStream" and "target_latency" in conf:
        return {"requested_single_stream_expected_latency_ns": conf["target_latency"] * 1e6}
    values = dict.fromkeys([LIMIT_KEYS["latency"]] if scenario.limits else [], 0.0)
    for name, limit_ms in scenario.limits.items():
        values[LIMIT_KEYS[name]] = conf.get(_LIMIT_CONF[name], limit_ms) * 1e6
    return values


_LIMIT_CONF = {"latency": "target_latency", "ttft": "ttft_latency", "tpot": "tpot_latency"}
"""By the name of a limit in `Scenario.limits`, the key of user.conf that sets it."""
LIMIT_KEYS = {
    "latency": "requested_server_target_latency_ns",
    "ttft": "requested_server_ttft_latency",
    "tpot": "requested_server_tpot_latency",
}
"""The detail log's key of each limit, in ns."""
_SAID_AGAIN = {
    "target_qps": "effective_target_qps",
    # Offline turns the effective count into one query with that many samples.
    "min_query_count": "requested_min_query_count",
}
"""Keys of user.conf, and the keys under which the detail log repeats their values."""


def _sizes(benchmark: Benchmark, mode: Mode, samples: int) -> dict[str, int]:
    """The keys of user.conf for data whose size differs from mlperf.conf's."""
    own_samples, sizes = benchmark.samples_of(mode), {}
    if samples != own_samples or own_samples != benchmark.samples:
        sizes[PERFORMANCE_SAMPLES_KEY] = samples
    if mode == "accuracy" and benchmark.accuracy_samples not in (None, samples):
        sizes[ACCURACY_SAMPLES_KEY] = samples
    return sizes
