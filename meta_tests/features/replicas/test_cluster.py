"""Replicas with a stand-in engine in real processes of a real Ray cluster: what they answer, score
and meter. One that is lost, does not load or has no room ends in a line that names it and leaves
nothing behind."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from meta_tests.engines.recording import RecordingListener
from meta_tests.features.replicas.nodes import (
    Load,
    error_of,
    have_ended,
    labels,
    reading,
    replica_processes,
    skip_on_one_core,
    slow,
)
from meta_tests.features.replicas.replica_stand_in import (
    CPU_WATTS,
    GPU_WATTS,
    answering,
    echo,
    failing,
    scoring,
    simulated_meters,
)
from meta_tests.suite_runs import run_suite
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.energy import RAPL_LABEL
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import (
    CountsCachedTokens,
    Engine,
    Likelihood,
    MeteredEngine,
    Request,
    Score,
    ScoreRequest,
    ScoringEngine,
    TakesPrompts,
    TracingEngine,
)
from mlperf_suite.errors import EngineDiedError, EngineError
from mlperf_suite.features.replicas.engine import ReplicaEngine
from mlperf_suite.features.replicas.loading import ReplicasConfig
from mlperf_suite.features.replicas.placement import parse_nodes
from mlperf_suite.features.replicas.source import ReplicatedEngine
from scripts.local_nodes import LocalNodes

GENERATION = Generation()
NODE_B = r"replica 1 on node node-b \(127.0.0.1\)"


def scorer(number: int, gpus: int) -> Callable[[Path], Engine]:
    return scoring


@pytest.fixture(scope="class")
def engine(nodes: LocalNodes) -> Iterator[ReplicaEngine]:
    skip_on_one_core()
    config = ReplicasConfig(scorer, needs_vllm=False, address=nodes.address, scores=True)
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


class TestOneEngine:
    """Two replicas, one on each node, that each test leaves as they are."""

    def test_it_is_all_that_the_suite_asks_of_an_engine(self, engine: ReplicaEngine) -> None:
        kinds = (TracingEngine, CountsCachedTokens, ReplicatedEngine, TakesPrompts, MeteredEngine)
        assert all(isinstance(engine, kind) for kind in kinds)
        assert engine.alive
        assert engine.cached_prompt_tokens == 0
        assert engine.description.stand_in
        names = ["node-a (127.0.0.1)", "node-b (127.0.0.1)"]
        assert engine.description.settings["replica_nodes"] == dict.fromkeys(names, 1)

    def test_each_request_is_answered_once_after_its_first_token(
        self, engine: ReplicaEngine
    ) -> None:
        listener, prompts = RecordingListener(), [[i, 7, 9] for i in range(500)]
        requests = [Request(2**63 + i, prompt) for i, prompt in enumerate(prompts)]
        engine.submit(requests, GENERATION, listener, stream=True)
        listener.wait(len(prompts))
        assert listener.answers == {2**63 + i: prompt for i, prompt in enumerate(prompts)}
        assert listener.first == {tag: answer[:1] for tag, answer in listener.answers.items()}

    def test_prompts_that_were_sent_are_asked_for_by_their_index(
        self, engine: ReplicaEngine
    ) -> None:
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

    def test_what_each_replica_did_is_counted(self, engine: ReplicaEngine) -> None:
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

    def test_each_request_is_scored_once_by_whichever_replica(self, engine: ReplicaEngine) -> None:
        assert isinstance(engine, ScoringEngine)
        # More than the replicas are given at once, and a second time.
        for count in (1200, 3):
            requests = [ScoreRequest(i, [i, 5], [[1], [2, 3]]) for i in range(count)]
            scores = dict(engine.score(iter(requests)))
            assert scores == {
                i: Score((Likelihood(-1.0, bool(i % 2)), Likelihood(-2.0, bool(i % 2))), 1.5, 2, i)
                for i in range(count)
            }

    def test_each_replica_reads_its_devices(self, engine: ReplicaEngine) -> None:
        rows = reading(engine.meters(simulated_meters))
        # Both nodes are this machine, which has one package.
        assert {(row.counter.name, *set(row.values)) for row in rows} == {
            *(("node-a GPU 0 H100", GPU_WATTS), ("node-b GPU 0 H100", GPU_WATTS)),
            ("node-a CPU package-0", CPU_WATTS),
        }
        # The real ones, whether this machine has some or not.
        assert labels(engine.meters()) == {RAPL_LABEL}


# Replicas that are lost, that do not load, and a cluster that cannot hold them


def second_fails(number: int, gpus: int) -> Callable[[Path], Engine]:
    """The engine of replica 1 does not load."""
    return failing if number == 1 else partial(answering, echo, 0.0, 0.0)


def test_a_replica_that_was_killed_is_named(load: Load, nodes: LocalNodes) -> None:
    engine = load(make=slow)
    (process,) = replica_processes(nodes, "node-b")
    process.kill()
    assert f"{error_of(engine)}" == (
        "replica 1 on node node-b (127.0.0.1): its process was killed or crashed"
    )
    # And whatever is asked later.
    with pytest.raises(EngineDiedError, match=NODE_B):
        generate_all(engine, [[1]], GENERATION)


def test_a_replica_that_does_not_load_is_named(load: Load, nodes: LocalNodes) -> None:
    with pytest.raises(EngineError, match=f"{NODE_B}: the stand-in engine does not load") as error:
        load(make=second_fails)
    assert have_ended(replica_processes(nodes))
    log = Path(str(error.value).split()[-1])
    log.unlink()
    log.parent.rmdir()


def test_a_cluster_without_room_is_said_before_anything_is_started(
    load: Load, nodes: LocalNodes
) -> None:
    with pytest.raises(EngineError, match=r"3 replicas of 1 core each.*node-a \(127.0.0.1\) 1"):
        load(replicas=3)
    with pytest.raises(EngineError, match="no node node-z in the Ray cluster: it has node-a"):
        load(nodes=parse_nodes("node-z"))
    assert not replica_processes(nodes)


def test_an_address_where_no_cluster_is_ends_at_once() -> None:
    with pytest.raises(EngineError, match=r"--ray 127.0.0.1:1: no Ray cluster can be joined"):
        ReplicaEngine.load(ReplicasConfig(slow, address="127.0.0.1:1"))


def test_a_run_that_is_interrupted_while_it_loads_leaves_no_process(nodes: LocalNodes) -> None:
    skip_on_one_core()

    def interrupt(line: str) -> None:
        if "idle" in line:
            raise KeyboardInterrupt

    config = ReplicasConfig(slow, needs_vllm=False, address=nodes.address)
    with pytest.raises(KeyboardInterrupt):
        ReplicaEngine.load(config, interrupt)
    assert have_ended(replica_processes(nodes))


class StandInSearch:
    """Finds settings that no stand-in engine has."""

    def result(self) -> dict[str, object]:
        return {"max_num_seqs": 7}

    def end(self) -> None:
        """Nothing goes on."""


def test_settings_are_compared_on_the_replicas_own_node(nodes: LocalNodes, load: Load) -> None:
    """`load` joins a cluster, as `--ray` does."""
    why = "max_num_seqs is None, and 7 for an engine in a process of its own"
    with pytest.raises(EngineError, match=rf"replica 0 .*{why}"):
        load(expected=lambda gpus: StandInSearch)
    assert have_ended(replica_processes(nodes))


def test_a_plan_shows_the_placement_and_starts_no_replica(
    nodes: LocalNodes, tmp_path: Path
) -> None:
    words = ("--plan", "-m", "offline and datacenter", "--ray", nodes.address, "--replicas=1")
    run = run_suite(tmp_path, "-p", "meta_tests.stand_in_plugin", *words, **nodes.variables)
    assert run.exit_code == 0, run.output
    lines = [line.split() for line in run.output.splitlines()]
    start = lines.index(["placement:", "1", "replica", "on", "1", "node"])
    assert lines[start + 2] == ["0", "node-a", "(127.0.0.1)", "1", "core"]
    assert lines[start + 4][0] == "plan:"
    assert not replica_processes(nodes)
