"""The driver and a replica's end of a link, on plain sockets: what Ray has no part in."""

import select
import socket
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from meta_tests.engines.recording import RecordingListener
from meta_tests.features.replicas.nodes import skip_on_one_core
from meta_tests.suite_runs import run_python
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.framed_socket import FramedSocket
from mlperf_suite.engines.messages import (
    Answer,
    AskScore,
    Drop,
    EndScores,
    Failure,
    FirstTokens,
    Sampling,
    ScoreReply,
    Submit,
    from_worker,
    to_worker,
)
from mlperf_suite.engines.protocol import (
    EngineDescription,
    Likelihood,
    Request,
    Score,
    ScoreRequest,
    ScoringEngine,
)
from mlperf_suite.errors import EngineDiedError
from mlperf_suite.features.replicas import actor
from mlperf_suite.features.replicas.actor import LoadedReplica, ReplicaServer
from mlperf_suite.features.replicas.cluster import PlacedReplica
from mlperf_suite.features.replicas.engine import ReplicaEngine
from mlperf_suite.features.replicas.loading import Layout, PreparedReplicas, ReplicasConfig
from mlperf_suite.features.replicas.placement import Node, ReplicaSlot

GENERATION = Generation()


class NoCluster:
    """In place of Ray's: it places nothing, and loses nothing of its own."""

    def watch(self, on_loss: Callable[[PlacedReplica, str], None]) -> None:
        self.on_loss = on_loss

    def cause_of_death(self, placed: PlacedReplica, patience_s: float) -> str:
        return "its connection ended"

    def close(self) -> None:
        """Nothing was started."""


class Driver:
    """A driver of two replicas, whose ends of the links are the test's."""

    def __init__(self) -> None:
        pairs = [socket.socketpair() for _ in range(2)]
        self.sockets = [own for own, _ in pairs]
        self.ends = [FramedSocket(peer) for _, peer in pairs]
        nodes = [Node(f"id-{n}", f"node-{n}", "127.0.0.1", cpus=1) for n in range(2)]
        self.placed = [
            PlacedReplica(ReplicaSlot(n, node, 0, 1), None, None) for n, node in enumerate(nodes)
        ]
        self.cluster = NoCluster()
        machine = {"host": "here", "here": True, "replicas": 2, "gpus": 0, "idle_gpus": 0}
        prepared = PreparedReplicas(
            self.cluster,  # type: ignore[arg-type]
            Layout([placed.slot for placed in self.placed], [(), ()], [True, True], [machine]),
            self.placed,
            list(map(FramedSocket, self.sockets)),
        )
        self.engine = ReplicaEngine(prepared, ReplicasConfig(lambda number, gpus: None))  # type: ignore[arg-type,return-value]
        described = EngineDescription("vLLM", "1", "model", True, 2048, {"max_num_seqs": 8})
        cores = 0, 1, 2, 3, 8, 12, 13
        self.engine.ready(
            [LoadedReplica(described, ("4",), cores), LoadedReplica(described, ("6",))]
        )

    def messages(self, replica: int, kind: type) -> list[Any]:
        """What the replica is sent, up to the first message of this kind."""
        inbox: list[Any] = []
        end = self.ends[replica]
        end.socket.settimeout(120)
        while not inbox or not isinstance(inbox[-1], kind):
            for content in end.frames.feed(end.socket.recv(1 << 20)):
                inbox.append(to_worker.decode(content))
        return inbox

    def submit_three(self, listener: RecordingListener) -> list[int]:
        """Submit requests 1, 2 and 3 to the first replica. Returns the driver's numbers of them."""
        requests = [Request(tag, [5]) for tag in (1, 2, 3)]
        self.engine.replicas[0].submit(requests, GENERATION, listener, stream=False)
        numbers: list[int] = self.messages(0, Submit)[-1].numbers
        return numbers


@pytest.fixture
def driver() -> Iterator[Driver]:
    two_replicas = Driver()
    yield two_replicas
    two_replicas.engine.close()
    for end in two_replicas.ends:
        end.close()


def words(listener: RecordingListener) -> dict[int, str]:
    """What is said of each request that failed."""
    return {tag: str(error) for tag, error in listener.errors.items()}


def answer_of(number: int, *token_ids: int) -> Answer:
    return Answer(number, array("i", token_ids).tobytes())


