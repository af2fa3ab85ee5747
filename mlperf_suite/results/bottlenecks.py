"""Finds what limited a run, computed from summary.json and config.json. Pure functions.

Each finding has a figure, a sentence and the option that changes it. A figure below its threshold
did not limit the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from statistics import median

from mlperf_suite.engines.protocol import (
    DECODE,
    FRONT_END,
    KV_FULL,
    NETWORK,
    PREFILL,
    QUEUE,
    EndpointFigures,
    RemoteRun,
)
from mlperf_suite.loadgen.request_parts import ISSUE, RETURN
from mlperf_suite.loadgen.timeline import EngineLoad
from mlperf_suite.results.schema import PartFigures, PerformanceFigures, TimeBreakdown
from mlperf_suite.rules.limits import FULL_SHARE, MAX_DELAY_MS
from mlperf_suite.rules.verdict import time_words, times_in_unit

LIMITS = 0.05
"""The minimum share of the run, or of the requests' time, for a figure to count as a limit."""
LEADS = 0.5
"""The minimum share for the parts that every request needs: prefill and decode."""
_OFFLINE, _SERVER = "Offline", ("Server", "Interactive")


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """One figure of a run. `share`: 0 to 1, of `of`. `limits`: whether it is large enough to have
    limited the run. `sentence`: the finding with its numbers. `option`: the option that changes it.
    """

    name: str
    share: float
    of: str
    limits: bool
    sentence: str
    option: str


def bottlenecks(
    performance: PerformanceFigures,
    remote: RemoteRun | None = None,
    engine: Mapping[str, object] | None = None,
    gpus: int | None = None,
) -> list[Bottleneck]:
    """All figures of a run: limits first, then by decreasing share.

    `remote`: what a remote server and its client reported about the run. `engine`: the engine's own
    settings, to show the current values of options. `gpus`: how many the engine's machine has; None
    if that is not known.
    """
    scenario, settings = performance.scenario or "", engine or {}
    findings: list[Bottleneck] = []
    if performance.load is not None:
        findings += _load_findings(performance.load, scenario, settings, gpus)
    if performance.life is not None:
        faster = _faster_steps(settings, None if remote else gpus)
        findings += _time_findings(
            performance.life, performance.load, scenario, faster, remote is not None
        )
    if remote is not None:
        findings += _client_findings(remote, scenario, performance.duration_s)
    return sorted(findings, key=lambda finding: (not finding.limits, -finding.share))


def percent(share: float) -> str:
    """A share as formatted in sentences."""
    return f"{share * 100:.1f}%"


def _now(settings: Mapping[str, object], name: str) -> str:
    value = settings.get(name)
    words = f"{value:,}" if isinstance(value, int) else value
    return "" if value is None else f" (now {words})"


def _faster_steps(settings: Mapping[str, object], gpus: int | None) -> str:
    """What can shorten the engine's steps on its machine."""
    if gpus is None:
        return "the tensor parallel size, a lower precision or a quantized model"
    is_auto = str(settings.get("dtype_why", "")).startswith("auto")
    chosen_wide = settings.get("dtype") == "float32" and not is_auto
    smaller = "--precision bf16" if chosen_wide else "a quantized model"
    if gpus == 0:
        return f"{smaller}, more cores"
    if settings.get("tensor_parallel_size") == gpus:
        return smaller
    return f"--tensor-parallel-size{_now(settings, 'tensor_parallel_size')}, {smaller}"


_RUN, _TIME = "of the run", "of the requests' time"


def _draft_findings(name: str, drafted: int, accepted: int) -> Iterator[Bottleneck]:
    """The finding on speculative decoding; none without it, or if its counts cannot be."""
    if not 0 <= accepted <= drafted or not drafted:
        return
    rejected = 1 - accepted / drafted
    yield Bottleneck(
        name,
        rejected,
        "of the drafted tokens",
        rejected >= LEADS,
        f"The model rejected {percent(rejected)} of {drafted:,} drafted tokens.",
        "fewer speculative tokens for each step, or another drafter (vLLM: --speculative-config)",
    )


