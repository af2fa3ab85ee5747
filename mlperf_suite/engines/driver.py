"""Hands requests to workers in other processes and tells listeners the replies.

A request goes to a place that answers it: a server, or a replica. A worker is what this process
speaks to: a client process, which serves every place, or the replica itself. Requests that no place
has room for are held here. One thread receives all answers. Whatever dies, each request is answered
or failed exactly once.
"""

from __future__ import annotations

import contextlib
import itertools
import selectors
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.framed_socket import FramedSocket
from mlperf_suite.engines.messages import (
    NOT_SENT,
    Answer,
    Drop,
    Failure,
    FirstTokens,
    HttpWorkerHeartbeat,
    ReplicaHeartbeat,
    Reply,
    Sampling,
    Submit,
    from_worker,
)
from mlperf_suite.engines.protocol import Listener, Request, Tokens
from mlperf_suite.engines.routing import Router
from mlperf_suite.errors import EngineDiedError, EngineError

_TICK_S = 0.5
_ASLEEP_S = 4.0
"""Looks further apart mean that this process was stopped: Ctrl-Z, or the machine slept."""
_PIECE = 1 << 20
"""The most bytes read from a socket at once."""
OnReply = Callable[[Reply | EngineError], None]
"""Called once with the reply to a question, on any thread."""


class UnfitError(EngineError):
    """An engine does not take requests of this form, or returns no usable answers."""


@dataclass(frozen=True, slots=True)
class Job:
    """The common properties of one call's requests."""

    listener: Listener
    sampling: Sampling
    submitted: float
    prompt_set: int
    with_stops: bool


@dataclass(slots=True)
class PendingRequest:
    """An unanswered request. `weight`: its work, in answer tokens; `handed`: when it was sent to
    its `place`; `first`: when its first token came, None before that."""

    request: Request
    job: Job
    weight: int
    place: int = -1
    handed: float = 0.0
    first: float | None = None


