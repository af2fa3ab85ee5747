"""Rules of a performance run's latencies: the scenario's limits, and their percentile."""

from __future__ import annotations

from mlperf_suite.rules import checks
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import ONE_BY_ONE, SERVER, rule
from mlperf_suite.rules.verdict import Verdict, verdict


@rule("performance", SERVER, shortens=True)
def ttft_limit(run: RunFacts) -> Verdict:
    """The time to first token at p99 is below the scenario's limit."""
    limits = run.scenario.limits
    key = "result_first_token_99.00_percentile_latency_ns"
    return _below(run, key, limits.ttft_ms if limits else 0.0)


@rule("performance", SERVER, shortens=True)
def tpot_limit(run: RunFacts) -> Verdict:
    """The time per output token at p99 is below the scenario's limit.

    The official checker holds Interactive to Server's limits: it goes by LoadGen's scenario.
    """
    limits = run.scenario.limits
    key = "result_time_per_output_token_99.00_percentile_ns"
    return _below(run, key, limits.tpot_ms if limits else 0.0)


def _below(run: RunFacts, key: str, limit_ms: float) -> Verdict:
    required = f"below {limit_ms:,g} ms"
    found = checks.number(run, key, required)
    if isinstance(found, Verdict):
        return found
    return verdict(0 <= found / 1e6 < limit_ms, f"{found / 1e6:,.2f} ms", required)


@rule("performance", SERVER, shortens=True)
def latency_targets(run: RunFacts) -> Verdict:
    """Early stopping was decided with the scenario's limits on TTFT and TPOT, or tighter ones."""
    limits = run.scenario.limits
    asked = (limits.ttft_ms, limits.tpot_ms) if limits else (0.0, 0.0)
    required = f"TTFT at most {asked[0]:,g} ms, TPOT at most {asked[1]:,g} ms"
    found = []
    for key in ("requested_server_ttft_latency", "requested_server_tpot_latency"):
        value = checks.number(run, key, required)
        if isinstance(value, Verdict):
            return value
        found.append(value / 1e6)
    ok = all(0 < value <= limit for value, limit in zip(found, asked, strict=True))
    return verdict(ok, f"TTFT {found[0]:,g} ms, TPOT {found[1]:,g} ms", required)


@rule("performance", ONE_BY_ONE, shortens=True)
def target_percentile(run: RunFacts) -> Verdict:
    """Latencies are judged at the scenario's percentile: Server's 99th, SingleStream's 90th."""
    wanted = 0.9 if run.scenario.name == "SingleStream" else 0.99
    key, required = "effective_target_latency_percentile", f"{wanted:.0%}"
    found = checks.number(run, key, required)
    if isinstance(found, Verdict):
        return found
    return verdict(found == wanted, f"{found * 100:g}%", required)
