"""The replicas as one engine: this process hands out requests and receives the answers.

Whatever dies, each request is answered or failed exactly once. If one replica is lost, the engine
is lost: the work of the others alone does not measure the whole system.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.frames import hear
from mlperf_suite.engines.protocol import (
    EngineDescription,
    EngineTrace,
    Listener,
    ReplicasRun,
    Request,
)
from mlperf_suite.engines.replicas.accounts import ReplicaAccount, run_of
from mlperf_suite.engines.replicas.actor import Loaded
from mlperf_suite.engines.replicas.cluster import Placed
from mlperf_suite.engines.replicas.config import ReplicasConfig
from mlperf_suite.engines.replicas.loading import (
    Prepared,
    check_descriptions,
    load_engines,
    prepare,
)
from mlperf_suite.engines.replicas.messages import (
    NOT_SENT,
    Ask,
    Beat,
    Done,
    Drop,
    EndScores,
    Failed,
    First,
    FromReplica,
    Hangs,
    Score,
    Scored,
    Submit,
    TellTrace,
    Trace,
    from_replica,
)
from mlperf_suite.engines.replicas.placement import Seat, devices
from mlperf_suite.engines.replicas.prompt_sets import PromptSets
from mlperf_suite.engines.replicas.routing import Router, batch_of
from mlperf_suite.engines.replicas.traces import Answered, merged
from mlperf_suite.engines.scoring import Likelihood, ScoreRequest
from mlperf_suite.engines.scoring import Score as ScoreOf
from mlperf_suite.engines.telling import Collected, by_listener
from mlperf_suite.errors import EngineDiedError, EngineError

DEAD_S = 20.0
"""A replica that sent nothing for this long, in s, is lost: it sends a beat each second."""
_ASLEEP_S = 4.0
"""Looks further apart mean that this process was stopped: Ctrl-Z, or the machine slept."""
_TICK_S = 0.5
_ANSWER_S = 30.0
"""How long a live replica may take to answer a question, in s."""
_RAY_S = 15.0
"""How long Ray may take to say why a replica is lost, in s; that it is lost shows at once in its
connection. Ray takes as long to give up a node that leaves without notice."""
_KNOWN_ANSWERS = 32
"""The number of answers from which their mean predicts the length of the next."""
_PROMPT_COST = 0.25
"""How many answer tokens a prompt token counts as until a probe measures it: prompt tokens are
computed all at once."""
_SCORED_AT_ONCE = 256
"""More than an engine holds at once, so that it never waits for the next."""
_SCORED_IN_A_ROW = 16
"""Consecutive requests to score for the same replica: neighbours share examples, so its cache."""


_Key = TypeVar("_Key")
_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class _Job:
    """The common properties of one call's requests."""

    listener: Listener
    generation: Generation
    stream: bool
    prompts: int
    submitted: float
    with_stops: bool


@dataclass(slots=True)
class _Waiting:
    """An unanswered request. `tokens`: its weight in answer tokens; `handed`: when it was sent to
    its `replica`; `first`: when its first token came, None before that."""

    request: Request
    job: _Job
    tokens: int
    replica: int = -1
    handed: float = 0.0
    first: float | None = None


class _Expected:
    """Finds the settings of an engine in this process while the replicas load."""

    def __init__(self, config: ReplicasConfig, gpus: int) -> None:
        self._ask = config.expected
        self._gpus = gpus
        self._settings: Mapping[str, object] | None = None
        self._stop = threading.Event()
        self._done = threading.Event()
        # At exit, Python waits for threads that are not daemons.
        self._thread = threading.Thread(target=self._find, name="settings", daemon=True)
        self._thread.start()

    def _find(self) -> None:
        try:
            if self._ask is not None:
                self._settings = self._ask(self._gpus, self._stop)
        finally:
            self._done.set()

    def found(self, lost: Callable[[], str | None]) -> Mapping[str, object] | None:
        """The settings; None if unknown. Raises EngineError if an engine is lost meanwhile."""
        while not self._done.wait(_TICK_S):
            if (why := lost()) is not None:
                raise EngineError(why)
        return self._settings

    def end(self) -> None:
        """Stop the search: the settings are no longer needed."""
        self._stop.set()
        self._thread.join(_RAY_S)


