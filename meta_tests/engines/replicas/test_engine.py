"""Replicas in real processes of a real Ray cluster, with a stand-in engine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from meta_tests.engines.recording import RecordingListener
from meta_tests.engines.replicas.nodes import replica_processes, stand_in
from meta_tests.servers.local_nodes import LocalNodes
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import (
    CountsCachedTokens,
    MeteredEngine,
    ReplicatedEngine,
    Request,
    ScoringEngine,
    TakesPrompts,
    TracingEngine,
)
from mlperf_suite.engines.replicas.engine import ReplicaEngine

GENERATION = Generation()


@pytest.fixture(scope="module")
def engine(nodes: LocalNodes) -> Iterator[ReplicaEngine]:
    """Two replicas, one on each node, for tests that leave them as they are."""
    from mlperf_suite.engines.replicas.loading import ReplicasConfig

    line: list[str] = []
    config = ReplicasConfig(stand_in, needs_vllm=False, address=nodes.address)
    replica_engine = ReplicaEngine.load(config, line.append)
    assert [line.split() for line in line[:4]] == [
        ["placement:", "2", "replicas", "on", "2", "nodes"],
        ["replica", "node", "devices"],
        ["0", "node-a", "(127.0.0.1)", "1", "core"],
        ["1", "node-b", "(127.0.0.1)", "1", "core"],
    ]
    yield replica_engine
    processes = replica_processes(nodes)
    assert len(processes) == 2
    replica_engine.close()
    psutil.wait_procs(processes, 60)
    assert not [p for p in processes if p.is_running()]
    # The cluster is the user's, and stays.
    assert all(psutil.pid_exists(pid) for pid in nodes.raylets.values())


def test_it_is_all_that_the_suite_asks_of_an_engine(engine: ReplicaEngine) -> None:
    assert isinstance(engine, TracingEngine)
    assert isinstance(engine, CountsCachedTokens)
    assert isinstance(engine, ReplicatedEngine)
    assert isinstance(engine, TakesPrompts)
    assert isinstance(engine, MeteredEngine)
    assert not isinstance(engine, ScoringEngine)
    assert engine.alive
    assert engine.cached_prompt_tokens == 0
    assert engine.description.stand_in
    assert engine.description.settings["replica_nodes"] == {
        "node-a (127.0.0.1)": 1,
        "node-b (127.0.0.1)": 1,
    }


def test_each_request_is_answered_once_its_first_token_before(engine: ReplicaEngine) -> None:
    listener, prompts = RecordingListener(), [[i, 7, 9] for i in range(500)]
    requests = [Request(2**63 + i, prompt) for i, prompt in enumerate(prompts)]
    engine.submit(requests, GENERATION, listener, stream=True)
    listener.wait(len(prompts))
    assert listener.answers == {2**63 + i: prompt for i, prompt in enumerate(prompts)}
    assert listener.first == {tag: answer[:1] for tag, answer in listener.answers.items()}


def test_prompts_that_were_sent_before_are_asked_for_by_their_index(
    engine: ReplicaEngine,
) -> None:
    prompts = [[i, i + 1] for i in range(40)]
    engine.take_prompts(prompts)
    listener = RecordingListener()
    # What is in the request itself must not matter then.
    requests = [Request(i, [0, 0], sample=39 - i) for i in range(40)]
    engine.submit([*requests, Request(40, [5])], GENERATION, listener, stream=False)
    listener.wait(41)
    assert listener.answers == {i: prompts[39 - i] for i in range(40)} | {40: [5]}
    # A run of fewer samples takes the first of them, another run others.
    engine.take_prompts(prompts[:10])
    engine.submit(
        [Request(1, [0], sample=9)], GENERATION, again := RecordingListener(), stream=False
    )
    again.wait(1)
    engine.take_prompts([[3], [4]])
    engine.submit([Request(2, [0], sample=1)], GENERATION, again, stream=False)
    again.wait(2)
    assert again.answers == {1: prompts[9], 2: [4]}


def test_what_each_replica_did_is_counted(engine: ReplicaEngine) -> None:
    engine.take_replicas_run()
    engine.take_trace()
    listener = RecordingListener()
    requests = [Request(i, [1, 2, 3, 4]) for i in range(300)]
    engine.submit(requests, GENERATION, listener, stream=True)
    listener.wait(300)
    run, trace = engine.take_replicas_run(), engine.take_trace()
    assert [replica.samples for replica in run.replicas] == [150, 150]
    assert [replica.tokens for replica in run.replicas] == [600, 600]
    assert [replica.node for replica in run.replicas] == [
        "node-a (127.0.0.1)",
        "node-b (127.0.0.1)",
    ]
    assert all(
        replica.ttft_ms["p99"] >= 5 and replica.tpot_ms["p99"] > 0 for replica in run.replicas
    )
    assert run.tail_s is not None
    assert sum(replica.samples for replica in engine.take_replicas_run().replicas) == 0
    assert trace.marks is not None
    assert sorted(trace.marks.tags) == list(range(300))
    for ends in zip(*trace.marks.times_s, strict=True):
        assert list(ends) == sorted(ends)


def test_one_replica_can_be_asked_alone(engine: ReplicaEngine) -> None:
    engine.take_replicas_run()
    generate_all(engine.replicas[1], [[1, 2]] * 50, GENERATION)
    assert [replica.samples for replica in engine.take_replicas_run().replicas] == [0, 50]
    # And leaves nothing behind that later requests would be routed by.
    generate_all(engine, [[1, 2]] * 50, GENERATION)
    assert [replica.samples for replica in engine.take_replicas_run().replicas] == [25, 25]


def test_what_was_aborted_is_not_heard_of_again(engine: ReplicaEngine) -> None:
    listener = RecordingListener()
    engine.submit([Request(i, [1]) for i in range(100)], GENERATION, listener, stream=False)
    engine.abort()
    assert generate_all(engine, [[1, 2]] * 4, GENERATION).token_ids == [[1, 2]] * 4
    assert len(listener.answers) < 100
    assert not listener.errors


def listening_on(process: psutil.Process) -> set[str]:
    """The addresses of a process, which may end meanwhile as Ray's idle workers do."""
    try:
        connections = process.net_connections("inet")
    except psutil.NoSuchProcess:
        return set()
    return {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}


def test_only_the_loopback_address_is_listened_on(engine: ReplicaEngine, nodes: LocalNodes) -> None:
    parents = [psutil.Process(pid).parent() for pid in nodes.raylets.values()]
    ray = {p for parent in parents if parent for p in parent.children(recursive=True)}
    listening = set().union(*map(listening_on, ray))
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_whoever_has_no_token_is_not_let_in(engine: ReplicaEngine, nodes: LocalNodes) -> None:

    code = f"import ray; ray.init(address={nodes.address!r}, logging_level='ERROR')"
    without = {n: v for n, v in os.environ.items() if not n.startswith("RAY_AUTH")}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**without, "HOME": "/nonexistent"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    # It would try again for minutes.
    line = next(line for line in process.stderr if "Unauthenticated" in line)
    process.kill()
    process.communicate()
    assert "token" in line
