"""A replica: an engine in a process of a Ray cluster that answers the driver over a socket.

The engine is of the same class that would run in the driver's own process. Ray calls the methods of
`Replica`; requests and answers go over the socket.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.energy import Recording
from mlperf_suite.engines.framed_socket import FramedSocket
from mlperf_suite.engines.hang_detector import HangDetector
from mlperf_suite.engines.messages import (
    NOT_SENT,
    Answer,
    AskHeartbeat,
    AskScore,
    AskTrace,
    Drop,
    EndScores,
    Failure,
    FirstTokens,
    FromWorker,
    HeartbeatReply,
    ReplicaHeartbeat,
    Sampling,
    ScoreReply,
    Submit,
    ToWorker,
    TraceReply,
    to_worker,
)
from mlperf_suite.engines.protocol import (
    CountsCachedTokens,
    Engine,
    EngineDescription,
    Request,
    ScoreRequest,
    ScoringEngine,
    Steps,
    Tokens,
    TracingEngine,
)
from mlperf_suite.errors import EngineDiedError, EngineError, SuiteError, one_line, os_error_line
from mlperf_suite.features.replicas.handshake import accept, listen
from mlperf_suite.features.replicas.near_cores import cores_near
from mlperf_suite.features.replicas.nodes import FindOwn, Metered, OwnMeters

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BEAT_S = 1.0
_TURN_S = 0.0002
"""As in `loadgen.runner`: how long a Python thread may run while another waits, in s."""
_PIECE = 1 << 20
Make = Callable[[Path], Engine]
"""Makes a replica's engine, given the folder for its output. It is sent to the replica's process
and called there."""


class ReferenceSearch(Protocol):
    """Finds the settings that a replica's engine has in a process of its own on the same node."""

    def result(self) -> Mapping[str, object]:
        """The settings. Raises EngineError."""

    def end(self) -> None:
        """Stop the search, if it still goes on."""


@dataclass(frozen=True, slots=True)
class LoadedReplica:
    """A loaded replica. `gpus`: Ray's ids of its GPUs. `cores`: the cores it is bound to; empty
    means any. `reference`: the settings that its engine must have."""

    description: EngineDescription
    gpus: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    reference: Mapping[str, object] = field(default_factory=dict)