class Driver(ABC):
    """An engine whose requests are answered elsewhere; subclasses start and know the workers."""

    ROLE = "the driver"
    """Its name in the message of an error of its own."""

    def __init__(
        self,
        framed_sockets: Sequence[FramedSocket],
        router: Router,
        silence_s: float,
        *,
        any_worker: bool,
    ) -> None:
        """`silence_s`: how long a place may give no sign, in s. `any_worker`: whether each worker
        serves every place; otherwise each serves the place of its own number."""
        self._framed_sockets = framed_sockets
        self._router = router
        self._silence_s = silence_s
        self._any_worker = any_worker
        self._lock = threading.RLock()
        self._telling = threading.RLock()
        """Held until answers are counted and reported; taking a run's figures waits for it."""
        self._numbers = itertools.count()
        self._waiting: dict[int, PendingRequest] = {}
        self._held: deque[PendingRequest] = deque()
        self._questions: dict[int, tuple[int, OnReply]] = {}
        """By number: the place that was asked, and the callback for its reply."""
        self._looked = time.monotonic()
        self._signs = [self._looked] * len(router.requests)
        """When each place last gave a sign of life."""
        self._heartbeats: dict[int, float] = {}
        """By worker: when its last heartbeat came."""
        self._firsts: list[FirstTokens] = []
        self._answers: list[Answer] = []
        self._prompt_set = -1
        """The number of the prompts that `Request.sample` refers to; below 0: none were sent."""
        self._prompt_cost = 1.0
        """How many answer tokens a prompt token counts as."""
        self._retries = 0
        self._end_ids: tuple[int, ...] = ()
        self._disturbed = False
        """Whether a request failed or all were dropped."""
        self._gone: str | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._receive, name=self.ROLE, daemon=True)

    # What subclasses know

    @abstractmethod
    def _count(self, pending: PendingRequest, answer: Answer, tokens: int, now: float) -> None:
        """Count an answer of so many tokens; the lock is held."""

    @abstractmethod
    def _take_heartbeat(
        self, worker: int, heartbeat: HttpWorkerHeartbeat | ReplicaHeartbeat
    ) -> None:
        """Take a worker's report."""

    @abstractmethod
    def _line(self, place: int, why: str) -> str:
        """An error's line, which begins with the name of the place."""

    @abstractmethod
    def _cause_of_loss(self, worker: int) -> str:
        """Why the connection to a worker ended, in one line; may take seconds."""

    @abstractmethod
    def _silence(self, place: int) -> str | None:
        """What a place that gave no sign for `silence_s` means for the engine; None: nothing."""

    def _mute_worker(self, before: float) -> str | None:
        """What to say of a worker whose last heartbeat came before this time; None if there is
        none, or if a silent place says the same."""
        return None

    @abstractmethod
    def _end_workers(self) -> None:
        """End what this process started."""

    @abstractmethod
    def _place_turns(self, place: int, now: float, *, busy: bool) -> None:
        """The place got its first request, or its last request ended; the lock is held."""

    @abstractmethod
    def _note_told(self, messages: Sequence[FirstTokens] | Sequence[Answer]) -> None:
        """The listeners just heard of these."""

    def _expected_tokens(self, generation: Generation) -> int:
        """The expected tokens of the next answer."""
        return generation.max_new_tokens

    # Requests

    @property
    def alive(self) -> bool:
        return self._gone is None and not self._closed

    @property
    def lost(self) -> str | None:
        """Why the engine can answer no more, in one line; None while it can."""
        return self._gone

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
        place: int | None = None,
    ) -> None:
        """See `Engine`; if a place is named, to it alone and all at once."""
        stops = any(request.stop for request in requests)
        now = time.monotonic()
        job = Job(listener, self._sampling(generation, stream), now, self._prompt_set, stops)
        answer, cost = self._expected_tokens(generation), self._prompt_cost
        pending = [
            PendingRequest(r, job, round(cost * len(r.prompt_token_ids)) + answer) for r in requests
        ]
        framed_sockets: Iterable[FramedSocket] = ()
        with self._lock:
            # Losing the engine fails what waits by then, and nothing later.
            cause = self._gone
            if cause is None and place is None:
                self._held.extend(pending)
                framed_sockets = self._hand_out(now)
            elif cause is None and place is not None:
                framed_sockets = self._hand_all(pending, place, now)
        if cause is not None:
            for request in requests:
                listener.failed(request.tag, EngineDiedError(cause))
        self._send(framed_sockets)

    def _sampling(self, generation: Generation, stream: bool) -> Sampling:
        return Sampling(
            generation.max_new_tokens,
            generation.min_new_tokens,
            generation.temperature,
            generation.top_p,
            generation.top_k,
            generation.seed,
            stream,
            self._retries,
            self._end_ids,
            ignore_eos=generation.ignore_eos,
        )

    def _hand_out(self, now: float) -> Iterable[FramedSocket]:
        """Hand held requests to places with room; the lock must be held. Returns whom to send."""
        batches: dict[tuple[int, int], Submit] = {}
        while self._held:
            place = self._router.take(self._held[0].weight, len(self._held))
            if place is None:
                break
            self._hand(self._held.popleft(), place, now, batches)
        return self._queued(batches)

    def _hand_all(
        self, requests: Sequence[PendingRequest], place: int, now: float
    ) -> Iterable[FramedSocket]:
        """Hand these requests to a place, whether it has room or not; as `_hand_out`."""
        batches: dict[tuple[int, int], Submit] = {}
        for pending in requests:
            self._router.give(place, pending.weight)
            self._hand(pending, place, now, batches)
        return self._queued(batches)

    def _hand(
        self,
        pending: PendingRequest,
        place: int,
        now: float,
        batches: dict[tuple[int, int], Submit],
    ) -> None:
        number, job, request = next(self._numbers), pending.job, pending.request
        pending.place, pending.handed = place, now
        self._waiting[number] = pending
        if self._router.requests[place] == 1:
            self._place_turns(place, now, busy=True)
        worker = number % len(self._framed_sockets) if self._any_worker else place
        batch = batches.get((worker, id(job)))
        if batch is None:
            batch = Submit([], [], [], [], [], job.prompt_set, job.sampling)
            batches[worker, id(job)] = batch
        batch.numbers.append(number)
        batch.places.append(place)
        if request.sample is None or job.prompt_set < 0:
            batch.samples.append(NOT_SENT)
            batch.prompts.append(self._as_sent(request.prompt_token_ids))
        else:
            batch.samples.append(request.sample)
        if job.with_stops:
            batch.stops.append(request.stop)

    def _as_sent(self, prompt: Sequence[int]) -> bytes:
        """A prompt as a worker is sent it: its tokens as int32."""
        return array("i", prompt).tobytes()

    def _queued(self, batches: dict[tuple[int, int], Submit]) -> Iterable[FramedSocket]:
        # Queued under the lock, so that no link gets these after a later Drop.
        for (worker, _), batch in batches.items():
            self._framed_sockets[worker].put(batch)
        return {self._framed_sockets[worker] for worker, _ in batches}

    def _send(self, framed_sockets: Iterable[FramedSocket], *, wait: bool = True) -> None:
        # Not under the lock: sending to a lost machine or a stopped process blocks, and the thread
        # that notices it needs the lock.
        for framed_socket in framed_sockets:
            # If the worker is gone, the thread that reads its end of file fails its requests.
            with contextlib.suppress(OSError):
                framed_socket.flush(wait=wait)

    def _ask(
        self, worker: int, place: int, question: Callable[[int], object], on_reply: OnReply
    ) -> None:
        """Ask a worker about a place. `question` makes the message from its number."""
        number = next(self._numbers)
        with self._lock:
            cause = "the engine is closed" if self._closed else self._gone
            if cause is None:
                self._questions[number] = place, on_reply
                self._framed_sockets[worker].put(question(number))
        if cause is not None:
            on_reply(EngineDiedError(cause))
        else:
            self._send([self._framed_sockets[worker]])

    # Answers, all on one thread

    def _receive(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                for worker, framed_socket in enumerate(self._framed_sockets):
                    selector.register(framed_socket.socket, selectors.EVENT_READ, worker)
                while not self._closed:
                    for key, _ in selector.select(_TICK_S):
                        if not self._read(key.data):
                            selector.unregister(key.fileobj)
                            self._lose_worker(key.data)
                    self._look()
        # Any exception here would leave every request without an answer.
        except Exception as error:
            self._lose_all(f"{self.ROLE} failed: {type(error).__name__}: {error}")

    def _read(self, worker: int) -> bool:
        """Take what a worker sent; False if its connection ended."""
        framed_socket = self._framed_sockets[worker]
        try:
            data = framed_socket.socket.recv(_PIECE)
        except OSError:
            return False
        for content in framed_socket.frames.feed(data):
            for message in from_worker.decode(content):
                if isinstance(message, FirstTokens):
                    self._firsts.append(message)
                elif isinstance(message, Answer):
                    self._answers.append(message)
                elif isinstance(message, Failure):
                    self._fail(worker, message)
                elif isinstance(message, Reply):
                    with self._lock:
                        _, on_reply = self._questions.pop(message.number, (-1, None))
                    if on_reply is not None:
                        on_reply(message)
                else:
                    now = time.monotonic()
                    if worker not in self._heartbeats:
                        # It has only now started.
                        self._signs = [now] * len(self._signs)
                    self._heartbeats[worker] = now
                    self._take_heartbeat(worker, message)
        return bool(data)

    def _look(self) -> None:
        """Done after each look at all connections, at least every `_TICK_S`."""
        self._tell()
        if self._held:
            with self._lock:
                framed_sockets = self._hand_out(time.monotonic())
            # This thread never waits for a worker, since it has to notice that one is stopped.
            self._send(framed_sockets, wait=False)
        self._look_for_silence()

    def _tell(self) -> None:
        """Pass on the replies, first tokens before answers.

        With many workers, each call of LoadGen, in which Python's lock changes hands, costs more
        than everything else (docs/evidence/driver-limit.md).
        """
        firsts, self._firsts = self._firsts, []
        if firsts:
            self._tell_firsts(firsts)
        answers, self._answers = self._answers, []
        if answers:
            self._tell_answers(answers)

    def _tell_firsts(self, firsts: Sequence[FirstTokens]) -> None:
        now = time.monotonic()
        triples = []
        for first in firsts:
            pending = self._waiting.get(first.number)
            if pending is not None:
                pending.first = now
                triples.append((pending.job.listener, pending.request.tag, first.token_ids))
        for listener, tokens in by_listener(triples):
            listener.first_tokens(tokens)
        self._note_told(firsts)

    def _tell_answers(self, answers: Sequence[Answer]) -> None:
        triples: list[tuple[Listener, int, Sequence[int]]] = []
        with self._telling:
            try:
                # Count before the listener is called, which can end the run.
                with self._lock:
                    now = time.monotonic()
                    for answer in answers:
                        token_ids = array("i", answer.tokens)
                        pending = self._end(answer.number, now)
                        if pending is not None:
                            triples.append((pending.job.listener, pending.request.tag, token_ids))
                            self._count(pending, answer, len(token_ids), now)
            finally:
                # Listeners hear of the answers that ended, whatever went wrong with another one.
                for listener, tokens in by_listener(triples):
                    listener.finished(tokens)
            self._note_told(answers)

    def _end(self, number: int, now: float) -> PendingRequest | None:
        """Remove a request; the lock must be held."""
        pending = self._waiting.pop(number, None)
        if pending is not None:
            self._router.give_back(pending.place, pending.weight)
            if not self._router.requests[pending.place]:
                self._place_turns(pending.place, now, busy=False)
        return pending

    def _fail(self, worker: int, failure: Failure) -> None:
        # Pass on what came before it first.
        self._tell()
        if failure.number is None:
            self._lose_all(self._line(worker, failure.why))
            return
        with self._lock:
            if failure.number in self._waiting:
                place = self._waiting[failure.number].place
            elif failure.number in self._questions:
                place, _ = self._questions[failure.number]
            else:
                return
        why = self._line(place, failure.why)
        if failure.died:
            self._lose_all(why)
            return
        self._disturbed = True
        error = UnfitError(why) if failure.unfit else EngineError(why)
        with self._lock:
            pending = self._end(failure.number, time.monotonic())
            _, on_reply = self._questions.pop(failure.number, (-1, None))
        if pending is not None:
            pending.job.listener.failed(pending.request.tag, error)
        elif on_reply is not None:
            on_reply(error)

    # When something dies

    def _look_for_silence(self) -> None:
        now = time.monotonic()
        gap = now - self._looked
        if gap < _TICK_S / 2:
            # Frames come far more often, and there may be hundreds of places.
            return
        self._looked = now
        # What a worker did not take at once.
        self._send(self._framed_sockets, wait=False)
        if gap > _ASLEEP_S:
            self._signs = [now] * len(self._signs)
            self._heartbeats = dict.fromkeys(self._heartbeats, now)
        why = self._mute_worker(now - self._silence_s)
        if why is not None and (self._waiting or self._questions):
            self._lose_all(why)
        for place, sign in enumerate(self._signs):
            if now - sign > self._silence_s and self._gone is None:
                why = self._silence(place)
                if why is not None:
                    self._lose_all(why)

    def _lose_worker(self, worker: int) -> None:
        """The connection to a worker ended."""
        if not self.alive:
            return
        # Pass on what came first: the cause may be known only after seconds.
        self._tell()
        # Requests submitted meanwhile wait with the rest, and fail for the same reason.
        self._lose_all(self._cause_of_loss(worker))

    def _lose_all(self, why: str) -> None:
        """Fail all waiting requests: no answer will come."""
        with self._lock:
            self._gone = self._gone or why
            requests = [*self._waiting.values(), *self._held]
            questions = list(self._questions.values())
            self._forget_all()
        for framed_socket in self._framed_sockets:
            # Nobody keeps waiting for one of them to take a message.
            framed_socket.end()
        error = EngineDiedError(self._gone)
        for pending in requests:
            pending.job.listener.failed(pending.request.tag, error)
        for _, on_reply in questions:
            on_reply(error)

    def _forget_all(self) -> None:
        """Forget all requests and questions; the lock must be held."""
        self._waiting.clear()
        self._held.clear()
        self._questions.clear()
        self._router.clear()

    def abort(self) -> None:
        # An interrupted run does not wait for a server's counters.
        self._disturbed = True
        with self._lock:
            self._forget_all()
            for framed_socket in self._framed_sockets:
                framed_socket.put(Drop())
        self._send(self._framed_sockets, wait=False)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        # First the engines in their processes, then the processes.
        self._end_workers()
        for framed_socket in self._framed_sockets:
            framed_socket.end()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)
        for framed_socket in self._framed_sockets:
            framed_socket.close()

    def _thread_cpu_s(self) -> float | None:
        """The CPU time of the thread that receives answers, in s; None if it has ended."""
        if self._thread.is_alive():
            with contextlib.suppress(OSError):
                clock = time.pthread_getcpuclockid(self._thread.ident or 0)
                return time.clock_gettime(clock)
        return None


def by_listener(
    triples: Iterable[tuple[Listener, int, Sequence[int]]],
) -> list[tuple[Listener, list[Tokens]]]:
    """Each listener with its (tag, ids) pairs in order, from (listener, tag, ids) triples."""
    groups: dict[int, tuple[Listener, list[Tokens]]] = {}
    for listener, tag, token_ids in triples:
        group = groups.get(id(listener))
        if group is None:
            group = groups[id(listener)] = listener, []
        group[1].append((tag, token_ids))
    return list(groups.values())
