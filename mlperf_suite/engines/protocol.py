"""What an engine is, as far as the suite is concerned: it takes prompts and calls back with tokens.

Small on purpose, so that an engine behind HTTP or Ray fits it without a change to the SUT.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import psutil

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import EngineError


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """What a report says of an engine. `stand_in`: it measures the suite, not a serving stack."""

    name: str
    version: str
    model: str
    stand_in: bool
    max_model_len: int
    settings: dict[str, object] = field(default_factory=dict)


FRONT_END, QUEUE, PREFILL, DECODE = "front end", "queue", "prefill", "decode"
"""Parts of a request's time in an engine: until its scheduler has the request, until it is in a
batch for the first time, until its first token, until its last."""
FIRST_TOKEN, LATER_TOKENS = "until first token", "later tokens"
"""Parts where no more is known of an engine than when its tokens came."""
NETWORK = "network and front end"
"""What is left of a server's time besides what it tells."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of an engine, a column for each figure: a few bytes a step.

    `ended_s`: when each ended, in s of time.monotonic. `tokens`: the output tokens it made.
    The rest is empty where the engine does not tell: `prompt_tokens`, of the prompts that were
    finished in it; the requests that were `running` in it, that were `finished` by it, that were
    left `waiting`, and that were `preempted`; `kv_share`, of the KV cache in use after it, 0 to 1;
    `replica`, by number, which of several engines made it.
    """

    ended_s: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[int] = field(default_factory=lambda: array("i"))
    prompt_tokens: array[int] = field(default_factory=lambda: array("i"))
    running: array[int] = field(default_factory=lambda: array("i"))
    finished: array[int] = field(default_factory=lambda: array("i"))
    waiting: array[int] = field(default_factory=lambda: array("i"))
    kv_share: array[float] = field(default_factory=lambda: array("f"))
    preempted: array[int] = field(default_factory=lambda: array("i"))
    replica: array[int] = field(default_factory=lambda: array("i"))


class Marks:
    """When each part of a request's time ended, as the engine tells it: 8 bytes a mark.

    `parts`: the names of the parts, in order; the first begins when the engine is handed the
    request. `tags`: the requests', as `Request.tag`. `times_s`: a column for each part, in s of
    time.monotonic; nan is not known. `preempted`: how often each was put back.
    """

    __slots__ = ("parts", "preempted", "tags", "times_s")

    def __init__(self, *parts: str) -> None:
        self.parts = parts
        self.tags: array[int] = array("Q")
        self.times_s: tuple[array[float], ...] = tuple(array("d") for _ in parts)
        self.preempted: array[int] = array("i")

    def keep(self, tag: int, preempted: int, *times_s: float) -> None:
        """Add a request that was answered, a time for each part."""
        self.tags.append(tag)
        self.preempted.append(preempted)
        for column, time_s in zip(self.times_s, times_s, strict=True):
            column.append(time_s)


@dataclass(frozen=True, slots=True)
class EngineTrace:
    """What an engine tells of its work. `marks`: None where it tells of no single request."""

    steps: Steps
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt. `tag` is the caller's own number, given back with every call of the listener.

    `stop`: the text after which the answer ends, with it; "" is none. `sample`: the prompt's index
    in what the engine was last given with `TakesPrompts`; None is none of those.
    """

    tag: int
    prompt_token_ids: Sequence[int]
    stop: str = ""
    sample: int | None = None


Tokens = tuple[int, Sequence[int]]
"""A request's tag, and token ids of its answer."""


class Listener(Protocol):
    """Who hears of tokens. Called on the engine's thread: return at once, raise nothing.

    An engine tells in one call what it has to tell at that moment, and does not wait for more: each
    call takes Python's lock from LoadGen's thread, and gives it away. The thread goes on for a
    moment after its last call, which LoadGen's log needs. For each request: once in a
    `first_tokens` at most, and only when streaming, then either in a `finished` or a `failed`,
    exactly once.
    """

    def first_tokens(self, told: Sequence[Tokens]) -> None:
        """Of each of these its first token or tokens, as soon as the engine made them."""

    def finished(self, answers: Sequence[Tokens]) -> None:
        """Of each of these all output tokens, the first included."""

    def failed(self, tag: int, error: EngineError) -> None:
        """The engine refused the prompt or died."""


