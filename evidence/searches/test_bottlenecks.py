"""Sentences on what limited a run, of figures that are drawn at random."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.protocol import ClientFigures, EndpointFigures, RemoteRun, ServerView
from mlperf_suite.loadgen.timeline import EngineLoad
from mlperf_suite.results.bottlenecks import bottlenecks, percent
from mlperf_suite.results.schema import PartFigures, PerformanceFigures, TimeBreakdown

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
    TimeBreakdown,
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


@given(RUNS)
def test_what_is_not_known_is_not_said(run: PerformanceFigures) -> None:
    bare = dataclasses.replace(run, life=None, load=None)
    assert bottlenecks(bare) == []
    names = {finding.name for finding in bottlenecks(dataclasses.replace(run, load=None))}
    assert not names & {"KV cache full", "batch at its limit", "engine idle", "steps with a prompt"}
