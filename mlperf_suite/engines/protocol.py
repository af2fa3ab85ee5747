"""The interface between the suite and an engine, which takes prompts and calls back with tokens.

It is small on purpose: an engine behind HTTP or Ray fits it without a change to the SUT.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import EngineError

if TYPE_CHECKING:
    import psutil

    from mlperf_suite.energy import Meters


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """What a report says about an engine. `stand_in`: it measures only the suite itself."""

    name: str
    version: str
    model: str
    stand_in: bool
    max_model_len: int
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def at_once(self) -> int | None:
        """The most requests that it works on at once; None if no limit is known.

        vLLM's max_num_seqs limits the step of each of its data-parallel engines.
        """
        limit, engines = self.settings.get("max_num_seqs"), self.settings.get(DATA_PARALLEL, 1)
        known = isinstance(limit, int) and limit > 0 and isinstance(engines, int)
        return limit * engines if known else None  # type: ignore[operator]

    @property
    def engines(self) -> int:
        """How many engines it is."""
        count = self.settings.get(REPLICAS, 1)
        return count if isinstance(count, int) else 1


DATA_PARALLEL = "data_parallel_size"
"""The setting that says how many data-parallel engines there are, each of which makes steps of its
own; absent if there is one."""
REPLICAS = "replicas"
"""The setting that says how many engines are measured as one; absent if there is one."""


def parallel_sets(arguments: Mapping[str, object]) -> int:
    """How many sets of tensor-parallel GPUs the engine's arguments need: for pipeline, data and
    context parallelism. One that is not a number counts as one, and vLLM refuses it."""
    ways = ("pipeline", "data", "prefill_context")
    sizes = [str(arguments.get(f"{way}_parallel_size", 1)) for way in ways]
    return math.prod(max(1, int(size)) for size in sizes if size.isdecimal())


SPECULATIVE = "speculative"
"""The setting that says what proposes tokens ahead of the model: None if nothing does; absent if
the engine does not say; else an object with as much as it says of `method`, `steps` (tokens
proposed at a time), `topk`, `head` (a hub id, or `OWN_HEAD`), `quantization` (of the head; "none")
and `acceptance`, which is there only if tokens are not accepted by the model alone. A list: servers
that are not alike, with an empty object for one that does not say."""
MODEL_CHANGES, SERVER_MODEL = "model_changes", "server_model"
"""Two settings that are there only if the engine says them: the arguments with which it makes
another model of the model's files, and what a server loaded if it serves it under another name."""
QUANTIZATION = "quantization"
"""A setting that is there only if the weights are quantized: vLLM's name of the method."""
MEDIA_CHANGES = ("mm_processor_kwargs", "media_io_kwargs")
"""vLLM's arguments with which a picture gets other tokens than the model's files say, such as a
limit of its pixels: MLPerf forbids them (multimodal/qwen3-vl/README.md, Constraints)."""
SERVER_SETTINGS = "server_settings"
"""A setting with those that servers report of themselves, and what the user says of them."""
INCIDENTAL_SETTINGS = frozenset(
    {
        # Facts of their own, since not every server reports them.
        SERVER_SETTINGS,
        *("load_s", "dtype_why", "tensor_parallel_why", "tokens_why", "profiler"),
        *("addresses_why", "gpus_used"),
        # Whether one was sent, which is there for other servers too: API_KEY is a variable.
        "key",
        # --engine-arg identifies it.
        DATA_PARALLEL,
        # An endpoint's client processes run on this side.
        "clients",
        # Ray chooses among nodes and GPUs that are alike, with the cores near them.
        *("replica_nodes", "replica_gpus", "replica_cores"),
    }
)
"""Settings in a description that do not identify the engine."""
CAPACITY_SETTINGS: Mapping[str, Literal["capacity", "surroundings"]] = {
    **dict.fromkeys(("tensor_parallel_size", "max_num_seqs", "max_num_batched_tokens"), "capacity"),
    **dict.fromkeys(("max_model_len", "requests_at_once", "idle_gpus"), "capacity"),
    **dict.fromkeys((REPLICAS, "replica_devices", "machines"), "capacity"),
    **dict.fromkeys(("omp_threads_bind", "endpoints", "addresses"), "surroundings"),
}
"""Settings in a description that the machine determines: what the engine took from the hardware
("capacity"), or where the engine happens to be ("surroundings")."""


