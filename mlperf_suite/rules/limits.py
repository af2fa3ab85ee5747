"""Rules of a performance run's limits: its latencies, its length, and the client's own delay."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, Scenario, limit_name
from mlperf_suite.engines.protocol import SHORT, ClientFigures, StreamFigures
from mlperf_suite.loadgen.load_plan import LIMIT_KEYS
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, ONE_BY_ONE, SERVER, rule
from mlperf_suite.rules.verdict import Verdict, no_demand, not_judged, time_words, verdict

_performance_rule = partial(rule, "performance")

# Latencies


@_performance_rule(
    source="submission checker, llm_check: LLM_LATENCY_LIMITS; mlperf.conf: ttft_latency",
    fix="Lower --server-target-qps; --find-peak-qps finds the highest valid rate.",
    scenarios=SERVER,
    of_tokens=True,
    shortens=True,
)
def ttft_limit(run: RunFacts) -> Verdict:
    """The time to first token at p99 is below the scenario's limit."""
    return _below(run, "result_first_token_99.00_percentile_latency_ns", "ttft")


@_performance_rule(
    source="submission checker, llm_check: LLM_LATENCY_LIMITS; mlperf.conf: tpot_latency",
    fix="Lower --server-target-qps, or let the engine run fewer requests at once.",
    scenarios=SERVER,
    of_tokens=True,
    shortens=True,
)
def tpot_limit(run: RunFacts) -> Verdict:
    """The time per output token at p99 is below the scenario's limit.

    The official checker holds Interactive to Server's limits: it goes by LoadGen's scenario.
    """
    return _below(run, "result_time_per_output_token_99.00_percentile_ns", "tpot")


@_performance_rule(
    source="submission checker, latency_check: latency-constraint; mlperf.conf: target_latency",
    fix="Lower --server-target-qps; --find-peak-qps finds the highest valid rate.",
    scenarios=SERVER,
    of_tokens=False,
    shortens=True,
)
def latency_limit(run: RunFacts) -> Verdict:
    """Where no tokens are counted, the latency at p99 is at most the scenario's limit."""
    # The checker refuses a latency above the limit, and of TTFT and TPOT one at the limit too.
    limit_ms = run.scenario.limits["latency"]
    required = f"at most {time_words(limit_ms, exact=True)}"
    latency_ms = run.number("result_99.00_percentile_latency_ns", required) / 1e6
    return verdict(0 <= latency_ms <= limit_ms, time_words(latency_ms, exact=True), required)


def _below(run: RunFacts, key: str, name: str) -> Verdict:
    limit_ms = run.scenario.limits[name]
    required = f"below {time_words(limit_ms, exact=True)}"
    latency_ms = run.number(key, required) / 1e6
    remote = run.session.remote if run.session else None
    if why := held_back(remote.stream if remote else None, run.scenario.limits["tpot"]):
        return not_judged(time_words(latency_ms, exact=True), required, why)
    return verdict(0 <= latency_ms < limit_ms, time_words(latency_ms, exact=True), required)


@_performance_rule(
    source="mlperf.conf: ttft_latency and tpot_latency, or target_latency",
    fix="Use the round's mlperf.conf, and set no looser limits in user.conf.",
    scenarios=SERVER,
    shortens=True,
)
def latency_targets(run: RunFacts) -> Verdict:
    """Early stopping was decided with the scenario's latency limits, or tighter ones."""
    limits = run.scenario.limits
    required = _times(limits, "at most ")
    targets = {name: run.number(LIMIT_KEYS[name], required) / 1e6 for name in limits}
    ok = all(0 < targets[name] <= limit for name, limit in limits.items())
    return verdict(ok, _times(targets), required)


def _times(in_ms: Mapping[str, float], before: str = "") -> str:
    """Times by the names of `Scenario.limits`, in words."""
    return ", ".join(
        f"{limit_name(name)} {before}{time_words(ms, exact=True)}" for name, ms in in_ms.items()
    )


@_performance_rule(
    source="mlperf.conf: target_latency_percentile",
    fix="Use the round's mlperf.conf, and do not override the key in user.conf.",
    scenarios=ONE_BY_ONE,
    shortens=True,
)
def target_percentile(run: RunFacts) -> Verdict:
    """Latencies are judged at the scenario's percentile: Server's 99th, SingleStream's 90th."""
    percentile = 0.9 if run.scenario.name == "SingleStream" else 0.99
    required = f"{percentile:.0%}"
    value = run.number("effective_target_latency_percentile", required)
    return verdict(value == percentile, f"{value * 100:g}%", required)


