"""Messages between the driver and its workers, in frames (`engines/framed_socket.py`) on a socket.

A worker is a client process of endpoints or a replica. The driver assigns the numbers of requests
and questions. Times are in s of the sender's time.monotonic, which is one clock for all processes
of a machine; another machine has another clock.
"""

from __future__ import annotations

import msgspec

from mlperf_suite.engines.protocol import Score, ScoreRequest

NOT_SENT = -1
"""Used as a prompt's sample if the prompt is sent with the request."""


# To any worker


class Sampling(msgspec.Struct, array_like=True, frozen=True):
    """How tokens are chosen; as `Generation`. `wants_first`: whether the first token is wanted as
    soon as it is made. `retries`: how often a request that a server refuses for now is sent again.
    `end_ids`: the ids that end the model's answers, if known. `stop`: the answer ends after this
    text, which it includes; "" means no stop. `ignore_eos`: the model's end is no end."""

    max_tokens: int
    min_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int | None
    wants_first: bool
    retries: int = 0
    end_ids: tuple[int, ...] = ()
    stop: str = ""
    ignore_eos: bool = False


class Submit(msgspec.Struct, array_like=True, tag=True):
    """Requests. For each: its number, the index of the place that answers it, and its prompt's
    index in the prompts sent earlier as number `prompt_set`; if that is `NOT_SENT`, the prompt is
    the next of `prompts`, its tokens as int32. `stops`: each request's `Sampling.stop`; empty if
    no request has one."""

    numbers: list[int]
    places: list[int]
    samples: list[int]
    prompts: list[bytes]
    stops: list[str]
    prompt_set: int
    sampling: Sampling


class Drop(msgspec.Struct, array_like=True, tag=True):
    """Drop all unanswered requests."""


# From any worker


class FirstTokens(msgspec.Struct, array_like=True, tag=True):
    """The first token or tokens of an answer."""

    number: int
    token_ids: list[int]


class Answer(msgspec.Struct, array_like=True, tag=True):
    """An answer; its tokens as int32."""

    number: int
    tokens: bytes


class Failure(msgspec.Struct, array_like=True, tag=True):
    """A request or question without an answer. `number` None: the worker can answer nothing more.
    `died`: nor can the place that was to answer this request. `unfit`: the place does not take such
    requests, or returns no usable answers."""

    number: int | None
    why: str
    died: bool
    unfit: bool = False


class Reply(msgspec.Struct, array_like=True, tag=True):
    """The answer to a question; each kind of question has its own."""

    number: int


# Between the driver and a client process


class ServerAddress(msgspec.Struct, array_like=True, frozen=True):
    """A server's address. `address`: the address of its `host` that answered the first request.
    `authority`: the Host header; `path`: where requests for an answer go; `posts`: where a `Post`
    goes."""

    host: str
    address: str
    port: int
    tls: bool
    authority: str
    path: str
    posts: str


class WorkerConfig(msgspec.Struct, array_like=True, tag=True):
    """The first message to a client. `connections`: the most per place. `silence_s`: how long an
    answer that began may pause, and how long a first token may be overdue. `cache_salt`: sent with
    every request; "" sends another salt with each. `model_names`: what
    answers may call the model."""

    places: list[ServerAddress]
    kind: str
    model: str
    key: str | None
    headers: dict[str, str]
    ca_file: str | None
    tokenizer: str | None
    vocabulary: int
    context: int | None
    connections: int
    silence_s: float
    cache_salt: str = ""
    model_names: tuple[str, ...] = ()


class Post(msgspec.Struct, array_like=True, tag=True):
    """Any request with a JSON body, whose answer is passed on unchanged."""

    number: int
    place: int
    body: bytes


class ServerFirstTokens(FirstTokens):
    """First tokens from a server, and when they arrived."""

    arrived: float


class ServerAnswer(Answer):
    """A server's answer. `sent`: when its request's bytes were handed to the operating system;
    `connecting`: how long opening its connection took, in s; `first` and `arrived`: when its first
    and last bytes came. What the server reports about it: the tokens of the prompt and of the
    answer, the cached tokens, why it ended, and its model if that differs; None if it does not
    report it. `server_s`: how long the request was queued and how long its first token took after
    that, as the server reports; empty if it does not. `first_tokens`: the tokens that came with the
    first one.
    """

    sent: float
    connecting: float
    first: float
    arrived: float
    resent: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    finish_reason: str | None
    other_model: str | None
    server_s: tuple[float, ...] = ()
    first_tokens: int = 1


class PostReply(Reply):
    """The answer to a `Post`."""

    body: bytes


class HttpWorkerHeartbeat(msgspec.Struct, array_like=True, tag=True):
    """Sent four times a second. `pieces`: the pieces of answers that came, per place; `tokens`: the
    answer tokens in total; `connections`: the most that were open at once; `turned_away`: how often
    requests were turned away for now, per place; `events`: how often so many tokens of a streamed
    answer came at a time."""

    at: float
    pieces: list[int]
    tokens: int
    connections: int
    turned_away: list[int]
    events: dict[int, int] = {}


# Between the driver and a replica


class AskScore(msgspec.Struct, array_like=True, tag=True):
    """A request to score; its tag is the question's number."""

    request: ScoreRequest


class EndScores(msgspec.Struct, array_like=True, tag=True):
    """No `AskScore` follows: send the remaining scores."""


class AskHeartbeat(msgspec.Struct, array_like=True, tag=True):
    """Ask for a heartbeat now."""

    number: int


class AskTrace(msgspec.Struct, array_like=True, tag=True):
    """Ask for the trace since the last one."""

    number: int


class ReplicaHeartbeat(msgspec.Struct, array_like=True, tag=True):
    """Sent once a second: the time here, and the engine's steps and cached prompt tokens since it
    was loaded."""

    now: float
    steps_made: int
    cached_tokens: int


class HeartbeatReply(Reply):
    """The answer to `AskHeartbeat`."""

    heartbeat: ReplicaHeartbeat


class ScoreReply(Reply):
    """The answer to `AskScore`."""

    score: Score


class TraceReply(Reply):
    """The engine's trace. `steps`: the columns of `Steps` as bytes, by name. `received`: when each
    of `numbers` came (both 8 bytes each). `parts`, `tags`, `times`, `preempted`: as in
    `RequestTimestamps`, with request numbers as tags; `parts` is empty if the engine reports
    nothing per request."""

    steps: dict[str, bytes]
    numbers: bytes
    received: bytes
    parts: list[str] = []
    tags: bytes = b""
    times: list[bytes] = []
    preempted: bytes = b""


ToWorker = Submit | Drop | WorkerConfig | Post | AskScore | EndScores | AskHeartbeat | AskTrace
FromWorker = (
    FirstTokens
    | Answer
    | Failure
    | ServerFirstTokens
    | ServerAnswer
    | PostReply
    | HttpWorkerHeartbeat
    | ReplicaHeartbeat
    | HeartbeatReply
    | ScoreReply
    | TraceReply
)

to_worker = msgspec.msgpack.Decoder(ToWorker)
from_worker = msgspec.msgpack.Decoder(list[FromWorker])