REPLAY = "replay of prepared answers"
"""The name of an engine that plays back prepared answers, which measures nothing."""
FRONT_END, QUEUE, PREFILL, DECODE = "front end", "queue", "prefill", "decode"
"""Parts of a request's time in an engine. They end when its scheduler has the request, when the
request is in a batch for the first time, at its first token, and at its last token."""
FIRST_TOKEN, LATER_TOKENS = "until first token", "later tokens"
"""Parts for an engine that reveals only when its tokens came."""
NETWORK = "network and front end"
"""The time of a server's request that the server does not report itself."""


KV_FULL = 0.95
"""A KV cache counts as full from this share on: the rest is less than the next requests need."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of an engine, one column for each figure: a few bytes per step.

    `ended_s`: when each step ended, in s of time.monotonic. `tokens`: the output tokens it made.
    The other columns are empty if the engine does not report them. `prompt_tokens`: tokens of the
    prompts whose prefill finished in the step. `running`, `finished`, `waiting`, `preempted`: the
    requests that ran in it, finished in it, still waited after it, and were preempted in it.
    `drafted`, `accepted`: tokens of speculative decoding, and the drafted tokens that the model
    kept. `kv_share`: the share of the KV cache in use after it, 0 to 1. `replica`: the number of
    the replica that made it.
    """

    ended_s: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[int] = field(default_factory=lambda: array("i"))
    prompt_tokens: array[int] = field(default_factory=lambda: array("i"))
    running: array[int] = field(default_factory=lambda: array("i"))
    finished: array[int] = field(default_factory=lambda: array("i"))
    waiting: array[int] = field(default_factory=lambda: array("i"))
    kv_share: array[float] = field(default_factory=lambda: array("f"))
    preempted: array[int] = field(default_factory=lambda: array("i"))
    drafted: array[int] = field(default_factory=lambda: array("i"))
    accepted: array[int] = field(default_factory=lambda: array("i"))
    replica: array[int] = field(default_factory=lambda: array("i"))


class RequestTimestamps:
    """When each part of a request's time ended, as reported by the engine: 8 bytes per time.

    `parts`: the names of the parts, in order; the first begins when the engine receives the
    request. `tags`: the requests' `Request.tag`. `times_s`: one column per part, in s of
    time.monotonic; nan if unknown. `preempted`: how often each request was preempted.
    """

    __slots__ = ("parts", "preempted", "tags", "times_s")

    def __init__(self, *parts: str) -> None:
        self.parts = parts
        self.tags: array[int] = array("Q")
        self.times_s: tuple[array[float], ...] = tuple(array("d") for _ in parts)
        self.preempted: array[int] = array("i")

    def keep(self, tag: int, preempted: int, *times_s: float) -> None:
        """Add an answered request, with one time per part."""
        self.tags.append(tag)
        self.preempted.append(preempted)
        for column, time_s in zip(self.times_s, times_s, strict=True):
            column.append(time_s)


@dataclass(frozen=True, slots=True)
class EngineTrace:
    """What an engine reports about its work. `timestamps`: None if it reports nothing per
    request."""

    steps: Steps
    timestamps: RequestTimestamps | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt. `tag` is the caller's own number, passed back in every call of the listener.

    `stop`: the answer ends after this text, which it includes; "" means no stop. `sample`: the
    prompt's index in the latest list passed to `TakesPrompts`; None if it is not from that list.
    """

    tag: int
    prompt_token_ids: Sequence[int]
    stop: str = ""
    sample: int | None = None


RequestList = Sequence[Request]
Tokens = tuple[int, Sequence[int]]
"""A request's tag and token ids of its answer."""


class Listener(Protocol):
    """Receives tokens. Called on the engine's thread: return at once, raise nothing.

    An engine reports in one call everything it has at that moment and does not wait for more: each
    call takes Python's lock from LoadGen's thread and hands it back. The thread goes on for a
    moment after its last call, because LoadGen's log needs it. Each request appears at most once
    in `first_tokens`, only when streaming, and then once in either `finished` or `failed`.
    """

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        """The first token or tokens of each of these requests, as soon as the engine made them."""

    def finished(self, answers: Sequence[Tokens]) -> None:
        """All output tokens of each of these requests, including the first."""

    def failed(self, tag: int, error: EngineError) -> None:
        """The engine refused the prompt or died."""