# Length


EARLY_STOPPING_MIN_QUERIES = 64
"""Early stopping cannot estimate a 90th or 99th percentile from fewer (MLPerf Inference rules)."""
SINGLE_STREAM_MIN_QUERIES = 1024
"""SingleStream's minimum without early stopping (MLPerf Inference rules)."""


@_performance_rule(
    source="submission checker, min_duration_check: TEST_DURATION_MS; mlperf.conf: min_duration",
    fix="Use --profile official, or set min_duration to 600000 in user.conf.",
    shortens=True,
)
def min_duration(run: RunFacts) -> Verdict:
    """The run is set to last at least ten minutes."""
    required = f"at least {time_words(MIN_DURATION_MS, exact=True)}"
    value_ms = run.number("effective_min_duration_ms", required)
    return verdict(value_ms >= MIN_DURATION_MS, time_words(value_ms, exact=True), required)


@_performance_rule(
    source="submission checker, performance_sample_count_check; mlperf.conf: "
    "performance_sample_count_override",
    fix="Use the whole data set: --profile official, no --total-sample-count.",
    shortens=True,
)
def performance_sample_count(run: RunFacts) -> Verdict:
    """LoadGen draws from at least the benchmark's number of samples."""
    return _at_least(run, "effective_performance_sample_count", run.benchmark.samples, "samples")


@_performance_rule(
    source="submission checker, min_query_count_check: samples per query; mlperf.conf: "
    "Offline.min_query_count",
    fix="Raise --offline-target-qps, so that one query holds the whole data set.",
    scenarios=("Offline",),
    divisions=CLOSED,
    shortens=True,
)
def offline_samples_per_query(run: RunFacts) -> Verdict:
    """Offline's one query has at least as many samples as the data set."""
    return _at_least(run, "effective_samples_per_query", run.benchmark.samples, "samples")


@_performance_rule(
    required="met",
    source="Inference rules, Early Stopping Criterion; submission checker, latency_check",
    fix="Run longer, or lower --server-target-qps, so that enough queries are within the limits.",
    scenarios=ONE_BY_ONE,
)
def early_stopping(run: RunFacts) -> Verdict:
    """Early stopping was met: the run was long enough to decide its percentile."""
    if not _uses_early_stopping(run):
        return verdict(True, "not used", "met, or not used in SingleStream")
    met = run.present("early_stopping_met")
    value = ("met" if met else "not met") if isinstance(met, bool) else met
    return verdict(met is True, value, why=_early_stopping_says(run))


def _early_stopping_says(run: RunFacts) -> str:
    """LoadGen's own text on early stopping, if it was not met."""
    if run.detail["early_stopping_met"] is True:
        return ""
    keys = ("early_stopping_result", "early_stopping_ttft_result", "early_stopping_tpot_result")
    return "; ".join(str(run.detail[key]) for key in keys if run.detail[key])


def _uses_early_stopping(run: RunFacts) -> bool:
    """Whether early stopping applies: always, except in a SingleStream run whose log never mentions
    it."""
    is_logged = any(key.startswith("early_stopping_") for key in run.detail.values)
    return is_logged or run.scenario.name != "SingleStream"


@_performance_rule(
    source="Inference rules, Scenarios; submission checker, min_query_count_check",
    fix="Run longer, so that LoadGen issues more queries.",
    scenarios=ONE_BY_ONE,
)
def min_queries(run: RunFacts) -> Verdict:
    """At least 64 queries with early stopping; 1,024 in SingleStream without it."""
    early = _uses_early_stopping(run)
    least = EARLY_STOPPING_MIN_QUERIES if early else SINGLE_STREAM_MIN_QUERIES
    return _at_least(run, "result_query_count", least, "queries")


def _at_least(run: RunFacts, key: str, least: float, unit: str) -> Verdict:
    required = f"at least {least:,} {unit}"
    number = run.number(key, required)
    return verdict(number >= least, f"{number:,} {unit}", required)


# The client between LoadGen and a remote server


FULL_SHARE = 0.9
"""A client process that used this share of a core, or more, was at its limit."""
MAX_DELAY_MS = 1.0
"""The maximum delay of the client itself at p99, on the way out and on the way back, in ms."""


