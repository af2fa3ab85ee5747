"""The sentences on what limited a run: each is arithmetic on figures of the run."""

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
from mlperf_suite.results.schema import PartFigures, PerformanceFigures, TimeBreakdown


def test_what_limits_comes_first_and_then_the_largest_share() -> None:
    """Each sentence has its figure, and each finding an option; nothing is said of the unknown."""
    parts = tuple(PartFigures(name, share) for name, share in (("queue", 0.1), (DECODE, 0.85)))
    load = EngineLoad(busy=0.9, prefill=0.6, batch_full=0.7, batch_limit=8, waiting=0.5)
    run = PerformanceFigures(scenario="Server", life=TimeBreakdown(parts=parts), load=load)
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
    decode = TimeBreakdown(parts=(PartFigures(DECODE, share=0.9, p50_ms=1.0, p99_ms=2.0),))
    (finding,) = bottlenecks(PerformanceFigures(life=decode), None, settings, gpus)
    assert finding.option == option


def of(name: str, run: PerformanceFigures, remote: RemoteRun | None = None) -> Bottleneck | None:
    return next((finding for finding in bottlenecks(run, remote) if finding.name == name), None)


def run_of(scenario: str = "Server", **load: Any) -> PerformanceFigures:
    return PerformanceFigures(scenario=scenario, duration_s=10.0, load=EngineLoad(**load))


def life_of(scenario: str, *shares: tuple[str, float], **more: Any) -> PerformanceFigures:
    parts = tuple(PartFigures(name, share) for name, share in shares)
    return PerformanceFigures(scenario=scenario, life=TimeBreakdown(parts=parts, **more))


BELOW_LIMIT = LIMITS - 1e-9
AROUND = (("issue", 0.02), ("front end", 0.02), (DECODE, LEADS), ("return", 0.02))


@pytest.mark.parametrize(
    ("name", "run", "limits", "share", "words"),
    [
        *(
            ("batch at its limit", run_of(batch_full=full, batch_limit=256, waiting=waiting), *rest)
            for full, waiting, *rest in (
                (LIMITS, LIMITS, True, LIMITS, "max_num_seqs above 256"),
                (LIMITS, BELOW_LIMIT, False, LIMITS, ""),
                (BELOW_LIMIT, LIMITS, False, BELOW_LIMIT, ""),
            )
        ),
        ("KV cache full", run_of(kv_full=BELOW_LIMIT), False, BELOW_LIMIT, "no request was"),
        ("KV cache full", run_of(kv_full=LIMITS), True, LIMITS, "no request was"),
        ("KV cache full", run_of(kv_full=0.0, preemptions=1), True, 0, "1 request was"),
        ("KV cache full", run_of(kv_full=1.0, preemptions=2), True, 1, "2 requests were"),
        # The rest of the time.
        ("engine idle", run_of(busy=0.7), True, 0.3, "--server-target-qps"),
        ("engine idle", run_of("Offline", busy=0.7), True, 0.3, "front end"),
        ("one replica's tail", run_of("Offline", replicas=2, tail=0.4), True, 0.4, "40.0%"),
        ("one replica's tail", run_of("Offline", replicas=1, tail=0.4), None, None, ""),
        ("tail of the run", life_of("Offline", drain=0.2), True, 0.2, "20.0%"),
        ("tail of the run", life_of("Server", drain=0.2), None, None, ""),
        (
            *("network and front end", life_of("Server", ("network and front end", 0.7))),
            *(True, 0.7, "70.0%"),
        ),
        # Waiting is what Offline is made of.
        ("queued", life_of("Offline", ("queue", 0.9)), None, None, ""),
        ("queued", life_of("Server", ("queue", 0.9)), True, 0.9, "90.0%"),
        (DECODE, life_of("Server", *AROUND), True, LEADS, ""),
        # What stands around the engine is added up.
        (
            *("suite and front end", life_of("Server", *AROUND), True, 0.06),
            "issue 2.0%, front end 2.0%, return 2.0%",
        ),
    ],
)
def test_a_finding_has_its_share_and_limits_from_one_on(
    name: str, run: PerformanceFigures, limits: bool | None, share: float | None, words: str
) -> None:
    finding = of(name, run)
    if finding is None:
        assert share is None
    else:
        assert (finding.limits, finding.share) == (limits, pytest.approx(share))
        assert words in finding.sentence + finding.option


@pytest.mark.parametrize(
    ("drafted", "accepted", "share"),
    [(0, 0, None), (8, 9, None), (8, 8, 0.0), (8, 4, 0.5), (1000, 250, 0.75)],
)
def test_rejected_drafts_limit_once_they_are_the_half(
    drafted: int, accepted: int, share: float | None
) -> None:
    in_process = run_of(drafted_tokens=drafted, accepted_tokens=accepted)
    view = ServerView(1, drafted_tokens=drafted, accepted_tokens=accepted)
    endpoints = (EndpointFigures("http://a:1", server=view), EndpointFigures("http://b:2"))
    remote = RemoteRun(ClientFigures(1, 0.0), endpoints)
    for finding in (
        of("drafts rejected", in_process),
        of("the servers' drafts rejected", PerformanceFigures(), remote),
    ):
        assert (finding and finding.share) == share
        assert finding is None or finding.limits == (finding.share >= LEADS)


def test_of_several_servers_the_one_that_limits_is_named() -> None:
    """By its cache, its queue, its latency and how much longer it worked."""
    endpoints = (
        EndpointFigures(
            *("http://a",),
            latency_ms={"p99": 100},
            ended_s=8,
            server=ServerView(9, waiting=0.6, kv_full=0.1, preemptions=None),
        ),
        EndpointFigures(
            *("http://b",),
            latency_ms={"p99": 400},
            ended_s=10,
            server=ServerView(9, waiting=0.3, kv_full=0.2, preemptions=3),
        ),
    )
    remote = RemoteRun(ClientFigures(2, 0.4), endpoints)
    for scenario, name, share, words in (
        ("Server", "a server's KV cache full", 0.2, "http://b: "),
        ("Server", "a server's KV cache full", 0.2, "preempted 3 times"),
        ("Server", "a server's queue", 0.6, "http://a had"),
        ("Offline", "one endpoint's tail", 0.2, "http://b worked for 20.0% of the run after http"),
        ("Offline", "one endpoint's latency", 0.75, "http://b has a latency of 400.0 ms at p99"),
    ):
        finding = of(name, PerformanceFigures(scenario=scenario, duration_s=10.0), remote)
        assert finding is not None and finding.limits
        assert finding.share == pytest.approx(share) and words in finding.sentence


@pytest.mark.parametrize(
    ("scenario", "remote", "limits"),
    [
        ("Server", remote_run(0.5, out_ms=0.2), False),
        ("Server", remote_run(0.95), True),
        ("Server", remote_run(0.5, out_ms=1.5), True),
        ("Server", remote_run(waited=3, full=True), True),
        ("Offline", remote_run(waited=3, full=None), False),
    ],
)
def test_a_client_limits_by_its_processor_its_delay_or_its_connections(
    scenario: str, remote: RemoteRun, limits: bool
) -> None:
    finding = of("client-bound", PerformanceFigures(scenario=scenario), remote)
    assert finding is not None and finding.limits is limits