class Engine(Protocol):
    """An engine that is loaded and ready."""

    @property
    def description(self) -> EngineDescription:
        """What it is and how it is configured."""

    @property
    def alive(self) -> bool:
        """Whether it can still answer."""

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        """Queue requests and return at once; may be called from any thread.

        `stream`: whether the listener wants the first token early.
        """

    def abort(self) -> None:
        """Drop every request that is not finished; their listeners hear nothing more."""

    def close(self) -> None:
        """Stop the engine and every process it started. A second call does nothing."""


SILENCE_S = 1800.0
"""An engine that has work and gives no sign for so long, in s, hangs, whatever else is seen of it.
A step of a large model on a CPU can take minutes."""


@runtime_checkable
class TracingEngine(Protocol):
    """An engine that can tell more of its work than its answers."""

    @property
    def steps_made(self) -> int:
        """The steps since it was loaded: one that works on makes more of them."""

    def take_trace(self) -> EngineTrace:
        """What happened since the last call."""


@runtime_checkable
class ProcessEngine(Protocol):
    """An engine whose work is done in processes that can be watched."""

    @property
    def processes(self) -> Sequence[psutil.Process]:
        """Those that it cannot answer without; none where they are not known."""

    @property
    def uses_gpu(self) -> bool:
        """Whether they may wait for a GPU, using no CPU time meanwhile."""


@runtime_checkable
class CountsCachedTokens(Protocol):
    """An engine that knows how much of its prompts it did not have to compute."""

    @property
    def cached_prompt_tokens(self) -> int:
        """Tokens of submitted prompts that came from a prefix cache, since it was loaded."""


Profiler = Literal["torch", "cuda"]
"""torch: torch's own, whose trace any browser shows; cuda: the mark that Nsight Systems looks
for."""
PROFILERS: tuple[Profiler, ...] = ("torch", "cuda")


@runtime_checkable
class ProfilingEngine(Protocol):
    """An engine that was loaded with a profiler."""

    def start_profile(self) -> None:
        """Profile from now on. Raises EngineError."""

    def stop_profile(self, folder: Path) -> None:
        """Stop, and put the trace's files into `folder`; Nsight Systems writes its own. It may take
        minutes. Raises EngineError, and OSError where the folder cannot be written."""


@runtime_checkable
class RunObserver(Protocol):
    """An engine that wants to know which run its requests belong to."""

    def run_begins(self, name: str, mode: str) -> None:
        """Called before each run: its name for people, and its mode (`load_plan.Mode`)."""


@dataclass(frozen=True, slots=True)
class ClientFigures:
    """What this side of a network cost one run.

    `processes`: the client processes. `busy_share`: the processor time of the busiest of them, as
    a share of one core (1.0 is all of it). `out_ms`: the 99th percentile of the time between
    LoadGen's issue and the moment when the request's bytes were handed to the system, `back_ms`
    that between the arrival of an answer's bytes and LoadGen being told; None where nothing was
    answered. `connections`: the most that were open at once. `resent`: requests that were sent
    again, since the server closed an idle connection or, in an accuracy run, refused them.
    """

    processes: int
    busy_share: float
    out_ms: float | None = None
    back_ms: float | None = None
    connections: int = 0
    resent: int = 0