def client_limits(client: ClientFigures, scenario: Scenario) -> list[str]:
    """How the client limited a run in this scenario, a few words each; empty if it did not.

    Offline's single query hands over every sample at once: samples that wait to be sent are not the
    client's delay there, unless a server had room for them. A missing or non-numeric figure proves
    nothing, so it counts as a limit.
    """
    limits = []
    is_offline = scenario.loadgen_scenario == "Offline"
    if client.waited_for_room and not (is_offline and client.servers_full is not False):
        limits.append(f"{client.waited_for_room:,} requests waited in the client")
    if not client.busy_share < FULL_SHARE:
        limits.append(f"a client process used {_percent(client.busy_share)} of a core")
    if not is_offline:
        for way, delay_ms in (("send", client.out_ms), ("receive", client.back_ms)):
            if delay_ms is None or not delay_ms <= MAX_DELAY_MS:
                limits.append(f"{way} {_ms(delay_ms)} at p99")
    return limits


_MAX_FASTER = 1.5
"""How many times too short the tokens that come with the first one may make the median TPOT."""


def held_back(stream: StreamFigures | None, tpot_limit_ms: float | None = None) -> str:
    """Why TTFT and TPOT are not the server's: its answers did not arrive as they were made. Empty
    if they did, or if none was streamed.

    `tpot_limit_ms`: at p99; the TPOT without the tokens of the first event decides only where that
    is not below it. Without a limit, where the first event has more than a step of speculative
    decoding adds, and the TPOT without it is 1.5 times as long, at the median.
    """
    if stream is None:
        return ""
    plain, later = stream.tpot_ms, stream.later_tpot_ms
    # Unknown where 1% or more came in one piece: fewer values than 1% lie above LoadGen's p99.
    is_held = "p99" not in later
    if not is_held and tpot_limit_ms is not None:
        is_held = plain["p99"] < tpot_limit_ms <= later["p99"]
    elif not is_held:
        many = stream.first_tokens["p50"] > SHORT
        is_held = many and later["p50"] > _MAX_FASTER * plain["p50"]
    return f"answers were held back: {arrival_words(stream)}" if is_held else ""


def arrival_words(stream: StreamFigures) -> str:
    """How streamed answers arrived."""
    later_ms, pieces = stream.later_tpot_ms.get("p99"), stream.at_once
    words = "" if later_ms is None else f"p99 {time_words(later_ms, exact=True)}, "
    words += f"first event {stream.first_tokens['p50']:,} tokens (median)"
    return words + (f", {pieces:,} of {stream.answers:,} answers in one piece" if pieces else "")


def _only_delayed(run: RunFacts) -> bool:
    """Whether only delay limited the client, not its CPU: a smoke run may share its machine with
    the server, whose work delays the client. The run is marked regardless."""
    remote = run.in_session.remote
    return remote is not None and remote.client.busy_share < FULL_SHARE


@_performance_rule(
    official=False,
    source="docs/endpoints.md: limits on the client's CPU and delay",
    fix="Raise --endpoint-clients or --endpoint-requests, or give the client more or idle cores.",
    session_only=True,
    shortens=_only_delayed,
)
def client_bound(run: RunFacts) -> Verdict:
    """The client did not limit the run: its processor had room, its own delay was short, and no
    request waited in it.

    The delay is that from LoadGen's issue until the request's bytes leave, and from the arrival of
    the answer's until the report to LoadGen; Offline has no limit on it. There, requests may wait
    while the servers have more than they work on at once; not judged if that is not known.
    """
    remote = run.in_session.remote
    if remote is None:
        return no_demand("the engine is in this process, without a client")
    required = f"below {_percent(FULL_SHARE)} of a core"
    if run.scenario.loadgen_scenario != "Offline":
        required += f", send and receive delay at most {MAX_DELAY_MS:g} ms at p99"
    client = remote.client
    limits = client_limits(client, run.scenario)
    figures = f"{_percent(client.busy_share)} of a core, send {_ms(client.out_ms)}, receive "
    figures += f"{_ms(client.back_ms)} at p99"
    if client.waited_for_room and client.servers_full is None and not limits:
        waited = f"{client.waited_for_room:,} requests waited in the client"
        why = f"{waited}, and the servers do not report whether they had room: --endpoint-requests"
        return not_judged(figures, required, why)
    return verdict(not limits, figures, required, "; ".join(limits))


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"


def _ms(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.2f} ms"