class ReplicaEngine:
    """Replicas on the nodes of a Ray cluster. Create it with `ReplicaEngine.load`."""

    def __init__(self, prepared: Prepared, config: ReplicasConfig) -> None:
        """No request may be submitted before `ready`."""
        self._cluster = prepared.cluster
        self._placed = placed = prepared.placed
        self._links = prepared.links
        self._machines = list(prepared.machines)
        self._config = config
        self._seats: list[Seat] = [one.seat for one in placed]
        self._description: EngineDescription | None = None
        self._router = Router([1] * len(placed), config.routing)
        self._sets = PromptSets(self._cluster, placed)
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._waiting: dict[int, _Waiting] = {}
        self._held: deque[_Waiting] = deque()
        self._to_score: dict[int, Callable[[Scored | EngineError], None]] = {}
        now = time.monotonic()
        self._heard = [now] * len(placed)
        self._looked = now
        self._steps_made = [0] * len(placed)
        self._cached = [0] * len(placed)
        self._prompt_cost = _PROMPT_COST
        self._offsets = _Offsets(prepared.same_clock)
        self._answers = threading.Condition()
        """Notified when a requested beat or trace came."""
        self._beats: dict[tuple[int, float], Beat] = {}
        self._traces: dict[tuple[int, int], Trace] = {}
        self._answered = Answered()
        self._came = Collected[First, Done](self._tell_firsts, self._tell_answers)
        self._gone: str | None = None
        self._begun: float | None = None
        self._closed = False
        self._begin_accounts()
        self._thread = threading.Thread(target=self._hear, name="replicas", daemon=True)
        self._thread.start()
        self._cluster.watch(self._given_up)
        self._cpu_before = self._cpu_s()

    @classmethod
    def load(
        cls, config: ReplicasConfig, say: Callable[[str], None] = lambda line: None
    ) -> ReplicaEngine:
        """Place the replicas, load them all at the same time, and return when they can answer.

        `say`: called with the placement before anything is loaded, line by line. Raises EngineError
        naming the node, and the replica if it exists already.
        """
        kind = ScoringReplicaEngine if config.scores else ReplicaEngine
        prepared = prepare(config, say)
        try:
            engine = kind(prepared, config)
        except BaseException:
            prepared.cluster.close()
            raise
        expected = _Expected(config, prepared.placed[0].seat.gpus)
        try:
            loaded = load_engines(prepared, config, lambda: engine.lost)
            settings = expected.found(lambda: engine.lost)
            engine.ready(loaded, settings)
        except BaseException:
            engine.close()
            raise
        finally:
            expected.end()
        if config.expected is not None and settings is None:
            say("the replicas' settings were not compared with those of an engine in this process")
        return engine

    def ready(self, loaded: Sequence[Loaded], expected: Mapping[str, object] | None = None) -> None:
        """Accept requests, as all replicas are loaded. Raises EngineError if one differs from the
        others, or from `expected`."""
        description = check_descriptions(self._seats, loaded, expected)
        batches = [
            batch_of((one.description or {}).get("settings", {}).get("max_num_seqs"))
            for one in loaded
        ]
        self._router = Router(batches, self._config.routing)
        nodes: dict[str, int] = {}
        for seat in self._seats:
            nodes[str(seat.node)] = nodes.get(str(seat.node), 0) + 1
        alike = {k: v for k, v in description.settings.items() if k != "omp_threads_bind"}
        self._description = replace(
            description,
            settings={
                **alike,
                # Each replica sees only its own GPUs.
                "idle_gpus": sum(int(str(one["idle_gpus"])) for one in self._machines),
                "replicas": len(self._seats),
                "replica_nodes": nodes,
                "replica_devices": devices(self._seats[0]),
                "machines": self._machines,
                "replica_gpus": [gpu for one in loaded for gpu in one.gpus],
                "replica_cores": [_ranges(one.cores) for one in loaded],
                "routing": self._config.routing,
            },
        )
        for number in range(len(self._seats)):
            self._offsets.learn(number, lambda n=number: self._ask(n))  # type: ignore[misc]

    # What it is

    @property
    def description(self) -> EngineDescription:
        if self._description is None:
            raise EngineError("the replicas are not loaded")
        return self._description

    @property
    def alive(self) -> bool:
        return self._gone is None and not self._closed

    @property
    def lost(self) -> str | None:
        """Which replica was lost, and why, in one line; None while all are alive."""
        return self._gone

    @property
    def replicas(self) -> list[OneReplica]:
        """See `ReplicatedEngine`."""
        return [OneReplica(self, number) for number in range(len(self._seats))]

    def weigh(self, speeds: Sequence[float], prompt_cost: float) -> bool:
        """See `ReplicatedEngine`."""
        self._prompt_cost = prompt_cost
        if self.alike:
            return False
        with self._lock:
            self._router.weigh(speeds)
        return True

    @property
    def alike(self) -> bool:
        """See `ReplicatedEngine`."""
        return len({devices(seat) for seat in self._seats}) == 1

    # Requests

    def take_prompts(self, prompts: Sequence[Sequence[int]]) -> None:
        """See `TakesPrompts`: each node is sent only what it lacks."""
        self._sets.take(prompts)

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        self.submit_to(None, requests, generation, listener, stream=stream)

    def submit_to(
        self,
        replica: int | None,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        """As `submit`; if a replica is named, to it alone and all at once."""
        stops = any(request.stop for request in requests)
        now = time.monotonic()
        job = _Job(listener, generation, stream, self._sets.current, now, stops)
        expected, cost = self._expected(generation), self._prompt_cost
        waiting = [
            _Waiting(r, job, round(cost * len(r.prompt_token_ids)) + expected) for r in requests
        ]
        batches: dict[tuple[int, int], Submit] = {}
        with self._lock:
            # Losing the engine fails what waits by then, and nothing later.
            gone = self._gone
            if gone is None:
                self._begun = self._begun or now
                if replica is None:
                    self._held.extend(waiting)
                    batches = self._hand_out()
                else:
                    for one in waiting:
                        self._router.give(replica, one.tokens)
                        self._hand(one, replica, now, batches)
        if gone is not None:
            for request in requests:
                listener.failed(request.tag, EngineDiedError(gone))
        self._send(batches)

    def _expected(self, generation: Generation) -> int:
        """The expected tokens of the next answer, from the answers so far."""
        if self._counted < _KNOWN_ANSWERS:
            return generation.max_new_tokens
        return min(generation.max_new_tokens, self._tokens // self._counted)

    def _hand_out(self) -> dict[tuple[int, int], Submit]:
        """Hand held requests to replicas with room; the lock must be held. Returns what to send."""
        batches: dict[tuple[int, int], Submit] = {}
        now = time.monotonic()
        while self._held:
            replica = self._router.take(self._held[0].tokens, len(self._held))
            if replica is None:
                break
            self._hand(self._held.popleft(), replica, now, batches)
        return batches

    def _hand(
        self, one: _Waiting, replica: int, now: float, batches: dict[tuple[int, int], Submit]
    ) -> None:
        number, job, request = next(self._numbers), one.job, one.request
        one.replica, one.handed = replica, now
        self._waiting[number] = one
        self._accounts[replica].handed(now)
        batch = batches.get((replica, id(job)))
        if batch is None:
            batch = batches[replica, id(job)] = Submit(
                [], [], job.prompts, [], [], job.generation, job.stream
            )
        batch.numbers.append(number)
        if request.sample is None:
            batch.indices.append(NOT_SENT)
            batch.own.append(array("i", request.prompt_token_ids).tobytes())
        else:
            batch.indices.append(request.sample)
        if job.with_stops:
            batch.stops.append(request.stop)

    def _send(self, batches: dict[tuple[int, int], Submit]) -> None:
        # Not under the lock: sending to a lost machine blocks, and the thread that notices the
        # loss needs the lock.
        for (replica, _), batch in batches.items():
            # If the replica is gone, the thread that reads its end of file fails these requests.
            with contextlib.suppress(OSError):
                self._links[replica].send(batch)

    # Answers, all on one thread

    def _hear(self) -> None:
        try:
            hear(
                [link.socket for link in self._links],
                _TICK_S,
                until=lambda: self._closed,
                heard=self._take,
                lost=self._lost,
                looked=self._look,
            )
        # Any exception here would leave every request without an answer.
        except Exception as error:
            self._lose_all(f"the driver of the replicas failed: {type(error).__name__}: {error}")

    def _take(self, replica: int, data: bytes) -> None:
        self._heard[replica] = time.monotonic()
        for content in self._links[replica].frames.feed(data):
            for message in from_replica.decode(content):
                self._take_one(replica, message)

    def _take_one(self, replica: int, message: FromReplica) -> None:
        if isinstance(message, First):
            self._came.firsts.append(message)
        elif isinstance(message, Done):
            self._came.answers.append(message)
        elif isinstance(message, Beat):
            self._beat(replica, message)
        elif isinstance(message, Trace):
            with self._answers:
                self._traces[replica, message.number] = message
                self._answers.notify_all()
        elif isinstance(message, Scored):
            with self._lock:
                tell = self._to_score.pop(message.number, None)
            if tell is not None:
                tell(message)
        elif isinstance(message, Hangs):
            self._lose(replica, message.why)
        elif isinstance(message, Failed):
            self._failed(replica, message)

    def _look(self) -> None:
        self._came.tell()
        if self._held:
            with self._lock:
                batches = self._hand_out()
            self._send(batches)
        self._look_for_silence()

    def _tell_firsts(self, firsts: Sequence[First]) -> None:
        now = time.monotonic()
        told = []
        for first in firsts:
            one = self._waiting.get(first.number)
            if one is not None:
                one.first = now
                told.append((one.job.listener, one.request.tag, first.token_ids))
        for listener, tokens in by_listener(told):
            listener.first_tokens(tokens)

    def _tell_answers(self, dones: Sequence[Done]) -> None:
        told: list[tuple[Listener, int, Sequence[int]]] = []
        try:
            # Count before the listener is called, which can end the run.
            with self._lock:
                now = time.monotonic()
                for done in dones:
                    tokens = array("i", done.tokens)
                    one = self._end(done.number, now)
                    if one is None:
                        continue
                    told.append((one.job.listener, one.request.tag, tokens))
                    self._answered.add(done.number, one.request.tag, one.handed, one.first, now)
                    account = self._accounts[one.replica]
                    account.answered(now, one.job.submitted, one.first, len(tokens))
                    self._counted += 1
                    self._tokens += len(tokens)
                    self._last = now
        finally:
            # Listeners hear of the answers that ended, whatever went wrong with another one.
            for listener, answers in by_listener(told):
                listener.finished(answers)

    def _beat(self, replica: int, beat: Beat) -> None:
        self._steps_made[replica] = beat.steps_made
        self._cached[replica] = beat.cached_tokens
        if beat.sent is not None:
            self._offsets.heard(replica, beat.sent, beat.now, time.monotonic())
            with self._answers:
                self._beats[replica, beat.sent] = beat
                self._answers.notify_all()

    def _end(self, number: int, now: float) -> _Waiting | None:
        """Remove a request; the lock must be held."""
        one = self._waiting.pop(number, None)
        if one is not None:
            self._router.give_back(one.replica, one.tokens)
            self._accounts[one.replica].ended(now)
        return one

    def _failed(self, replica: int, message: Failed) -> None:
        if message.died:
            self._lose(replica, message.why)
            return
        with self._lock:
            one = self._end(message.number, time.monotonic())
        if one is not None:
            why = f"{self._seats[replica]}: {message.why}"
            one.job.listener.failed(one.request.tag, EngineError(why))

    # When something dies

    def _look_for_silence(self) -> None:
        now = time.monotonic()
        gap = now - self._looked
        if gap < _TICK_S / 2:
            # Frames come far more often, and there may be hundreds of replicas.
            return
        self._looked = now
        if gap > _ASLEEP_S:
            self._heard = [now] * len(self._heard)
        for replica, heard in enumerate(self._heard):
            if now - heard > DEAD_S and self._gone is None and self._description is not None:
                self._lose_all(f"{self._seats[replica]}: not heard of for {DEAD_S:.0f} s")

    def _lost(self, replica: int) -> None:
        """The connection to a replica ended."""
        if self._closed or self._gone is not None:
            return
        # Pass on what came first: Ray may take seconds to say why.
        self._came.tell()
        # Requests submitted meanwhile wait with the rest, and fail for the same reason.
        self._lose(replica, self._cluster.cause_of_death(self._placed[replica], _RAY_S))

    def _lose(self, replica: int, why: str) -> None:
        """Fail the engine, as a replica can answer no more; what came before is passed on."""
        self._came.tell()
        self._lose_all(f"{self._seats[replica]}: {why}")

    def _given_up(self, placed: Placed, why: str) -> None:
        """Called when Ray loses a replica, or its node."""
        # If its process ended, the thread that reads its connection says so.
        if self._gone is None and not self._closed:
            self._lose_all(f"{placed.seat}: {why}")

    def _lose_all(self, why: str) -> None:
        """Fail all waiting requests: no answer will come."""
        with self._lock:
            self._gone = self._gone or why
            lost = [*self._waiting.values(), *self._held]
            scores = list(self._to_score.values())
            self._waiting.clear()
            self._held.clear()
            self._to_score.clear()
            self._router.clear()
        for link in self._links:
            # Nobody keeps waiting for one of them to take a message.
            link.end()
        error = EngineDiedError(self._gone)
        for one in lost:
            one.job.listener.failed(one.request.tag, error)
        for tell in scores:
            tell(error)
        with self._answers:
            self._answers.notify_all()

    def abort(self) -> None:
        with self._lock:
            self._waiting.clear()
            self._held.clear()
            self._to_score.clear()
            self._router.clear()
        for link in self._links:
            with contextlib.suppress(OSError):
                link.send(Drop())

    def abort_of(self, replica: int) -> None:
        """Drop the requests that this replica was given; the others' stay."""
        with self._lock:
            now = time.monotonic()
            given = [number for number, one in self._waiting.items() if one.replica == replica]
            for number in given:
                self._end(number, now)
        with contextlib.suppress(OSError):
            self._links[replica].send(Drop())

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        # First the engines in their processes, then the processes: Ray ends those that are left.
        self._cluster.close()
        for link in self._links:
            link.end()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)
        for link in self._links:
            link.close()

    # Traces and figures

    def _ask(self, replica: int) -> Beat | None:
        """A fresh beat of a replica; None if it does not come."""
        sent = time.monotonic()
        with contextlib.suppress(OSError):
            self._links[replica].send(Ask(sent))
        return self._await(self._beats, (replica, sent))

    def _await(self, box: dict[_Key, _Told], key: _Key) -> _Told | None:
        """The box's entry under this key; None if the engine is lost or the wait is too long."""
        deadline = time.monotonic() + _ANSWER_S
        with self._answers:
            while key not in box and self.alive:
                left = deadline - time.monotonic()
                if left <= 0 or not self._answers.wait(left):
                    break
            return box.pop(key, None)

    @property
    def steps_made(self) -> int:
        """The steps of all replicas since they were loaded, as last reported."""
        return sum(self._steps_made)

    def steps_made_by(self, replica: int) -> int:
        """The steps of one replica."""
        return self._steps_made[replica]

    @property
    def cached_prompt_tokens(self) -> int:
        """Tokens of submitted prompts that came from a prefix cache, since loading."""
        for replica in range(len(self._seats)):
            self._ask(replica)
        return sum(self._cached)

    def take_trace(self) -> EngineTrace:
        """What all replicas did since the last call, in times of this process's clock."""
        answered, self._answered = self._answered, Answered()
        return self.trace_of(range(len(self._seats)), answered)

    def trace_of(self, replicas: Sequence[int], answered: Answered) -> EngineTrace:
        """What these replicas did since each was last asked."""
        asked = {replica: next(self._numbers) for replica in replicas}
        for replica, number in asked.items():
            with contextlib.suppress(OSError):
                self._links[replica].send(TellTrace(number))
        told = {r: self._await(self._traces, (r, number)) for r, number in asked.items()}
        known = {r: (trace, self._offsets.of(r)) for r, trace in told.items() if trace is not None}
        return merged(known, answered)

    def _cpu_s(self) -> float:
        """The CPU time of the thread that receives answers, in s."""
        with contextlib.suppress(OSError):
            clock = time.pthread_getcpuclockid(self._thread.ident or 0)
            return time.clock_gettime(clock)
        return 0.0

    def _begin_accounts(self) -> None:
        self._accounts = [ReplicaAccount() for _ in self._seats]
        self._counted = self._tokens = 0
        self._begun = None
        self._last = 0.0

    def take_replicas_run(self) -> ReplicasRun:
        """See `ReplicatedEngine`."""
        with self._lock:
            accounts, begun, last = self._accounts, self._begun or 0.0, self._last
            cpu_s = self._cpu_s()
            busy_s, self._cpu_before = cpu_s - self._cpu_before, cpu_s
            self._begin_accounts()
        elapsed_s = max(0.0, last - begun)
        return run_of(self._config.routing, begun, elapsed_s, busy_s, accounts, self._seats)


class OneReplica:
    """One of the replicas as an engine: it alone gets the requests submitted here."""

    def __init__(self, engine: ReplicaEngine, number: int) -> None:
        self._engine = engine
        self._number = number

    @property
    def description(self) -> EngineDescription:
        return self._engine.description

    @property
    def alive(self) -> bool:
        return self._engine.alive

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        self._engine.submit_to(self._number, requests, generation, listener, stream=stream)

    def take_prompts(self, prompts: Sequence[Sequence[int]]) -> None:
        """See `TakesPrompts`."""
        self._engine.take_prompts(prompts)

    @property
    def steps_made(self) -> int:
        """See `TracingEngine`."""
        return self._engine.steps_made_by(self._number)

    def take_trace(self) -> EngineTrace:
        """Its steps; only the engine of all replicas reports which requests it answered."""
        return self._engine.trace_of([self._number], Answered())

    def abort(self) -> None:
        self._engine.abort_of(self._number)

    def close(self) -> None:
        """Does nothing: the replica is closed with all the others."""


class ScoringReplicaEngine(ReplicaEngine):
    """Replicas whose engines can score."""

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, ScoreOf]]:
        """Yield each request's tag and score as they come; see `ScoringEngine`."""
        ready: deque[tuple[int, int, Scored | EngineError]] = deque()
        came = threading.Condition()
        outstanding = [0] * len(self._seats)
        target, in_a_row = 0, 0

        def hear(tag: int, replica: int) -> Callable[[Scored | EngineError], None]:
            def tell(found: Scored | EngineError) -> None:
                with came:
                    ready.append((tag, replica, found))
                    came.notify()

            return tell

        def next_score() -> tuple[int, ScoreOf]:
            with came:
                while not ready:
                    came.wait()
                tag, replica, found = ready.popleft()
            outstanding[replica] -= 1
            if isinstance(found, EngineError):
                raise found
            likelihoods = tuple(Likelihood(*one) for one in found.likelihoods)
            return tag, ScoreOf(likelihoods, found.latency_ms, found.tokens, found.cached_tokens)

        for request in requests:
            while ready or min(outstanding) >= _SCORED_AT_ONCE:
                yield next_score()
            if in_a_row >= _SCORED_IN_A_ROW or outstanding[target] >= _SCORED_AT_ONCE:
                target, in_a_row = outstanding.index(min(outstanding)), 0
            in_a_row += 1
            outstanding[target] += 1
            self._ask_score(target, request, hear(request.tag, target))
        for link in self._links:
            with contextlib.suppress(OSError):
                link.send(EndScores())
        while any(outstanding):
            yield next_score()

    def _ask_score(
        self, replica: int, request: ScoreRequest, tell: Callable[[Scored | EngineError], None]
    ) -> None:
        number = next(self._numbers)
        with self._lock:
            gone = self._gone
            if gone is None:
                self._to_score[number] = tell
        if gone is not None:
            tell(EngineDiedError(gone))
            return
        prompt = array("i", request.prompt_token_ids).tobytes()
        continuations = [list(one) for one in request.continuations]
        with contextlib.suppress(OSError):
            self._links[replica].send(Score(number, prompt, continuations))


def _ranges(cores: Sequence[int]) -> str:
    """Sorted cores in Linux's notation, such as 0-3,8; "any" if there are none."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs) or "any"


class _Offsets:
    """The offset of each replica's clock from this process's, in s."""

    def __init__(self, same_clock: Sequence[bool]) -> None:
        self._same = same_clock
        self._best: list[tuple[float, float]] = [(float("inf"), 0.0)] * len(same_clock)

    def learn(self, replica: int, ask: Callable[[], object]) -> None:
        """Ask another machine several times: the quickest answer is the most exact."""
        if not self._same[replica]:
            for _ in range(8):
                ask()

    def heard(self, replica: int, sent: float, theirs: float, now: float) -> None:
        """Take a requested beat."""
        took = now - sent
        if not self._same[replica] and took < self._best[replica][0]:
            self._best[replica] = took, (sent + now) / 2 - theirs

    def of(self, replica: int) -> float:
        """The seconds to add to a replica's times."""
        return self._best[replica][1]