class Engine(Protocol):
    """A loaded engine, ready for requests."""

    @property
    def description(self) -> EngineDescription:
        """What it is and how it is configured."""

    @property
    def alive(self) -> bool:
        """Whether it can still answer."""

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        """Queue requests and return at once; may be called from any thread.

        `stream`: whether the listener wants the first token as soon as it is made.
        """

    def abort(self) -> None:
        """Drop all unfinished requests; their listeners are not called again."""

    def close(self) -> None:
        """Stop the engine and every process it started. A second call does nothing."""


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A prompt and its possible continuations. `tag` is the caller's own number."""

    tag: int
    prompt_token_ids: Sequence[int]
    continuations: Sequence[Sequence[int]]

    @property
    def tokens(self) -> int:
        """The longest sequence that the engine receives, in tokens."""
        longest = max(map(len, self.continuations))
        return len(self.prompt_token_ids) + (longest if longest > 1 else 0)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A continuation's log-probability (natural), and whether greedy decoding would make it."""

    logprob: float
    greedy: bool


@dataclass(frozen=True, slots=True)
class Score:
    """The engine's answer to one request.

    `latency_ms`: from handing the request to the engine to its last answer, including time in the
    engine's queue. `tokens`: prompt tokens given to the engine, summed over all requests the score
    took; `cached_tokens` of them came from its prefix cache.
    """

    likelihoods: tuple[Likelihood, ...]
    latency_ms: float
    tokens: int
    cached_tokens: int


@runtime_checkable
class ScoringEngine(Protocol):
    """An engine that can score: how likely does it find given continuations of a prompt?"""

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        """Yield each request's tag and score as they come.

        Takes from `requests` only as fast as the engine answers. Raises EngineError if the engine
        refuses a request or dies.
        """


SILENCE_S = 1800.0
"""An engine that has work but gives no sign of progress for this long, in s, counts as hung. A step
of a large model on a CPU can take minutes."""


@runtime_checkable
class TracingEngine(Protocol):
    """An engine that can report more about its work than its answers."""

    @property
    def steps_made(self) -> int:
        """Steps since the engine was loaded; the number grows as long as it works."""

    def take_trace(self) -> EngineTrace:
        """The figures since the last call."""


@runtime_checkable
class ProcessEngine(Protocol):
    """An engine that works in processes that can be watched."""

    @property
    def processes(self) -> Sequence[psutil.Process]:
        """The processes it cannot answer without; empty if they are not known."""

    @property
    def uses_gpu(self) -> bool:
        """Whether the processes may wait for a GPU without using CPU time."""


@runtime_checkable
class CountsCachedTokens(Protocol):
    """An engine that knows how many prompt tokens it did not have to compute."""

    @property
    def cached_prompt_tokens(self) -> int:
        """Tokens of submitted prompts that came from a prefix cache, since loading."""


Profiler = Literal["torch", "cuda"]
"""torch: torch's profiler, whose trace opens in any browser; cuda: the CUDA profiler range, which
Nsight Systems recognizes."""
PROFILERS: tuple[Profiler, ...] = ("torch", "cuda")
_TRACE_NAMES = ("*.pt.trace.json", "*.pt.trace.json.gz")


@runtime_checkable
class ProfilingEngine(Protocol):
    """An engine that was loaded with a profiler."""

    def start_profile(self) -> None:
        """Start profiling. Raises EngineError."""

    def stop_profile(self, folder: Path) -> None:
        """Stop profiling and put the trace files into `folder`; Nsight Systems writes its own. May
        take minutes. Raises EngineError, and OSError if the folder cannot be written."""


def trace_files(folder: Path) -> tuple[Path, ...]:
    """The traces of torch's profiler in a folder."""
    return tuple(sorted({path for name in _TRACE_NAMES for path in folder.glob(name)}))


@runtime_checkable
class RunObserver(Protocol):
    """An engine that wants to know which run its requests belong to."""

    def run_begins(self, name: str, mode: str) -> None:
        """Called before each run: its name for people, and its mode (`load_plan.Mode`)."""


