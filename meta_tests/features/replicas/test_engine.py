"""Replicas in real processes of a real Ray cluster, with a stand-in engine."""

from collections.abc import Iterator

import psutil
import pytest

from meta_tests.engines.recording import RecordingListener
from meta_tests.features.replicas.nodes import (
    have_ended,
    replica_processes,
    skip_on_one_core,
    stand_in,
)
from meta_tests.servers.local_nodes import LocalNodes
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import (
    CountsCachedTokens,
    MeteredEngine,
    Request,
    ScoringEngine,
    TakesPrompts,
    TracingEngine,
)
from mlperf_suite.features.replicas.engine import ReplicaEngine
from mlperf_suite.features.replicas.loading import ReplicasConfig
from mlperf_suite.features.replicas.source import ReplicatedEngine

GENERATION = Generation()


@pytest.fixture(scope="module")
def engine(nodes: LocalNodes) -> Iterator[ReplicaEngine]:
    """Two replicas, one on each node, for tests that leave them as they are."""
    skip_on_one_core()
    config = ReplicasConfig(stand_in, needs_vllm=False, address=nodes.address)
    lines: list[str] = []
    replica_engine = ReplicaEngine.load(config, lines.append)
    assert lines[0].split() == ["placement:", "2", "replicas", "on", "2", "nodes"]
    yield replica_engine
    processes = replica_processes(nodes)
    assert len(processes) == 2
    replica_engine.close()
    assert have_ended(processes)
    # The cluster is the user's, and stays.
    assert all(psutil.pid_exists(pid) for pid in nodes.raylets.values())


def test_it_is_all_that_the_suite_asks_of_an_engine(engine: ReplicaEngine) -> None:
    for kind in (TracingEngine, CountsCachedTokens, ReplicatedEngine, TakesPrompts, MeteredEngine):
        assert isinstance(engine, kind)
    assert not isinstance(engine, ScoringEngine)
    assert engine.alive
    assert engine.cached_prompt_tokens == 0
    assert engine.description.stand_in
    names = ["node-a (127.0.0.1)", "node-b (127.0.0.1)"]
    assert engine.description.settings["replica_nodes"] == dict.fromkeys(names, 1)


def test_each_request_is_answered_once_its_first_token_before(engine: ReplicaEngine) -> None:
    listener, prompts = RecordingListener(), [[i, 7, 9] for i in range(500)]
    requests = [Request(2**63 + i, prompt) for i, prompt in enumerate(prompts)]
    engine.submit(requests, GENERATION, listener, stream=True)
    listener.wait(len(prompts))
    assert listener.answers == {2**63 + i: prompt for i, prompt in enumerate(prompts)}
    assert listener.first == {tag: answer[:1] for tag, answer in listener.answers.items()}


def test_prompts_that_were_sent_before_are_asked_for_by_their_index(engine: ReplicaEngine) -> None:
    prompts = [[i, i + 1] for i in range(40)]
    engine.take_prompts(prompts)
    listener = RecordingListener()
    # What is in the request itself must not matter then.
    requests = [Request(i, [0, 0], sample=39 - i) for i in range(40)]
    engine.submit([*requests, Request(40, [5])], GENERATION, listener, stream=False)
    listener.wait(41)
    assert listener.answers == {i: prompts[39 - i] for i in range(40)} | {40: [5]}
    # Another run has others.
    engine.take_prompts([[3], [4]])
    again = RecordingListener()
    engine.submit([Request(2, [0], sample=1)], GENERATION, again, stream=False)
    again.wait(1)
    assert again.answers == {2: [4]}


def test_what_each_replica_did_is_counted(engine: ReplicaEngine) -> None:
    engine.take_replicas_run()
    engine.take_trace()
    listener = RecordingListener()
    requests = [Request(i, [1, 2, 3, 4]) for i in range(300)]
    engine.submit(requests, GENERATION, listener, stream=True)
    listener.wait(300)
    run, trace = engine.take_replicas_run(), engine.take_trace()
    for name, replica in zip(("node-a", "node-b"), run.replicas, strict=True):
        assert (replica.samples, replica.tokens) == (150, 600)
        assert replica.node == f"{name} (127.0.0.1)"
        assert replica.ttft_ms["p99"] >= 5 and replica.tpot_ms["p99"] > 0
    assert run.tail_s is not None
    assert sum(replica.samples for replica in engine.take_replicas_run().replicas) == 0
    assert trace.timestamps is not None
    assert sorted(trace.timestamps.tags) == list(range(300))
    for ends in zip(*trace.timestamps.times_s, strict=True):
        assert list(ends) == sorted(ends)