@dataclass(frozen=True, slots=True)
class EndpointFigures:
    """What one endpoint did in a run, as the client saw it.

    `requests` answered and `tokens` of their answers. `ttft_ms` and `latency_ms`, from handing a
    request to the client, by the percentile's name (p50, p90, p99); empty where nothing was
    answered, and TTFT also where nothing was streamed. `cached_tokens`: prompt tokens from the
    server's cache, None where it does not say. `ended_s`: when its last answer came, in s since the
    run began.
    """

    url: str
    requests: int = 0
    tokens: int = 0
    ttft_ms: dict[str, float] = field(default_factory=dict)
    latency_ms: dict[str, float] = field(default_factory=dict)
    cached_tokens: int | None = None
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """What an engine behind a network tells of one run.

    `departures`: where answers were not made as asked, a few words each with its number: cut by the
    server's own limit, another model, tokens miscounted.
    """

    client: ClientFigures
    endpoints: tuple[EndpointFigures, ...]
    departures: tuple[str, ...] = ()

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that came from the servers' caches, as far as they say."""
        return sum(one.cached_tokens or 0 for one in self.endpoints)

    @property
    def cached_untold(self) -> bool:
        """Whether an endpoint answered and did not say how much of it came from a cache."""
        return any(one.requests and one.cached_tokens is None for one in self.endpoints)


@runtime_checkable
class RemoteEngine(Protocol):
    """An engine that is a server somewhere, reached through a client of this suite."""

    def take_remote_run(self) -> RemoteRun:
        """What happened since the last call."""


@runtime_checkable
class TakesPrompts(Protocol):
    """An engine that wants a run's prompts before it, so that requests need not carry theirs."""

    def take_prompts(self, prompts: Sequence[Sequence[int]]) -> None:
        """Take the prompts that `Request.sample` counts from now on. Raises EngineError."""


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """What one of several engines did in a run. `devices`: what it has of its node, in words.

    `samples` answered and `tokens` of their answers; `tokens_per_sec` over the whole run, `share`
    of all tokens. Times from handing a request to the engine, by the percentile's name (p50, p99);
    TTFT and TPOT are empty where nothing was streamed. `busy_s`: how long it had requests.
    `ended_s`: when its last answer came, in s since the run's first request was handed over; None
    without one.
    """

    number: int
    node: str = ""
    devices: str = ""
    samples: int = 0
    tokens: int = 0
    tokens_per_sec: float = 0.0
    share: float = 0.0
    ttft_ms: dict[str, float] = field(default_factory=dict)
    tpot_ms: dict[str, float] = field(default_factory=dict)
    latency_ms: dict[str, float] = field(default_factory=dict)
    busy_s: float = 0.0
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """The sums of the replicas on a node, as in `ReplicaFigures`."""

    node: str
    replicas: int = 0
    samples: int = 0
    tokens: int = 0
    tokens_per_sec: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class ReplicasRun:
    """What several engines tell of one run. `routing`: how requests were spread over them.

    `elapsed_s`: from the first request to the last answer. `tail_s`: from the first replica's last
    answer to the last one's, None where one had none. `driver_busy_share`: the processor time of
    the thread that hears of answers, as a share of one core.
    """

    routing: str = ""
    elapsed_s: float = 0.0
    tail_s: float | None = None
    driver_busy_share: float = 0.0
    replicas: tuple[ReplicaFigures, ...] = ()
    nodes: tuple[NodeFigures, ...] = ()

    @property
    def slowest(self) -> ReplicaFigures | None:
        """The replica with the longest latencies, None where one had no answers or all are one."""
        known = [one for one in self.replicas if one.latency_ms]
        if len(known) < len(self.replicas) or len(known) < 2:
            return None
        return max(known, key=lambda one: one.latency_ms["p99"])


@runtime_checkable
class ReplicatedEngine(Protocol):
    """An engine that is several, each of which can be asked alone."""

    @property
    def replicas(self) -> Sequence[Engine]:
        """Each of them, as an engine; closing one does nothing."""

    @property
    def alike(self) -> bool:
        """Whether all have the same devices: what they differ by is then noise."""

    def weigh(self, speeds: Sequence[float], prompt_cost: float) -> bool:
        """Route by these speeds from now on, one for each replica, in any unit above 0, where a
        token of a prompt takes so many times as long as one of an answer.

        Returns False, and leaves the speeds, where they are alike.
        """

    def take_replicas_run(self) -> ReplicasRun:
        """What happened since the last call."""