@dataclass(frozen=True, slots=True)
class ClientFigures:
    """The cost of the suite's HTTP client in one run.

    `processes`: the number of client processes. `busy_share`: the CPU time of the busiest one, as a
    share of one core (1.0 is a full core). `out_ms`: the 99th percentile of the time from LoadGen
    issuing a sample until the request's bytes were handed to the operating system; `back_ms`: the
    same for the time from the arrival of an answer's bytes until it was reported to LoadGen; both
    None if nothing was answered. `connections`: the maximum number open at once. `resent`: requests
    that were sent again because the server had closed the kept connection or, in accuracy runs,
    refused them. `waited_for_room`: requests that waited because every server had as many as
    --endpoint-requests allows. `servers_full`: whether that is more than each server processes at
    once, so that no server ran out of requests; None if a server does not report how many it
    processes.
    """

    processes: int
    busy_share: float
    out_ms: float | None = None
    back_ms: float | None = None
    connections: int = 0
    resent: int = 0
    waited_for_room: int = 0
    servers_full: bool | None = None


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server's own metrics during a run; None for a figure that it does not report.

    `readings`: the number of readings, about one per second. `running_mean`, `running_most`,
    `waiting_mean`, `waiting_most`: requests being processed and requests in the queue; `waiting`:
    the share of readings with a request in the queue. `kv_mean`, `kv_most`: the share of the KV
    cache in use; `kv_full`: the share of readings with at least 95% in use. Over the whole run:
    `preemptions`; `cached_tokens`: prompt tokens found in the prefix cache, of `looked_up_tokens`;
    `accepted_tokens`: draft tokens accepted, of `drafted_tokens` (speculative decoding).
    """

    readings: int
    running_mean: float | None = None
    running_most: float | None = None
    waiting_mean: float | None = None
    waiting_most: float | None = None
    waiting: float | None = None
    kv_mean: float | None = None
    kv_most: float | None = None
    kv_full: float | None = None
    preemptions: int | None = None
    cached_tokens: int | None = None
    looked_up_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EndpointFigures:
    """One endpoint in a run, as measured by the client.

    `requests`: answered requests; `tokens`: tokens of their answers. `ttft_ms` and `latency_ms`
    count from handing a request to the client, by percentile (p50, p90, p99); both are empty if
    nothing was answered, `ttft_ms` also if nothing was streamed. `cached_tokens`: prompt tokens
    from the server's cache, None if it does not report them. `ended_s`: the time of the last
    answer, from the start of the run. `turned_away`: how often the server refused a request for
    lack of room and said when to retry; the wait is part of the request's time. `server`: the
    server's own metrics; None if it has none, or if the run ended before they were read.
    """

    url: str
    requests: int = 0
    tokens: int = 0
    ttft_ms: dict[str, float] = field(default_factory=dict)
    latency_ms: dict[str, float] = field(default_factory=dict)
    cached_tokens: int | None = None
    ended_s: float | None = None
    turned_away: int = 0
    server: ServerView | None = None


SHORT = 8
"""The tokens that one step of speculative decoding may add: so short an answer may come at once."""


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """How the streamed answers of a run arrived at the client. An event is the tokens that arrived
    together.

    `first_tokens`, `event_tokens`: the tokens of an answer's first event and of every event (p50,
    p99). `at_once`: of `answers`, those of more than 8 tokens that came in one piece. `tpot_ms`: as
    LoadGen takes it, the time after the first token divided by all other tokens; `later_tpot_ms`:
    divided by the tokens after the first event, without unknown values because answers came in one
    piece (both p50, p99). `repeats`: answers to a sample that was answered before; of those
    `from_memory`: in one piece, the same, in less than a tenth of the time. `repeat_ttft`: the
    median TTFT of repeated samples as a share of new samples' nearby, and the number of pairs; None
    if there are none.
    """

    answers: int
    first_tokens: dict[str, int]
    event_tokens: dict[str, int]
    at_once: int
    tpot_ms: dict[str, float]
    later_tpot_ms: dict[str, float]
    repeats: int = 0
    from_memory: int = 0
    repeat_ttft: tuple[float, int] | None = None


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """What the servers and the suite's client report about one run.

    `departures`: how answers differ from the requests, with counts: cut off by the server's own
    limit, from another model, with miscounted tokens. `stream`: None if no answers were streamed.
    """

    client: ClientFigures
    endpoints: tuple[EndpointFigures, ...]
    departures: tuple[str, ...] = ()
    stream: StreamFigures | None = None

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens from the servers' caches, as far as the servers report them."""
        return sum(endpoint.cached_tokens or 0 for endpoint in self.endpoints)

    @property
    def cached_untold(self) -> bool:
        """Whether an endpoint answered without reporting how many tokens came from a cache."""
        return any(
            endpoint.requests and endpoint.cached_tokens is None for endpoint in self.endpoints
        )


@runtime_checkable
class RemoteEngine(Protocol):
    """An engine that is a server somewhere, reached through a client of this suite."""

    def take_remote_run(self) -> RemoteRun:
        """The figures since the last call."""


@runtime_checkable
class TakesPrompts(Protocol):
    """An engine that takes a run's prompts in advance, so that requests need not carry them."""

    def take_prompts(self, prompts: Sequence[Sequence[int]]) -> None:
        """Take the prompts that `Request.sample` refers to from now on. Raises EngineError."""


@runtime_checkable
class MeteredEngine(Protocol):
    """An engine whose devices may be elsewhere, and which has their energy read there."""

    def meters(self) -> Meters:
        """The meters of its devices. Raises EngineError."""
