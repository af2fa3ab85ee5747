"""The sentences on what limited a run: each is arithmetic on figures of the run."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from meta_tests.made_runs import remote_run
from mlperf_suite.engines.protocol import (
    DECODE,
    ClientFigures,
    EndpointFigures,
    RemoteRun,
    ServerView,
)
from mlperf_suite.loadgen.timeline import EngineLoad
from mlperf_suite.results.bottlenecks import LEADS, LIMITS, Bottleneck, bottlenecks, percent
from mlperf_suite.results.schema import LifeFigures, PartFigures, PerformanceFigures


def test_what_limits_comes_first_and_then_the_largest_share() -> None:
    """Each sentence has its figure, and each finding an option; nothing is said of the unknown."""
    parts = tuple(PartFigures(name, share) for name, share in (("queue", 0.1), (DECODE, 0.85)))
    load = EngineLoad(busy=0.9, prefill=0.6, batch_full=0.7, batch_limit=8, waiting=0.5)
    run = PerformanceFigures(scenario="Server", life=LifeFigures(parts=parts), load=load)
    findings = bottlenecks(run, None, {})
    keys = [(item.limits, item.share) for item in findings]
    assert keys == sorted(keys, reverse=True) and len({limits for limits, _ in keys}) == 2
    for item in findings:
        assert percent(item.share) in item.sentence and item.sentence.endswith(".")
        assert item.option
    names = [item.name for item in findings]
    assert len(names) == len(set(names)) > 3
    of_life = {item.name for item in bottlenecks(dataclasses.replace(run, load=None))}
    assert of_life and not of_life & {"KV cache full", "batch at its limit", "engine idle"}
    assert bottlenecks(dataclasses.replace(run, life=None, load=None)) == []


@pytest.mark.parametrize(
    ("gpus", "settings", "option"),
    [
        (0, {"dtype": "bfloat16", "tensor_parallel_size": 1}, "a quantized model, more cores"),
        (0, {"dtype": "float32", "dtype_why": "as asked"}, "--precision bf16, more cores"),
        (8, {"tensor_parallel_size": 2}, "--tensor-parallel-size (now 2), a quantized model"),
        (None, {}, "the tensor parallel size, a lower precision or a quantized model"),
    ],
)
def test_what_makes_decode_faster_is_what_the_machine_has(
    gpus: int | None, settings: dict[str, Any], option: str
) -> None:
    decode = LifeFigures(parts=(PartFigures(DECODE, share=0.9, p50_ms=1.0, p99_ms=2.0),))
    (finding,) = bottlenecks(PerformanceFigures(life=decode), None, settings, gpus)
    assert finding.option == option


def of(name: str, run: PerformanceFigures, remote: RemoteRun | None = None) -> Bottleneck | None:
    return next((finding for finding in bottlenecks(run, remote) if finding.name == name), None)


def found(name: str, run: PerformanceFigures, remote: RemoteRun | None = None) -> Bottleneck:
    finding = of(name, run, remote)
    assert finding is not None
    return finding


def server_run(scenario: str = "Server", **load: Any) -> PerformanceFigures:
    return PerformanceFigures(scenario=scenario, duration_s=10.0, load=EngineLoad(**load))


@pytest.mark.parametrize("waiting", [LIMITS - 1e-9, LIMITS])
@pytest.mark.parametrize("full", [LIMITS - 1e-9, LIMITS])
def test_a_full_batch_limits_only_where_requests_wait(full: float, waiting: float) -> None:
    run = server_run(batch_full=full, batch_limit=256, waiting=waiting)
    finding = found("batch at its limit", run)
    assert finding.limits == (full >= LIMITS and waiting >= LIMITS)
    assert "max_num_seqs above 256" in finding.option


@pytest.mark.parametrize(
    ("full", "preempted", "words", "limits"),
    [
        (LIMITS - 1e-9, 0, "no request was", False),
        (LIMITS, 0, "no request was", True),
        (0.0, 1, "1 request was", True),
        (1.0, 2, "2 requests were", True),
    ],
)
def test_a_full_cache_limits_and_so_does_a_preemption(
    full: float, preempted: int, words: str, limits: bool
) -> None:
    finding = found("KV cache full", server_run(kv_full=full, preemptions=preempted))
    assert finding.limits == limits and words in finding.sentence


@pytest.mark.parametrize(
    ("drafted", "accepted", "share"),
    [(0, 0, None), (8, 9, None), (8, 8, 0.0), (1000, 750, 0.25), (8, 4, 0.5), (1000, 250, 0.75)],
)
def test_rejected_drafts_limit_once_they_are_the_half(
    drafted: int, accepted: int, share: float | None
) -> None:
    in_process = server_run(drafted_tokens=drafted, accepted_tokens=accepted)
    view = ServerView(1, drafted_tokens=drafted, accepted_tokens=accepted)
    endpoints = (EndpointFigures("http://a:1", server=view), EndpointFigures("http://b:2"))
    remote = RemoteRun(ClientFigures(1, 0.0), endpoints)
    findings = (
        of("drafts rejected", in_process),
        of("drafts rejected", in_process, remote),
        of("the servers' drafts rejected", PerformanceFigures(), remote),
    )
    for finding in findings:
        assert (finding and finding.share) == share
        assert finding is None or finding.limits == (finding.share >= LEADS)


@pytest.mark.parametrize(
    ("scenario", "option"), [("Server", "--server-target-qps"), ("Offline", "front end")]
)
def test_an_idle_engine_is_the_rest_of_the_time(scenario: str, option: str) -> None:
    finding = found("engine idle", server_run(scenario, busy=0.7))
    assert finding.share == pytest.approx(0.3)
    assert option in finding.option


def test_what_servers_say_of_their_caches_and_queues_and_the_fullest_is_named() -> None:
    def server(url: str, kv_full: float, waiting: float, preemptions: int | None) -> Any:
        view = ServerView(9, waiting=waiting, kv_full=kv_full, preemptions=preemptions)
        return EndpointFigures(url, server=view)

    endpoints = (server("http://a", 0.1, 0.6, None), server("http://b", 0.2, 0.3, 3))
    remote = RemoteRun(ClientFigures(1, 0.0), endpoints)
    run = PerformanceFigures(scenario="Server")
    cache = found("a server's KV cache full", run, remote)
    queue = found("a server's queue", run, remote)
    assert (cache.share, cache.limits) == (0.2, True)
    assert cache.sentence.startswith("http://b: ") and "preempted 3 times" in cache.sentence
    assert (queue.share, queue.limits) == (0.6, True) and queue.sentence.startswith("http://a had")


def life(*shares: tuple[str, float], **more: Any) -> LifeFigures:
    return LifeFigures(parts=tuple(PartFigures(name, share) for name, share in shares), **more)


OF_NETWORK = life(("network and front end", 0.7), ("decode", 0.1), drain=0.2)


@pytest.mark.parametrize(
    ("name", "run", "share"),
    [
        ("one replica's tail", server_run("Offline", replicas=2, tail=0.4), 0.4),
        ("one replica's tail", server_run("Offline", replicas=1, tail=0.4), None),
        ("network and front end", PerformanceFigures(life=OF_NETWORK), 0.7),
        ("tail of the run", PerformanceFigures(scenario="Offline", life=OF_NETWORK), 0.2),
        ("tail of the run", PerformanceFigures(scenario="Server", life=OF_NETWORK), None),
    ],
)
def test_a_tail_and_a_network_are_told_with_their_share(
    name: str, run: PerformanceFigures, share: float | None
) -> None:
    finding = of(name, run)
    assert (finding and finding.share) == share
    assert finding is None or percent(finding.share) in finding.sentence


def test_parts_of_a_requests_life_limit_from_a_share_on() -> None:
    """Waiting is what Offline is made of; what stands around the engine is added up."""
    queued = life(("queue", 0.9), ("decode", 0.1))
    assert of("queued", PerformanceFigures(scenario="Offline", life=queued)) is None
    parts = life(("issue", 0.02), ("front end", 0.02), ("decode", LEADS), ("return", 0.02))
    run = PerformanceFigures(scenario="Server", life=parts)
    assert found("queued", PerformanceFigures(scenario="Server", life=queued)).limits
    assert found("decode", run).limits
    finding = found("suite and front end", run)
    assert finding.share == pytest.approx(0.06) and finding.limits
    assert "issue 2.0%, front end 2.0%, return 2.0%" in finding.sentence


def test_one_endpoint_behind_the_others_is_named() -> None:
    def endpoint(url: str, p99: float, ended_s: float) -> EndpointFigures:
        return EndpointFigures(url, latency_ms={"p99": p99}, ended_s=ended_s)

    endpoints = (endpoint("http://a", 100, 8), endpoint("http://b", 400, 10))
    remote = RemoteRun(ClientFigures(2, 0.4), endpoints)
    run = PerformanceFigures(scenario="Offline", duration_s=10.0)
    tail = found("one endpoint's tail", run, remote)
    late = found("one endpoint's latency", run, remote)
    assert tail.sentence.startswith("http://b worked for 20.0% of the run after http://a")
    assert late.share == pytest.approx(0.75)
    assert "http://b has a latency of 400.0 ms at p99" in late.sentence


def test_a_client_limits_by_its_processor_or_its_delay() -> None:
    run, remote = PerformanceFigures(scenario="Server"), remote_run()
    for busy, out, limits in ((0.5, 0.2, False), (0.95, 0.2, True), (0.5, 1.5, True)):
        client = dataclasses.replace(remote.client, busy_share=busy, out_ms=out, back_ms=0.1)
        finding = found("client-bound", run, dataclasses.replace(remote, client=client))
        assert finding.limits is limits
    for scenario, full, limits in (("Server", True, True), ("Offline", None, False)):
        run = PerformanceFigures(scenario=scenario)
        finding = found("client-bound", run, remote_run(waited=3, full=full))
        assert finding.limits is limits
        assert "3 requests waited in the client" in finding.sentence
