"""Messages between the driver and the replicas, in frames (`engines/frames.py`) on a socket.

The driver assigns the numbers of requests. Times are in s of the sender's time.monotonic; another
machine has another clock.
"""

from __future__ import annotations

import msgspec

from mlperf_suite.benchmarks.definition import Generation

NOT_SENT = -1
"""Used as a prompt's index if the prompt is sent with the request."""


class Submit(msgspec.Struct, array_like=True, tag=True):
    """Requests. For each: its number, and its prompt's index in the prompts sent earlier as number
    `prompts`; if the index is `NOT_SENT`, the prompt is the next of `own`, its tokens as int32.
    `stops`: as `Request.stop`; empty if no request has one."""

    numbers: list[int]
    indices: list[int]
    prompts: int
    own: list[bytes]
    stops: list[str]
    generation: Generation
    stream: bool


class Score(msgspec.Struct, array_like=True, tag=True):
    """A prompt, as int32, and continuations to score."""

    number: int
    prompt: bytes
    continuations: list[list[int]]


class EndScores(msgspec.Struct, array_like=True, tag=True):
    """No `Score` follows: send the remaining scores."""


class Drop(msgspec.Struct, array_like=True, tag=True):
    """Drop all unanswered requests."""


class Ask(msgspec.Struct, array_like=True, tag=True):
    """Ask for a beat. `sent`: when this was sent, by the driver's clock."""

    sent: float


class TellTrace(msgspec.Struct, array_like=True, tag=True):
    """Ask for the trace since the last one, under this number."""

    number: int


class First(msgspec.Struct, array_like=True, tag=True):
    """The first token or tokens of an answer."""

    number: int
    token_ids: list[int]


class Done(msgspec.Struct, array_like=True, tag=True):
    """An answer; its tokens as int32."""

    number: int
    tokens: bytes


class Scored(msgspec.Struct, array_like=True, tag=True):
    """The answer to a `Score`: each continuation's log-probability and whether it is greedy; the
    rest as in `engines.scoring.Score`."""

    number: int
    likelihoods: list[tuple[float, bool]]
    latency_ms: float
    tokens: int
    cached_tokens: int


class Failed(msgspec.Struct, array_like=True, tag=True):
    """A request without an answer. `died`: the engine is gone and will answer no other."""

    number: int
    why: str
    died: bool


class Beat(msgspec.Struct, array_like=True, tag=True):
    """Sent once a second, and in answer to `Ask`, whose `sent` it then repeats: the time here, and
    the engine's steps and cached prompt tokens since it was loaded."""

    sent: float | None
    now: float
    steps_made: int
    cached_tokens: int


class Hangs(msgspec.Struct, array_like=True, tag=True):
    """The engine hung and was ended."""

    why: str


class Trace(msgspec.Struct, array_like=True, tag=True):
    """The engine's trace. `steps`: the columns of `Steps` as bytes, by name. `received`: when each
    of `numbers` came (both 8 bytes each). `parts`, `tags`, `times`, `preempted`: as in `Marks`,
    with request numbers as tags; `parts` is empty if the engine reports nothing per request."""

    number: int
    steps: dict[str, bytes]
    numbers: bytes
    received: bytes
    parts: list[str]
    tags: bytes
    times: list[bytes]
    preempted: bytes


ToReplica = Submit | Score | EndScores | Drop | Ask | TellTrace
FromReplica = First | Done | Scored | Failed | Beat | Hangs | Trace

to_replica = msgspec.msgpack.Decoder(ToReplica)
from_replica = msgspec.msgpack.Decoder(list[FromReplica])