class ReplicaServer:
    """Answers the driver on one connection, once it has an engine.

    `on_end`: called when the connection ended.
    """

    def __init__(
        self, framed_socket: FramedSocket, on_end: Callable[[], None], silence_s: float
    ) -> None:
        self._framed_socket = framed_socket
        self._on_end = on_end
        self._silence_s = silence_s
        self._engine: Engine | None = None
        self._watch: HangDetector | None = None
        self._prompts: dict[int, tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]] = {}
        self._out: list[FromWorker] = []
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._answers = 0
        self._numbers: array[int] = array("Q")
        self._received: array[float] = array("d")
        self._to_score: queue.SimpleQueue[ScoreRequest | None] = queue.SimpleQueue()
        self._scoring: threading.Thread | None = None
        self.has_failed = False
        """Whether the driver was told of a failure, whose words may name the engine's log."""
        for target, name in ((self._send_all, "replica's answers"), (self._hear, "replica's link")):
            threading.Thread(target=target, name=name, daemon=True).start()

    def serve(self, engine: Engine) -> None:
        """Accept requests for this engine from now on."""
        self._watch = HangDetector(engine, self._silence_s)
        self._engine = engine
        # As in `loadgen.runner`: the garbage collector ignores existing objects during runs.
        gc.freeze()

    def take_prompts(
        self, number: int, tokens: npt.NDArray[np.int32], begins: npt.NDArray[np.int64]
    ) -> None:
        """Keep prompts under this number. `tokens`: all their tokens in a row; `begins`: where each
        begins and the last ends."""
        self._prompts[number] = tokens, begins

    # The engine's thread

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        self._put(*[FirstTokens(tag, list(token_ids)) for tag, token_ids in tokens])

    def finished(self, answers: Sequence[Tokens]) -> None:
        for tag, _ in answers:
            self._note_end(tag)
        self._put(*[Answer(tag, array("i", token_ids).tobytes()) for tag, token_ids in answers])

    def failed(self, tag: int, error: EngineError) -> None:
        self._note_end(tag)
        self._fail(tag, str(error), died=isinstance(error, EngineDiedError))

    def _note_end(self, tag: int) -> None:
        self._answers += 1
        self._waiting.discard(tag)

    def _fail(self, tag: int | None, why: str, *, died: bool) -> None:
        self.has_failed = True
        self._put(Failure(tag, why, died))

    def _put(self, *messages: FromWorker) -> None:
        with self._changed:
            self._out.extend(messages)
            self._changed.notify()

    # The sending thread

    def _send_all(self) -> None:
        """Send everything that is ready in one message, and a heartbeat each second."""
        beat_at = time.monotonic()
        while True:
            with self._changed:
                while not self._out and (wait_s := beat_at - time.monotonic()) > 0:
                    self._changed.wait(wait_s)
                ready, self._out = self._out, []
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT_S
                ready.extend((self._heartbeat(), *self._hang()))
            try:
                self._framed_socket.send(ready)
            except OSError:
                # The reading thread notices as well.
                return

    def _heartbeat(self) -> ReplicaHeartbeat:
        engine = self._engine
        steps = engine.steps_made if isinstance(engine, TracingEngine) else 0
        cached = engine.cached_prompt_tokens if isinstance(engine, CountsCachedTokens) else 0
        return ReplicaHeartbeat(time.monotonic(), steps, cached)

    def _hang(self) -> Iterator[Failure]:
        """Yields a failure if the engine hangs."""
        watch = self._watch
        hangs = watch and watch.hangs(self._answers, len(self._waiting), "requests")
        if watch is not None and hangs:
            self._watch, self.has_failed = None, True
            # Ending it takes seconds; the driver need not wait.
            threading.Thread(target=watch.end, daemon=True).start()
            yield Failure(None, hangs, died=True)

    # The reading thread

    def _hear(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._framed_socket.socket.recv(_PIECE):
                for content in self._framed_socket.frames.feed(data):
                    self._take_safely(content)
        self._on_end()

    def _take_safely(self, content: bytes) -> None:
        try:
            self._take(to_worker.decode(content))
        # After any error, what was asked for is never answered.
        except Exception as error:
            why = f"a message of the driver's failed: {type(error).__name__}: {error}"
            self._fail(None, why, died=True)

    def _take(self, message: ToWorker) -> None:
        engine = self._engine
        if isinstance(message, AskHeartbeat):
            self._put(HeartbeatReply(message.number, self._heartbeat()))
        elif engine is None:
            return
        elif isinstance(message, Submit):
            self._submit(engine, message)
        elif isinstance(message, AskTrace):
            self._put(self._trace(engine, message.number))
        elif isinstance(message, AskScore):
            self._score(engine, message)
        elif isinstance(message, Drop):
            engine.abort()
            self._waiting.clear()
        elif isinstance(message, EndScores):
            self._to_score.put(None)
            # Later requests belong to another call and need another thread.
            self._scoring = None

    def _submit(self, engine: Engine, message: Submit) -> None:
        now, sampling = time.monotonic(), message.sampling
        tokens, begins = self._prompts.get(message.prompt_set, (None, None))
        prompts, stops = iter(message.prompts), message.stops
        requests = []
        for row, (number, sample) in enumerate(zip(message.numbers, message.samples, strict=True)):
            prompt: Sequence[int]
            if sample == NOT_SENT:
                prompt = array("i", next(prompts)).tolist()
            else:
                assert tokens is not None
                assert begins is not None
                prompt = tokens[begins[sample] : begins[sample + 1]].tolist()
            requests.append(Request(number, prompt, stops[row] if stops else ""))
        self._numbers.extend(message.numbers)
        self._received.extend(array("d", (now,)) * len(requests))
        self._waiting.update(message.numbers)
        try:
            engine.submit(requests, _generation(sampling), self, stream=sampling.wants_first)
        # If the engine cannot take them, it answers none of them.
        except Exception as error:
            for number in message.numbers:
                self.failed(number, EngineDiedError(f"{type(error).__name__}: {error}"))

    def _trace(self, engine: Engine, number: int) -> TraceReply:
        numbers, received = self._numbers, self._received
        self._numbers, self._received = array("Q"), array("d")
        reply = TraceReply(number, {}, numbers.tobytes(), received.tobytes())
        if isinstance(engine, TracingEngine):
            trace = engine.take_trace()
            names = [column.name for column in fields(Steps)]
            reply.steps = {name: getattr(trace.steps, name).tobytes() for name in names}
            if (timestamps := trace.timestamps) is not None:
                reply.parts, reply.tags = [*timestamps.parts], timestamps.tags.tobytes()
                reply.times = [column.tobytes() for column in timestamps.times_s]
                reply.preempted = timestamps.preempted.tobytes()
        return reply

    def _score(self, engine: Engine, message: AskScore) -> None:
        if self._scoring is None or not self._scoring.is_alive():
            self._to_score = queue.SimpleQueue()
            self._scoring = threading.Thread(
                target=self._score_all, args=(engine, self._to_score), daemon=True
            )
            self._scoring.start()
        self._to_score.put(message.request)

    def _score_all(self, engine: Engine, requests: queue.SimpleQueue[ScoreRequest | None]) -> None:
        assert isinstance(engine, ScoringEngine)
        try:
            for tag, score in engine.score(iter(requests.get, None)):
                self._put(ScoreReply(tag, score))
        # After any error, no other score comes.
        except Exception as error:
            self._fail(None, f"scoring failed: {error}", died=True)


def _generation(sampling: Sampling) -> Generation:
    return Generation(
        max_new_tokens=sampling.max_tokens,
        min_new_tokens=sampling.min_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=sampling.seed,
    )


class Replica:
    """The class of the Ray actor. `silence_s`: see `engines.hang_detector.HangDetector`."""

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._server: ReplicaServer | None = None
        self._listening: socket.socket | None = None
        self._connected = threading.Event()
        self._engine: Engine | None = None
        self._meters: OwnMeters | None = None
        self._own_folder: Path | None = None
        self._did_not_load = False
        self._closing = threading.Lock()
        self._closed = threading.Event()
        self._guard = start_guard()
        sys.setswitchinterval(_TURN_S)

    def open(self, address: str, key: bytes) -> int:
        """Listen for the driver on this address. Returns the port. Raises OSError."""
        self._listening = listen(address)
        port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(key,), name="replica", daemon=True).start()
        return port

    def _accept(self, key: bytes) -> None:
        assert self._listening is not None
        with contextlib.suppress(OSError):
            peer = accept(self._listening, key)
            self._listening.close()
            self._server = ReplicaServer(FramedSocket(peer), self._driver_is_gone, self._silence_s)
        self._connected.set()

    def _driver_is_gone(self) -> None:
        """Close the engine and exit: nobody asks any more."""
        self.close()
        os._exit(0)

    def load(
        self,
        make: Make,
        variables: Mapping[str, str | None],
        cores: Sequence[int],
        log_folder: str | None,
        *,
        near_gpus: bool,
        search: Callable[[], ReferenceSearch] | None = None,
    ) -> LoadedReplica:
        """Load the engine. Raises SuiteError.

        `variables`: environment variables to set; None unsets one. `cores`: the cores to which this
        process and all that it starts are bound; empty means any, or with `near_gpus` those of its
        GPUs' NUMA nodes. `log_folder`: None means a new folder on this node, see `close`. `search`:
        starts the search for the settings that the engine must have, here and while it loads.
        """
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        # Bind to the cores only once the connection's threads exist, to bind them too.
        self._connected.wait()
        # A process on another socket reaches its GPU and its memory through the other socket.
        own_cores = tuple(cores) or (cores_near(_gpus()) if near_gpus else ())
        if own_cores:
            bind_to_cores(own_cores)
            # The system may not allow all of them.
            own_cores = tuple(sorted(os.sched_getaffinity(0)))
        reference: Mapping[str, object] = {}
        try:
            if log_folder is None:
                folder = self._own_folder = Path(tempfile.mkdtemp(prefix="mlperf-replica-"))
            else:
                folder = Path(log_folder)
                folder.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as searching:
                if search:
                    settings = search()
                    searching.callback(settings.end)
                self._engine = make(folder)
                if search:
                    reference = settings.result()
        # Whatever an engine's libraries raise, the user needs the reason in one line.
        except Exception as error:
            self._did_not_load = True
            if isinstance(error, SuiteError):
                raise
            if isinstance(error, OSError):
                raise EngineError(os_error_line(error, log_folder)) from error
            raise EngineError(f"{type(error).__name__}: {one_line(error)}") from error
        if self._server is None:
            raise EngineError("the driver did not connect")
        self._server.serve(self._engine)
        return LoadedReplica(self._engine.description, _gpus(), own_cores, reference)

    def take_prompts(self, number: int, tokens: Any, begins: Any) -> None:
        """Keep prompts; see `ReplicaServer.take_prompts`. Ray maps the arrays from the node's
        copy."""
        if self._server is not None:
            self._server.take_prompts(number, tokens, begins)

    def open_meters(self, find: FindOwn, gpus: int) -> Metered:
        """What this process can meter; `find` finds it."""
        self._meters = OwnMeters(find(gpus))
        return self._meters.metered()

    def start_meters(self, numbers: Sequence[int]) -> None:
        """See `OwnMeters.start`."""
        assert self._meters is not None
        self._meters.start(numbers)

    def stop_meters(self) -> Recording:
        """See `OwnMeters.stop`."""
        assert self._meters is not None
        return self._meters.stop()

    def stay(self) -> None:
        """Return when the replica is closed; the call fails if its process or node is lost."""
        self._closed.wait()

    def close(self) -> None:
        """Stop the engine and every process it started.

        A new folder that `load` made is removed, unless a failure may have named a log in it.
        """
        with self._closing:
            if self._engine is not None:
                self._engine.close()
            if self._own_folder is not None:
                self._remove(self._own_folder)
        self._closed.set()

    def _remove(self, folder: Path) -> None:
        if self._did_not_load or (self._server is not None and self._server.has_failed):
            # A folder without a log has nothing to say.
            with contextlib.suppress(OSError):
                folder.rmdir()
        else:
            shutil.rmtree(folder, ignore_errors=True)


_GUARD = """
read -r line
kill -s TERM -- -$0 || exit
for second in 1 2 3; do sleep 1; kill -s 0 -- -$0 || exit; done
kill -s KILL -- -$0
"""
"""Waits for the end of its standard input, and then ends every process of the group `$0`."""


def start_guard() -> int:
    """Make this process the leader of its own group, and start a program that ends the rest of the
    group when this process ends, however it ends.

    Returns a file descriptor that must stay open: the other side of the program's standard input.
    Children belong to the group, unless they leave it.
    """
    group = os.getpid()
    if os.getpgid(0) != group:
        os.setpgid(0, group)
    read_end, write_end = os.pipe()
    try:
        subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(group)],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(read_end)
    return write_end


def bind_to_cores(cores: Sequence[int]) -> None:
    """Bind every thread of this process, and all that it starts, to these cores."""
    for task in Path("/proc/self/task").iterdir():
        # A thread may have ended in the meantime.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(task.name), cores)


def _gpus() -> tuple[str, ...]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return tuple(filter(None, visible.split(",")))
