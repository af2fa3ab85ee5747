"""The replicas as one engine: a driver whose workers are the replicas themselves.

If one replica is lost, the engine is lost: the work of the others alone does not measure the whole
system.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from statistics import harmonic_mean, mean
from typing import Any

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.energy import Meters
from mlperf_suite.engines.driver import Driver, PendingRequest
from mlperf_suite.engines.messages import (
    Answer,
    AskHeartbeat,
    AskScore,
    AskTrace,
    Drop,
    EndScores,
    FirstTokens,
    HeartbeatReply,
    HttpWorkerHeartbeat,
    ReplicaHeartbeat,
    Reply,
    ScoreReply,
    TraceReply,
)
from mlperf_suite.engines.protocol import (
    REPLICAS,
    Engine,
    EngineDescription,
    EngineTrace,
    Listener,
    RequestList,
    Score,
    ScoreRequest,
)
from mlperf_suite.engines.routing import UNKNOWN_BATCH, Router
from mlperf_suite.errors import EngineError
from mlperf_suite.features.replicas.actor import LoadedReplica
from mlperf_suite.features.replicas.cluster import PlacedReplica
from mlperf_suite.features.replicas.figures import ReplicasRun
from mlperf_suite.features.replicas.loading import (
    PreparedReplicas,
    PromptSets,
    ReplicasConfig,
    check_descriptions,
    load_engines,
    prepare,
)
from mlperf_suite.features.replicas.nodes import FindOwn, meters_of, own_meters
from mlperf_suite.features.replicas.placement import ReplicaSlot, devices
from mlperf_suite.features.replicas.totals import ReplicaAccount, run_of
from mlperf_suite.features.replicas.traces import AnswerTimes, ClockOffsets, merged
from mlperf_suite.session.timing.estimate import EngineSpeed
from mlperf_suite.session.timing.probe import USUAL_BATCH, probe

DEAD_S = 20.0
"""A replica that sent nothing for this long, in s, is lost: it sends a heartbeat each second."""
_REPLY_S = 30.0
"""How long a live replica may take to answer a question, in s."""
_RAY_S = 15.0
"""How long Ray may take to say why a replica is lost, in s; that it is lost shows at once in its
connection. Ray takes as long to give up a node that leaves without notice."""
_METERS_S = 30.0
"""How long a replica may take to find or read its energy meters, in s; a driver that does not
answer is given up before."""
_SUFFICIENT_ANSWERS = 32
"""The number of answers from which their mean predicts the length of the next."""
_PROMPT_COST = 0.25
"""How many answer tokens a prompt token counts as until a probe measures it: prompt tokens are
computed all at once."""
_ALIKE = 0.9
"""Replicas count as alike if the slowest has more than this share of the fastest one's speed."""
_SCORED_AT_ONCE = 256
"""More than an engine holds at once, so that it never waits for the next."""
_SCORED_IN_A_ROW = 16
"""Consecutive requests to score for the same replica: neighbours share examples, so its cache."""


