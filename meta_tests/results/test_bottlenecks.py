"""The sentences on what limited a run: each is arithmetic on figures of the run."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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

SHARE = st.floats(0, 1)
NAMES = ("issue", "client", "front end", "network and front end", "queue", "prefill", "decode")
LOADS = st.builds(
    EngineLoad,
    busy=SHARE,
    prefill=SHARE,
    waiting=SHARE,
    kv_full=SHARE,
    kv_most=SHARE,
    batch_full=st.none() | SHARE,
    batch_limit=st.none() | st.integers(1, 1024),
    batch_mean=st.floats(0, 1024),
    preemptions=st.integers(0, 5),
    drafted_tokens=st.integers(0, 99),
    accepted_tokens=st.integers(0, 99),
    replicas=st.integers(1, 4),
    tail=SHARE,
)
LIVES = st.builds(
    LifeFigures,
    requests=st.integers(1, 9),
    drain=st.none() | SHARE,
    parts=st.lists(st.sampled_from(NAMES), unique=True).flatmap(
        lambda names: st.tuples(
            # Together at most the whole.
            *(st.builds(PartFigures, st.just(n), st.floats(0, 1 / len(names))) for n in names)
        )
    ),
)
VIEWS = st.builds(
    ServerView,
    st.integers(1, 99),
    waiting=st.none() | SHARE,
    kv_full=st.none() | SHARE,
    preemptions=st.none() | st.integers(0, 5),
    drafted_tokens=st.none() | st.integers(0, 99),
    accepted_tokens=st.none() | st.integers(0, 99),
)
REMOTES = st.builds(
    RemoteRun,
    st.builds(ClientFigures, st.integers(1, 8), SHARE, st.none() | st.floats(0, 9)),
    st.lists(
        st.builds(
            EndpointFigures,
            st.sampled_from(["http://a:1", "http://b:2", "http://c:3"]),
            latency_ms=st.dictionaries(st.just("p99"), st.floats(0, 1e5)),
            ended_s=st.none() | st.floats(0, 100),
            server=st.none() | VIEWS,
        ),
        max_size=3,
        unique_by=lambda endpoint: endpoint.url,
    ).map(tuple),
)
RUNS = st.builds(
    PerformanceFigures,
    scenario=st.sampled_from(["Offline", "Server", "Interactive", "SingleStream", None]),
    duration_s=st.none() | st.floats(0, 100),
    life=st.none() | LIVES,
    load=st.none() | LOADS,
)


@given(RUNS, st.none() | REMOTES)
def test_every_sentence_has_its_figure_and_an_option(
    run: PerformanceFigures, remote: RemoteRun | None
) -> None:
    findings = bottlenecks(run, remote, {"max_num_batched_tokens": 8192})
    for item in findings:
        assert 0 <= item.share <= 1
        assert percent(item.share) in item.sentence
        assert item.sentence.endswith(".")
        assert item.option
    assert [item.limits for item in findings] == sorted(
        (item.limits for item in findings), reverse=True
    )
    for kind in (True, False):
        shares = [item.share for item in findings if item.limits is kind]
        assert shares == sorted(shares, reverse=True)
    names = [item.name for item in findings]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("gpus", "settings", "option"),
    [
        (0, {"dtype": "bfloat16", "tensor_parallel_size": 1}, "a quantized model, more cores"),
        (0, {"dtype": "float32", "dtype_why": "as asked"}, "--precision bf16, more cores"),
        (0, {"dtype": "float32", "dtype_why": "auto: no bf16"}, "a quantized model, more cores"),
        (8, {"tensor_parallel_size": 2}, "--tensor-parallel-size (now 2), a quantized model"),
        (1, {"tensor_parallel_size": 1, "dtype": "bfloat16"}, "a quantized model"),
        (None, {}, "the tensor parallel size, a lower precision or a quantized model"),
    ],
)
def test_what_makes_decode_faster_is_what_the_machine_has(
    gpus: int | None, settings: dict[str, Any], option: str
) -> None:
    decode = LifeFigures(parts=(PartFigures(DECODE, share=0.9, p50_ms=1.0, p99_ms=2.0),))
    (finding,) = bottlenecks(PerformanceFigures(life=decode), None, settings, gpus)
    assert finding.option == option


@given(RUNS)
def test_what_is_not_known_is_not_said(run: PerformanceFigures) -> None:
    bare = dataclasses.replace(run, life=None, load=None)
    assert bottlenecks(bare) == []
    names = {finding.name for finding in bottlenecks(dataclasses.replace(run, load=None))}
    assert not names & {"KV cache full", "batch at its limit", "engine idle", "steps with a prompt"}


def of(name: str, run: PerformanceFigures, remote: RemoteRun | None = None) -> Bottleneck | None:
    return next((finding for finding in bottlenecks(run, remote) if finding.name == name), None)


def server_run(scenario: str = "Server", **load: Any) -> PerformanceFigures:
    return PerformanceFigures(scenario=scenario, duration_s=10.0, load=EngineLoad(**load))


@pytest.mark.parametrize("waiting", [0.0, LIMITS - 1e-9, LIMITS])
@pytest.mark.parametrize("full", [0.0, LIMITS - 1e-9, LIMITS])
def test_a_full_batch_limits_only_where_requests_wait(full: float, waiting: float) -> None:
    run = server_run(batch_full=full, batch_limit=256, waiting=waiting)
    finding = of("batch at its limit", run)
    assert finding is not None
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
    finding = of("KV cache full", server_run(kv_full=full, preemptions=preempted))
    assert finding is not None
    assert finding.limits == limits and words in finding.sentence


@pytest.mark.parametrize(
    ("drafted", "accepted", "share"),
    [(0, 0, None), (8, 9, None), (8, 8, 0.0), (1000, 750, 0.25), (1000, 250, 0.75)],
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
        next((b for b in bottlenecks(in_process, remote) if b.name == "drafts rejected"), None),
        next((b for b in bottlenecks(PerformanceFigures(), remote) if "drafts" in b.name), None),
    )
    for finding in findings:
        assert (finding and finding.share) == share
        if finding is not None:
            assert finding.limits == (finding.share >= LEADS)
            assert f"{drafted:,} drafted tokens" in finding.sentence


@pytest.mark.parametrize(
    ("scenario", "option"), [("Server", "--server-target-qps"), ("Offline", "front end")]
)
def test_an_idle_engine_is_the_rest_of_the_time(scenario: str, option: str) -> None:
    finding = of("engine idle", server_run(scenario, busy=0.7))
    assert finding is not None
    assert finding.share == pytest.approx(0.3)
    assert option in finding.option


def life(*shares: tuple[str, float], **more: Any) -> LifeFigures:
    return LifeFigures(parts=tuple(PartFigures(name, share) for name, share in shares), **more)


def test_waiting_is_what_offline_is_made_of() -> None:
    queued = life(("queue", 0.9), ("decode", 0.1))
    assert of("queued", PerformanceFigures(scenario="Offline", life=queued)) is None
    finding = of("queued", PerformanceFigures(scenario="Server", life=queued))
    assert finding is not None
    assert finding.limits
    decode = of("decode", PerformanceFigures(scenario="Server", life=life(("decode", LEADS))))
    assert decode is not None
    assert decode.limits


def test_what_stands_around_the_engine_is_added_up() -> None:
    parts = life(("issue", 0.02), ("front end", 0.02), ("queue", 0.9), ("return", 0.02))
    finding = of("suite and front end", PerformanceFigures(scenario="Server", life=parts))
    assert finding is not None
    assert finding.share == pytest.approx(0.06)
    assert finding.limits
    assert "issue 2.0%, front end 2.0%, return 2.0%" in finding.sentence


def test_one_endpoint_behind_the_others_is_named() -> None:
    def endpoint(url: str, p99: float, ended_s: float) -> EndpointFigures:
        return EndpointFigures(url, latency_ms={"p99": p99}, ended_s=ended_s)

    endpoints = (endpoint("http://a", 100, 8), endpoint("http://b", 400, 10))
    remote = RemoteRun(ClientFigures(2, 0.4), endpoints)
    run = PerformanceFigures(scenario="Offline", duration_s=10.0)
    tail, late = of("one endpoint's tail", run, remote), of("one endpoint's latency", run, remote)
    assert tail is not None
    assert late is not None
    assert tail.sentence.startswith("http://b worked for 20.0% of the run after http://a")
    assert late.share == pytest.approx(0.75)
    assert "http://b has a latency of 400.0 ms at p99" in late.sentence


def test_a_client_limits_by_its_processor_or_its_delay() -> None:
    run, remote = PerformanceFigures(scenario="Server"), remote_run()
    for busy, out, limits in ((0.5, 0.2, False), (0.95, 0.2, True), (0.5, 1.5, True)):
        client = dataclasses.replace(remote.client, busy_share=busy, out_ms=out, back_ms=0.1)
        finding = of("client-bound", run, dataclasses.replace(remote, client=client))
        assert finding is not None
        assert finding.limits is limits
    for scenario, full, limits in (("Server", True, True), ("Offline", None, False)):
        run = PerformanceFigures(scenario=scenario)
        finding = of("client-bound", run, remote_run(waited=3, full=full))
        assert finding is not None
        assert finding.limits is limits
        assert "3 requests waited in the client" in finding.sentence