def test_what_came_in_a_frame_is_told_in_one_call_first_tokens_before_answers(
    driver: Driver,
) -> None:
    first_listener, second_listener = RecordingListener(), RecordingListener()
    engine = driver.engine.replicas[0]
    engine.submit([Request(tag, [5]) for tag in (1, 2, 3)], GENERATION, first_listener, stream=True)
    engine.submit([Request(1, [5])], GENERATION, second_listener, stream=True)
    numbers: list[int] = []
    while len(numbers) < 4:
        numbers += [number for submit in driver.messages(0, Submit) for number in submit.numbers]
    a, b, c, d = numbers
    unknown = max(numbers) + 100
    firsts = [FirstTokens(n, [ids]) for n, ids in ((b, 9), (d, 6), (unknown, 1), (c, 4))]
    answers = answer_of(b, 9), answer_of(d, 6, 5), answer_of(a, 1), answer_of(unknown, 2)
    driver.ends[0].send([answer_of(a, 7, 8), *firsts, *answers])
    second_listener.wait(1)
    assert second_listener.calls == [("first", [(1, [6])]), ("answers", [(1, [6, 5])])]
    first_listener.wait(2)
    assert first_listener.calls == [
        ("first", [(2, [9]), (3, [4])]),
        ("answers", [(1, [7, 8]), (2, [9])]),
    ]
    driver.ends[0].send([answer_of(c, 4, 4)])
    first_listener.wait(3)
    assert first_listener.calls[2:] == [("answers", [(3, [4, 4])])]
    listener = driver.engine.take_replicas_run().replicas[0]
    assert (listener.samples, listener.tokens) == (4, 7)


def test_a_broken_answer_leaves_no_other_without_an_end(driver: Driver) -> None:
    listener = RecordingListener()
    a, b, c = driver.submit_three(listener)
    # No whole number of tokens.
    driver.ends[0].send([answer_of(a, 7), Answer(b, b"123"), answer_of(c, 8)])
    listener.wait(3)
    assert listener.calls == [("answers", [(1, [7])])]
    assert list(listener.errors) == [2, 3]
    assert str(listener.errors[2]).startswith("the driver of the replicas failed: ValueError: ")


def test_what_came_before_a_replica_was_lost_is_told(driver: Driver) -> None:
    listener = RecordingListener()
    a, b, c = driver.submit_three(listener)
    driver.ends[0].send([answer_of(b, 7), Failure(a, "the engine died", True), answer_of(c, 8)])
    listener.wait(3)
    assert listener.calls == [("answers", [(2, [7])])]
    assert list(listener.errors) == [1, 3]


def test_what_one_replica_drops_is_its_own(driver: Driver) -> None:
    """The refusal of one must not make the others' answers be waited for in vain."""
    listener = RecordingListener()
    first_replica, second_replica = driver.engine.replicas
    first_replica.submit([Request(1, [5]), Request(2, [5])], GENERATION, listener, stream=False)
    second_replica.submit([Request(3, [5])], GENERATION, listener, stream=False)
    first_replica.abort()
    dropped, drop = driver.messages(0, Drop)
    assert (type(dropped), type(drop)) == (Submit, Drop)
    # What was dropped is not heard of again.
    driver.ends[0].send([Failure(dropped.numbers[0], "refused", False)])
    (submit,) = driver.messages(1, Submit)
    driver.ends[1].send([Failure(submit.numbers[0], "refused", False)])
    listener.wait(1)
    assert words(listener) == {3: "replica 1 on node node-1 (127.0.0.1): refused"}
    # Nothing of it is counted as outstanding: as many go to the one as to the other.
    # Nor of what both dropped.
    for _ in range(2):
        driver.engine.submit([Request(4, [5])] * 16, GENERATION, listener, stream=False)
        for replica in (0, 1):
            assert len(driver.messages(replica, Submit)[-1].numbers) == 8
        driver.engine.abort()


def test_whoever_hands_a_request_to_a_replica_that_takes_nothing_is_let_go(driver: Driver) -> None:
    listener = RecordingListener()
    long = [Request(tag, array("i", [7]) * 4_000_000) for tag in range(4)]
    engine = driver.engine
    thread = threading.Thread(
        target=lambda: engine.submit(long, GENERATION, listener, stream=False), daemon=True
    )
    thread.start()
    # Until its buffer is full, which holds far less than is sent.
    while select.select([], driver.sockets[:1], [], 0)[1]:
        assert thread.is_alive()
        time.sleep(0.001)
    driver.cluster.on_loss(driver.placed[0], "its node died")
    thread.join(60)
    assert not thread.is_alive()
    listener.wait(4)
    assert words(listener) == dict.fromkeys(
        range(4), "replica 0 on node node-0 (127.0.0.1): its node died"
    )


class Losing(list[Request]):
    """Requests that are looked at while a replica is lost."""

    lose: Callable[[], None]

    def __iter__(self) -> Iterator[Request]:
        self.lose()
        return super().__iter__()


