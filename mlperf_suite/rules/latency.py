"""Rules of a performance run's latencies: the scenario's limits, and their percentile."""

from __future__ import annotations

from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import ONE_BY_ONE, SERVER, rule
from mlperf_suite.rules.verdict import Verdict, verdict


@rule(
    "performance",
    source="submission checker, llm_check: LLM_LATENCY_LIMITS; mlperf.conf: ttft_latency",
    fix="Lower --server-target-qps; --find-peak-qps finds the highest valid rate.",
    scenarios=SERVER,
    shortens=True,
)
def ttft_limit(run: RunFacts) -> Verdict:
    """The time to first token at p99 is below the scenario's limit."""
    limits = run.scenario.limits
    key = "result_first_token_99.00_percentile_latency_ns"
    return _below(run, key, limits.ttft_ms if limits else 0.0)


@rule(
    "performance",
    source="submission checker, llm_check: LLM_LATENCY_LIMITS; mlperf.conf: tpot_latency",
    fix="Lower --server-target-qps, or let the engine run fewer requests at once.",
    scenarios=SERVER,
    shortens=True,
)
def tpot_limit(run: RunFacts) -> Verdict:
    """The time per output token at p99 is below the scenario's limit.

    The official checker holds Interactive to Server's limits: it goes by LoadGen's scenario.
    """
    limits = run.scenario.limits
    key = "result_time_per_output_token_99.00_percentile_ns"
    return _below(run, key, limits.tpot_ms if limits else 0.0)


def _below(run: RunFacts, key: str, limit_ms: float) -> Verdict:
    demand = f"below {limit_ms:,g} ms"
    latency_ms = run.number(key, demand) / 1e6
    return verdict(0 <= latency_ms < limit_ms, f"{latency_ms:,.2f} ms", demand)


@rule(
    "performance",
    source="mlperf.conf: ttft_latency and tpot_latency",
    fix="Use the round's mlperf.conf, and set no looser limits in user.conf.",
    scenarios=SERVER,
    shortens=True,
)
def latency_targets(run: RunFacts) -> Verdict:
    """Early stopping was decided with the scenario's limits on TTFT and TPOT, or tighter ones."""
    limits = run.scenario.limits
    limits_ms = (limits.ttft_ms, limits.tpot_ms) if limits else (0.0, 0.0)
    demand = f"TTFT at most {limits_ms[0]:,g} ms, TPOT at most {limits_ms[1]:,g} ms"
    ttft_ms, tpot_ms = targets_ms = [
        run.number(f"requested_server_{name}_latency", demand) / 1e6 for name in ("ttft", "tpot")
    ]
    ok = all(0 < target <= limit for target, limit in zip(targets_ms, limits_ms, strict=True))
    return verdict(ok, f"TTFT {ttft_ms:,g} ms, TPOT {tpot_ms:,g} ms", demand)


@rule(
    "performance",
    source="mlperf.conf: target_latency_percentile",
    fix="Use the round's mlperf.conf, and do not override the key in user.conf.",
    scenarios=ONE_BY_ONE,
    shortens=True,
)
def target_percentile(run: RunFacts) -> Verdict:
    """Latencies are judged at the scenario's percentile: Server's 99th, SingleStream's 90th."""
    percentile = 0.9 if run.scenario.name == "SingleStream" else 0.99
    demand = f"{percentile:.0%}"
    value = run.number("effective_target_latency_percentile", demand)
    return verdict(value == percentile, f"{value * 100:g}%", demand)