def _load_findings(
    load: EngineLoad, scenario: str, settings: Mapping[str, object], gpus: int | None
) -> Iterator[Bottleneck]:
    put_back = "no request was" if not load.preemptions else f"{load.preemptions:,} requests were"
    put_back = "1 request was" if load.preemptions == 1 else put_back
    yield Bottleneck(
        "KV cache full",
        load.kv_full,
        _RUN,
        load.kv_full >= LIMITS or load.preemptions > 0,
        f"At least {KV_FULL:.0%} of the KV cache was in use for {percent(load.kv_full)} {_RUN}, "
        f"{percent(load.kv_most)} at most, and {put_back} preempted.",
        "a larger cache: the variable VLLM_CPU_KVCACHE_SPACE"
        if gpus == 0
        else "a larger cache: --gpu-memory-utilization, --engine-arg kv_cache_dtype=fp8, more "
        "--tensor-parallel-size",
    )
    if load.batch_full is not None and load.batch_limit is not None:
        yield Bottleneck(
            "batch at its limit",
            load.batch_full,
            _RUN,
            load.batch_full >= LIMITS and load.waiting >= LIMITS,
            f"The batch was at its limit of {load.batch_limit:,} requests for "
            f"{percent(load.batch_full)} {_RUN} ({load.batch_mean:,.1f} on average), and requests "
            f"waited for a free slot for {percent(load.waiting)} of it.",
            f"--engine-arg max_num_seqs above {load.batch_limit:,}",
        )
    yield Bottleneck(
        "steps with a prompt",
        load.prefill,
        _RUN,
        load.prefill >= LEADS,
        f"Steps that finished a prompt took {percent(load.prefill)} {_RUN}, for "
        f"{load.prompt_tokens:,} prompt tokens beside {load.output_tokens:,} of output.",
        f"--engine-arg max_num_batched_tokens{_now(settings, 'max_num_batched_tokens')}: more of "
        "them for throughput, fewer for a steadier TPOT",
    )
    idle = max(0.0, 1 - load.busy)
    yield Bottleneck(
        "engine idle",
        idle,
        _RUN,
        idle >= LIMITS,
        f"The engine ran no step for {percent(idle)} {_RUN}.",
        "a higher --server-target-qps"
        if scenario in _SERVER
        else "no engine setting: the engine is fed too slowly, see the front end's share",
    )
    if load.replicas > 1:
        yield Bottleneck(
            "one replica's tail",
            load.tail,
            _RUN,
            load.tail >= LIMITS,
            f"For the last {percent(load.tail)} {_RUN} at least one of {load.replicas} replicas "
            "had finished and another had not.",
            "--total-sample-count, for a longer run",
        )
    yield from _draft_findings("drafts rejected", load.drafted_tokens, load.accepted_tokens)


def _time_findings(
    life: TimeBreakdown, load: EngineLoad | None, scenario: str, faster: str, remote: bool
) -> Iterator[Bottleneck]:
    parts = {part.name: part for part in life.parts}
    if QUEUE in parts and scenario != _OFFLINE:
        queue = parts[QUEUE]
        yield Bottleneck(
            "queued",
            queue.share,
            _TIME,
            queue.share >= LIMITS,
            f"Requests spent {percent(queue.share)} of their time in the queue, "
            f"{_at_p50_and_p99(queue)}.",
            "a larger batch or KV cache, or a lower --server-target-qps"
            if scenario in _SERVER
            else "--engine-arg max_num_batched_tokens",
        )
    if PREFILL in parts:
        prefill = parts[PREFILL]
        yield Bottleneck(
            "prefill",
            prefill.share,
            _TIME,
            prefill.share >= LEADS,
            f"Prefill took {percent(prefill.share)} {_TIME}, {_at_p50_and_p99(prefill)}.",
            f"{faster}; --engine-arg max_num_batched_tokens",
        )
    if DECODE in parts:
        decode = parts[DECODE]
        batch = f", in batches of {load.batch_mean:,.1f} on average" if load else ""
        yield Bottleneck(
            "decode",
            decode.share,
            _TIME,
            decode.share >= LEADS,
            f"Decode took {percent(decode.share)} {_TIME}, {_at_p50_and_p99(decode)}{batch}.",
            faster,
        )
    own = {ISSUE, RETURN} if remote else {ISSUE, FRONT_END, RETURN}
    if own & set(parts):
        share = life.part(*own)
        shares = [f"{name} {percent(parts[name].share)}" for name in parts if name in own]
        yield Bottleneck(
            "suite and front end",
            share,
            _TIME,
            share >= LIMITS,
            f"The parts around the engine took {percent(share)} {_TIME}: {', '.join(shares)}.",
            "more cores for this process; or the front end in its own processes: --endpoint",
        )
    if NETWORK in parts:
        network = parts[NETWORK]
        yield Bottleneck(
            "network and front end",
            network.share,
            _TIME,
            network.share >= LIMITS,
            f"The network and the server's front end took {percent(network.share)} {_TIME}, "
            f"{time_words(network.p99_ms)} at p99.",
            "more API processes of the server (vLLM: --api-server-count), or a client nearer to it",
        )
    if life.drain is not None and scenario == _OFFLINE:
        yield Bottleneck(
            "tail of the run",
            life.drain,
            _RUN,
            life.drain >= LIMITS,
            f"For the last {percent(life.drain)} {_RUN} no request was waiting, and the "
            "batches only shrank.",
            "--total-sample-count, for a longer run; --engine-arg max_num_seqs, for a smaller last "
            "batch",
        )