@pytest.mark.parametrize("alone", [False, True])
def test_what_is_submitted_while_a_replica_is_lost_fails_too(driver: Driver, alone: bool) -> None:
    listener, requests = RecordingListener(), Losing([Request(1, [5])])
    requests.lose = lambda: driver.cluster.on_loss(driver.placed[1], "its node died")
    engine = driver.engine.replicas[0] if alone else driver.engine
    engine.submit(requests, GENERATION, listener, stream=False)
    listener.wait(1)
    assert words(listener) == {1: "replica 1 on node node-1 (127.0.0.1): its node died"}
    assert isinstance(listener.errors[1], EngineDiedError)
    assert not driver.engine.alive


# A replica's end


class ReplicaEnd:
    """A replica's server, and the driver's end of its link."""

    def __init__(self, engine: object) -> None:
        own, peer = socket.socketpair()
        self.framed_socket = FramedSocket(own)
        own.settimeout(120)
        self.server = ReplicaServer(FramedSocket(peer), lambda: None, 60.0)
        self.server.serve(engine)  # type: ignore[arg-type]
        self._heard: list[Any] = []

    def messages(self, kind: type) -> Any:
        """The next message of this kind."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for n, message in enumerate(self._heard):
                if isinstance(message, kind):
                    return self._heard.pop(n)
            for content in self.framed_socket.frames.feed(self.framed_socket.socket.recv(1 << 20)):
                self._heard += from_worker.decode(content)
        raise AssertionError(f"no {kind.__name__} came")


def test_a_message_that_cannot_be_taken_is_no_silence() -> None:
    replica = ReplicaEnd(SimpleNamespace(alive=True, steps_made=0))
    # There are no prompts of that number.
    replica.framed_socket.send(
        Submit([1], [0], [0], [], [], 3, Sampling(8, 1, 0.0, 1.0, 1, 42, False))
    )
    assert replica.messages(Failure).why.startswith("a message of the driver's failed: ")
    replica.framed_socket.close()


class Scorer:
    """Scores at once, and ends only after all that it is asked for is scored."""

    alive = True
    steps_made = 0

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        for request in requests:
            yield request.tag, Score((Likelihood(-1.0, True),), 1.0, 1, 0)
        self.may_end.wait(600)


def test_a_score_that_is_asked_for_right_after_the_last_ones_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actor, "ScoringEngine", Scorer)
    scorer = Scorer()
    replica = ReplicaEnd(scorer)
    for number in (1, 2, 3):
        replica.framed_socket.send(AskScore(ScoreRequest(number, [1], [[2]])))
        assert replica.messages(ScoreReply).number == number
        replica.framed_socket.send(EndScores())
    scorer.may_end.set()
    replica.framed_socket.close()


_KEPT = """
import os, subprocess, sys, threading
from mlperf_suite.features.replicas import actor
from mlperf_suite.features.replicas.handshake import connect, new_key
from meta_tests.stand_in import Delays, StandInEngine

some = sorted(os.sched_getaffinity(0))[:1]
actor.cores_near = lambda names: tuple(some) if names == ("3", "4") else ()

def make(folder):
    global log
    (log := folder / "engine-0.log").touch()
    ask = "import os; print(*os.sched_getaffinity(0))"
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return StandInEngine(Delays(), list, model=told.stdout.strip())

replica, key = actor.Replica(60.0), new_key()
port = replica.open("127.0.0.1", key)
driver = connect("127.0.0.1", port, key)
variables, near = {"CUDA_VISIBLE_DEVICES": sys.argv[1]}, sys.argv[2] == "near"
loaded = replica.load(make, variables, (), None, near_gpus=near)
threads = {tuple(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")}
print(loaded.cores == tuple(some), loaded.description.model == str(some[0]))
print(threads == {tuple(some)})
replica.close()
print(log.parent.exists())
"""


@pytest.mark.parametrize(
    ("gpus", "binding", "near"),
    [("3,4", "near", True), ("3", "near", False), ("3,4", "any", False)],
)
def test_a_replica_keeps_to_the_cores_near_its_gpus(gpus: str, binding: str, near: bool) -> None:
    skip_on_one_core()
    told = run_python("-c", _KEPT, gpus, binding)
    assert told.stdout.split() == [*[str(near)] * 3, "False"], told.stderr


def test_the_gpus_and_cores_of_all_replicas_are_told(driver: Driver) -> None:
    assert not isinstance(driver.engine, ScoringEngine), "its replicas were asked for no scores"
    assert driver.engine.description.settings["replica_gpus"] == ["4", "6"]
    assert [replica.steps_made for replica in driver.engine.replicas] == [0, 0]
    assert driver.engine.description.settings["replica_cores"] == ["0-3,8,12-13", "any"]