class ReplicaEngine(Driver):
    """Replicas on the nodes of a Ray cluster. Create it with `ReplicaEngine.load`."""

    ROLE = "the driver of the replicas"

    def __init__(self, prepared: PreparedReplicas, config: ReplicasConfig) -> None:
        """No request may be submitted before `ready`."""
        count = len(prepared.placed)
        super().__init__(
            prepared.framed_sockets, Router([1] * count, config.routing), DEAD_S, any_worker=False
        )
        self._cluster = prepared.cluster
        self._placed = prepared.placed
        self._machines = list(prepared.layout.machines)
        self._config = config
        self._seats: list[ReplicaSlot] = [placed.slot for placed in prepared.placed]
        self._description: EngineDescription | None = None
        self._prompt_sets = PromptSets(self._cluster, self._placed)
        self._prompt_cost = _PROMPT_COST
        self._steps_made = [0] * count
        self._cached_tokens = [0] * count
        self._offsets = ClockOffsets(prepared.layout.same_clock)
        self._answer_times = AnswerTimes()
        self._begun: float | None = None
        """When the run's first request was handed over."""
        self._begin_accounts()
        self._thread.start()
        self._cluster.watch(self._lose_placed)
        self._cpu_before_s = self._thread_cpu_s() or 0.0

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

        def look() -> None:
            if engine.lost is not None:
                raise EngineError(engine.lost)

        try:
            engine.ready(load_engines(prepared, config, look))
        except BaseException:
            engine.close()
            raise
        return engine

    def ready(self, loaded: Sequence[LoadedReplica]) -> None:
        """Accept requests, as all replicas are loaded. Raises EngineError if one differs from the
        others, or from the settings that the first must have."""
        descriptions = [replica.description for replica in loaded]
        description = check_descriptions(self._seats, descriptions, loaded[0].reference)
        batches = [description.at_once or UNKNOWN_BATCH for description in descriptions]
        self._router = Router(batches, self._config.routing)
        alike = {k: v for k, v in description.settings.items() if k != "omp_threads_bind"}
        self._description = replace(
            description,
            settings={
                **alike,
                # Each replica sees only its own GPUs.
                "idle_gpus": sum(int(str(machine["idle_gpus"])) for machine in self._machines),
                "gpus_used": sum(int(str(machine["gpus"])) for machine in self._machines),
                REPLICAS: len(self._seats),
                "replica_nodes": dict(Counter(str(slot.node) for slot in self._seats)),
                "replica_devices": devices(self._seats[0]),
                "machines": self._machines,
                "replica_gpus": [gpu for replica in loaded for gpu in replica.gpus],
                "replica_cores": [_ranges(replica.cores) for replica in loaded],
                "routing": self._config.routing,
            },
        )
        for number in range(len(self._seats)):
            self._offset(number)

    # What it is

    @property
    def description(self) -> EngineDescription:
        if self._description is None:
            raise EngineError("the replicas are not loaded")
        return self._description

    @property
    def replicas(self) -> list[OneReplica]:
        """Each replica as an engine; closing one does nothing."""
        return [OneReplica(self, number) for number in range(len(self._seats))]

    def weigh(self, speeds: Sequence[float], prompt_cost: float) -> bool:
        """Route by these speeds from now on: one per replica, in any unit above 0.

        `prompt_cost`: how many times as long a prompt token takes as an answer token. Returns
        False, and keeps the current speeds, if the replicas are alike.
        """
        self._prompt_cost = prompt_cost
        if self.alike:
            return False
        with self._lock:
            self._router.weigh(speeds)
        return True

    @property
    def alike(self) -> bool:
        """Whether all have the same devices, so that differences between them are noise."""
        return len({devices(slot) for slot in self._seats}) == 1

    def probe_speed(
        self,
        prompts: Sequence[Sequence[int]],
        generation: Generation,
        silence_s: float,
        say: Callable[[str], None],
    ) -> EngineSpeed:
        """See `ProbedEngine`. From now on, requests are routed by the speed of each."""
        speed, rates, cost = _probe_replicas(self.replicas, prompts, generation, silence_s)
        weighed = self.weigh(rates, cost)
        if len(set(rates)) > 1:
            shares = ", ".join(f"{rate / max(rates):.2f}" for rate in rates)
            use = "requests are routed by it" if weighed else "their devices are the same"
            say(f"speed of each replica, of the fastest: {shares} ({use})")
        return speed

    def take_prompts(self, prompts: Sequence[Sequence[int]]) -> None:
        """See `TakesPrompts`: each node is sent only what it lacks."""
        self._prompt_set = self._prompt_sets.take(prompts)

    def meters(self, find: FindOwn = own_meters) -> Meters:
        """See `MeteredEngine`. `find`: finds a replica's own meters, in its process."""
        metered = self._ask_actors(
            "open_meters", {slot.number: (find, slot.gpus) for slot in self._seats}
        )
        return meters_of(self._seats, metered, self._ask_actors, self._offset)

    def _ask_actors(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """Call a method of these replicas' actors, each with its arguments. Raises EngineError."""
        if self.lost is not None:
            raise EngineError(self.lost)
        calls = [
            getattr(self._placed[replica].actor, method).remote(*values)
            for replica, values in arguments.items()
        ]
        names = [str(self._seats[replica]) for replica in arguments]
        return self._cluster.wait(calls, names, _METERS_S)

    # What the driver asks

    def _expected_tokens(self, generation: Generation) -> int:
        if self._answer_count < _SUFFICIENT_ANSWERS:
            return generation.max_new_tokens
        return min(generation.max_new_tokens, self._answer_tokens // self._answer_count)

    def _read(self, worker: int) -> bool:
        self._signs[worker] = time.monotonic()
        return super()._read(worker)

    def _take_heartbeat(
        self, worker: int, heartbeat: HttpWorkerHeartbeat | ReplicaHeartbeat
    ) -> None:
        assert isinstance(heartbeat, ReplicaHeartbeat)
        self._steps_made[worker] = heartbeat.steps_made
        self._cached_tokens[worker] = heartbeat.cached_tokens

    def _note_told(self, messages: Sequence[FirstTokens] | Sequence[Answer]) -> None:
        """Nothing is measured after the answers' arrival."""

    def _count(self, pending: PendingRequest, answer: Answer, tokens: int, now: float) -> None:
        self._answer_times.add(
            answer.number, pending.request.tag, pending.handed, pending.first, now
        )
        account = self._accounts[pending.place]
        account.add(now, pending.job.submitted, pending.first, tokens)
        self._answer_count += 1
        self._answer_tokens += tokens
        self._last = now

    def _place_turns(self, place: int, now: float, *, busy: bool) -> None:
        if busy and self._begun is None:
            self._begun = now
        self._accounts[place].turn(now, busy=busy)

    def _line(self, place: int, why: str) -> str:
        return f"{self._seats[place]}: {why}"

    def _cause_of_loss(self, worker: int) -> str:
        return self._line(worker, self._cluster.cause_of_death(self._placed[worker], _RAY_S))

    def _silence(self, place: int) -> str | None:
        if self._description is None:
            return None
        return self._line(place, f"sent nothing for {DEAD_S:.0f} s")

    def _lose_placed(self, placed: PlacedReplica, why: str) -> None:
        """Called when Ray loses a replica, or its node."""
        # If its process ended, the thread that reads its connection says so.
        if self.alive:
            self._lose_all(self._line(placed.slot.number, why))

    def _end_workers(self) -> None:
        # Ray ends the processes that are left.
        self._cluster.close()

    def abort_of(self, replica: int) -> None:
        """Drop the requests that this replica was given; the others' stay."""
        with self._lock:
            now = time.monotonic()
            numbers = [n for n, pending in self._waiting.items() if pending.place == replica]
            for number in numbers:
                self._end(number, now)
            self._framed_sockets[replica].put(Drop())
        self._send([self._framed_sockets[replica]])

    # Traces and figures

    def _ask_beat(self, replica: int) -> None:
        """Wait for a fresh heartbeat of a replica, unless it does not come."""
        asked_s, reply_came = time.monotonic(), threading.Event()

        def take(reply: Reply | EngineError) -> None:
            if isinstance(reply, HeartbeatReply):
                self._offsets.learn(replica, asked_s, reply.heartbeat.now, time.monotonic())
                self._take_heartbeat(replica, reply.heartbeat)
            reply_came.set()

        self._ask(replica, replica, AskHeartbeat, take)
        reply_came.wait(_REPLY_S)

    def _offset(self, replica: int) -> float:
        """The seconds to add to a replica's times to get this process's, as of now."""
        for _ in range(self._offsets.questions(replica)):
            self._ask_beat(replica)
        return self._offsets.of(replica)

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
            self._ask_beat(replica)
        return sum(self._cached_tokens)

    def take_trace(self) -> EngineTrace:
        """What all replicas did since the last call, in times of this process's clock."""
        times, self._answer_times = self._answer_times, AnswerTimes()
        return self.trace_of(range(len(self._seats)), times)

    def trace_of(self, replicas: Sequence[int], times: AnswerTimes) -> EngineTrace:
        """What these replicas did since each was last asked."""
        replies: dict[int, queue.SimpleQueue[Reply | EngineError]] = {}
        for replica in replicas:
            replies[replica] = queue.SimpleQueue()
            self._ask(replica, replica, AskTrace, replies[replica].put)
        traces = {}
        for replica in replicas:
            with contextlib.suppress(queue.Empty):
                reply = replies[replica].get(timeout=_REPLY_S)
                if isinstance(reply, TraceReply):
                    traces[replica] = reply, self._offsets.of(replica)
        return merged(traces, times)

    def _begin_accounts(self) -> None:
        self._accounts = [ReplicaAccount() for _ in self._seats]
        self._answer_count = self._answer_tokens = 0
        self._begun = None
        self._last = 0.0

    def take_replicas_run(self) -> ReplicasRun:
        """The figures since the last call."""
        with self._lock:
            accounts, begun, last = self._accounts, self._begun or 0.0, self._last
            cpu_s = self._thread_cpu_s() or 0.0
            busy_s, self._cpu_before_s = max(0.0, cpu_s - self._cpu_before_s), cpu_s
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
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        self._engine.submit(requests, generation, listener, stream=stream, place=self._number)

    def take_prompts(self, prompts: Sequence[Sequence[int]]) -> None:
        """See `TakesPrompts`."""
        self._engine.take_prompts(prompts)

    @property
    def steps_made(self) -> int:
        """See `TracingEngine`."""
        return self._engine.steps_made_by(self._number)

    def take_trace(self) -> EngineTrace:
        """Its steps; only the engine of all replicas reports which requests it answered."""
        return self._engine.trace_of([self._number], AnswerTimes())

    def abort(self) -> None:
        self._engine.abort_of(self._number)

    def close(self) -> None:
        """Does nothing: the replica is closed with all the others."""


class ScoringReplicaEngine(ReplicaEngine):
    """Replicas whose engines can score."""

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        """Yield each request's tag and score as they come; see `ScoringEngine`."""
        replies: queue.SimpleQueue[tuple[int, int, Reply | EngineError]] = queue.SimpleQueue()
        outstanding = [0] * len(self._seats)
        target, in_a_row = 0, 0

        def keep(tag: int, replica: int, reply: Reply | EngineError) -> None:
            replies.put((tag, replica, reply))

        for request in itertools.chain(requests, [None]):
            if request is None:
                for framed_socket in self._framed_sockets:
                    with contextlib.suppress(OSError):
                        framed_socket.send(EndScores())
            while not replies.empty() or (
                any(outstanding) if request is None else min(outstanding) >= _SCORED_AT_ONCE
            ):
                tag, replica, reply = replies.get()
                outstanding[replica] -= 1
                if isinstance(reply, EngineError):
                    raise reply
                assert isinstance(reply, ScoreReply)
                yield tag, reply.score
            if request is not None:
                if in_a_row >= _SCORED_IN_A_ROW or outstanding[target] >= _SCORED_AT_ONCE:
                    target, in_a_row = outstanding.index(min(outstanding)), 0
                in_a_row += 1
                outstanding[target] += 1
                question = partial(_score_question, request)
                self._ask(target, target, question, partial(keep, request.tag, target))


def _score_question(request: ScoreRequest, number: int) -> AskScore:
    return AskScore(replace(request, tag=number))


def _ranges(cores: Sequence[int]) -> str:
    """Sorted cores in Linux's notation, such as 0-3,8; "any" if there are none."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs) or "any"


def _probe_replicas(
    alone: Sequence[Engine],
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    silence_s: float,
) -> tuple[EngineSpeed, list[float], float]:
    """The speed of all together, the speed of each relative to the others, and how many times as
    long a prompt token takes as an answer token. Raises as `probe` does."""
    with ThreadPoolExecutor(len(alone)) as threads:
        futures = [
            threads.submit(probe, replica, prompts, generation, silence_s=silence_s)
            for replica in alone
        ]
        speeds = [future.result() for future in futures]
    lengths = [len(prompt) for prompt in prompts]
    rates = [1 / max(s.batch_s(lengths, generation.max_new_tokens), 1e-9) for s in speeds]
    if min(rates) > _ALIKE * max(rates):
        # Between engines that are alike, the differences of a short probe are noise.
        rates = [1.0] * len(rates)
    limits = [speed.at_once for speed in speeds]
    numbers = [limit for limit in limits if limit is not None]
    # Work is shared by all, each of which takes as long for it as it would alone.
    together = EngineSpeed(
        harmonic_mean([speed.prefill_s for speed in speeds]) / len(speeds),
        mean(speed.step_s for speed in speeds),
        harmonic_mean([speed.request_s for speed in speeds]) / len(speeds),
        sum(numbers) if len(numbers) == len(limits) else None,
        max(speed.probe_s for speed in speeds),
    )
    answer_s = sum(speed.step_s / USUAL_BATCH + speed.request_s for speed in speeds)
    prompt_s = sum(speed.prefill_s for speed in speeds)
    return together, rates, prompt_s / answer_s if answer_s else 0.0