def _at_p50_and_p99(part: PartFigures) -> str:
    (p50, p99), unit = times_in_unit((part.p50_ms, part.p99_ms))
    return f"{p50} {unit} at p50 and {p99} {unit} at p99"


def _client_findings(
    remote: RemoteRun, scenario: str, duration_s: float | None
) -> Iterator[Bottleneck]:
    client = remote.client
    late = "" if client.out_ms is None else f", with {time_words(client.out_ms)} send delay"
    late += "" if client.back_ms is None else f" and {time_words(client.back_ms)} back at p99"
    if client.waited_for_room:
        late += f"; {client.waited_for_room:,} requests waited in the client for room at a server"
    delays = [ms for ms in (client.out_ms, client.back_ms) if ms is not None]
    slow = scenario != _OFFLINE and any(ms > MAX_DELAY_MS for ms in delays)
    had_room = scenario != _OFFLINE or client.servers_full is False
    kept_back = client.waited_for_room > 0 and had_room
    yield Bottleneck(
        "client-bound",
        client.busy_share,
        "of a core",
        client.busy_share >= FULL_SHARE or slow or kept_back,
        f"The busiest of {client.processes} client processes used {percent(client.busy_share)} of "
        f"a core{late}.",
        "--endpoint-clients, --endpoint-requests, or a separate machine for the client",
    )
    yield from _slow_endpoint_findings(remote.endpoints, duration_s)
    yield from _server_findings(remote.endpoints, scenario)


def _server_findings(endpoints: tuple[EndpointFigures, ...], scenario: str) -> Iterator[Bottleneck]:
    """Findings from the servers' own metrics: the fullest KV cache and the longest queue."""
    views = [(endpoint.url, endpoint.server) for endpoint in endpoints if endpoint.server]
    caches = [(view.kv_full, url, view) for url, view in views if view.kv_full is not None]
    for share, url, view in sorted(caches, key=itemgetter(0))[-1:]:
        number = view.preemptions
        put_back = "" if number is None else f", and requests were preempted {number:,} times"
        yield Bottleneck(
            "a server's KV cache full",
            share,
            _RUN,
            share >= LIMITS or bool(number),
            f"{url}: at least {KV_FULL:.0%} of its KV cache was in use for {percent(share)} "
            f"{_RUN}, {percent(view.kv_most or 0.0)} at most{put_back}.",
            "a larger cache on the server (vLLM: --gpu-memory-utilization, --kv-cache-dtype fp8)",
        )
    drafts = [(view.drafted_tokens or 0, view.accepted_tokens or 0) for _, view in views]
    drafted, accepted = (sum(numbers) for numbers in zip((0, 0), *drafts, strict=True))
    yield from _draft_findings("the servers' drafts rejected", drafted, accepted)
    queues = [(view.waiting, url, view) for url, view in views if view.waiting is not None]
    for share, url, view in sorted(queues, key=itemgetter(0))[-1:]:
        ran = "" if view.running_mean is None else f", while {view.running_mean:,.1f} ran"
        yield Bottleneck(
            "a server's queue",
            share,
            _RUN,
            scenario in _SERVER and share >= LIMITS,
            f"{url} had requests in its queue for {percent(share)} {_RUN}, "
            f"{view.waiting_mean or 0.0:,.1f} on average{ran}.",
            "a lower --server-target-qps, or a larger batch on the server (vLLM: --max-num-seqs)",
        )


def _slow_endpoint_findings(
    endpoints: tuple[EndpointFigures, ...], duration_s: float | None
) -> Iterator[Bottleneck]:
    """Findings on an endpoint that lags behind the others."""
    ends = {e.url: e.ended_s for e in endpoints if e.ended_s is not None}
    if len(ends) > 1 and duration_s:
        last, first = max(ends, key=lambda url: ends[url]), min(ends, key=lambda url: ends[url])
        tail = min(1.0, max(0.0, (ends[last] - ends[first]) / duration_s))
        yield Bottleneck(
            "one endpoint's tail",
            tail,
            _RUN,
            tail >= LIMITS,
            f"{last} worked for {percent(tail)} {_RUN} after {first} had finished.",
            "--endpoint-routing fewest-tokens; --total-sample-count, for a longer run",
        )
    late = {e.url: e.latency_ms["p99"] for e in endpoints if "p99" in e.latency_ms}
    if len(late) > 1:
        slowest = max(late, key=lambda url: late[url])
        others_ms = median(ms for url, ms in late.items() if url != slowest)
        above = (late[slowest] - others_ms) / late[slowest] if late[slowest] > 0 else 0.0
        yield Bottleneck(
            "one endpoint's latency",
            above,
            "of its p99",
            above >= LIMITS,
            f"{slowest} has a latency of {time_words(late[slowest])} at p99, {percent(above)} of "
            f"it above the median of the others ({time_words(others_ms)}).",
            "--endpoint-routing fewest-tokens, or that server alone",
        )
