"""What the driver and the replicas tell each other, in frames (`engines/frames.py`) on a socket.

Numbers are the driver's own for a request. Times are s of the sender's time.monotonic; that of
another machine is another clock.
"""

from __future__ import annotations

import msgspec

from mlperf_suite.benchmarks.definition import Generation

NOT_SENT = -1
"""In place of a prompt's index: the prompt goes with the request."""


class Submit(msgspec.Struct, array_like=True, tag=True):
    """Requests: of each its number and its prompt's index in the prompts that were sent before as
    number `prompts`; where that is `NOT_SENT`, the next of `own`, its tokens as int32. `stops`: as
    `Request.stop`, empty where none has one."""

    numbers: list[int]
    indices: list[int]
    prompts: int
    own: list[bytes]
    stops: list[str]
    generation: Generation
    stream: bool


class Score(msgspec.Struct, array_like=True, tag=True):
    """A prompt, as int32, and its continuations, whose likelihood is wanted."""

    number: int
    prompt: bytes
    continuations: list[list[int]]


class EndScores(msgspec.Struct, array_like=True, tag=True):
    """No `Score` follows: give those that are left."""


class Drop(msgspec.Struct, array_like=True, tag=True):
    """Forget every request that is not answered."""


class Ask(msgspec.Struct, array_like=True, tag=True):
    """Send a beat. `sent`: when this was sent, by the driver's clock."""

    sent: float


class TellTrace(msgspec.Struct, array_like=True, tag=True):
    """Send the trace since the last one, with this number."""

    number: int


class First(msgspec.Struct, array_like=True, tag=True):
    """The first token or tokens of an answer."""

    number: int
    token_ids: list[int]


class Done(msgspec.Struct, array_like=True, tag=True):
    """An answer, its tokens as int32."""

    number: int
    tokens: bytes


class Scored(msgspec.Struct, array_like=True, tag=True):
    """The answer to a `Score`: of each continuation its log-probability and whether it is greedy;
    the rest as `engines.scoring.Score`."""

    number: int
    likelihoods: list[tuple[float, bool]]
    latency_ms: float
    tokens: int
    cached_tokens: int


class Failed(msgspec.Struct, array_like=True, tag=True):
    """A request without an answer. `died`: the engine is gone, and no other will be answered."""

    number: int
    why: str
    died: bool


class Beat(msgspec.Struct, array_like=True, tag=True):
    """Once a second, and in answer to `Ask`, whose `sent` it then has: what time it is here, and
    the engine's steps and cached prompt tokens since it was loaded."""

    sent: float | None
    now: float
    steps_made: int
    cached_tokens: int


class Hangs(msgspec.Struct, array_like=True, tag=True):
    """The engine hangs, and was ended."""

    why: str


class Trace(msgspec.Struct, array_like=True, tag=True):
    """The engine's trace. `steps`: the columns of `Steps`, as bytes, by name. `received`: when each
    of `numbers` came (both 8 bytes each). `parts`, `tags`, `times`, `preempted`: those of `Marks`,
    the tags being numbers; no parts where the engine tells of no request."""

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
