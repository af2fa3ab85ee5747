"""Messages between the engine and its client processes: frames (`engines/frames.py`) on a socket.

Times are in s of time.monotonic, which is one clock for all processes of a machine.
"""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, array_like=True, frozen=True):
    """A server's address. `address`: the address of its `host` that answered the first request.
    `authority`: the Host header; `prefix`: its path before /v1."""

    host: str
    address: str
    port: int
    tls: bool
    authority: str
    prefix: str


class Hello(msgspec.Struct, array_like=True, tag=True):
    """The first message to a client. `connections`: the most per place. `silence_s`: how long an
    answer that began may pause, and how long a first token may be overdue."""

    places: list[Place]
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


class Sampling(msgspec.Struct, array_like=True, frozen=True):
    """How tokens are chosen; as `Generation`. `wants_first`: whether the first token is wanted as
    soon as it is made. `retries`: how often a request that a server refuses for now is sent again.
    `end_ids`: the ids that end the model's answers, if known. `stop`: the answer ends after this
    text, which it includes; "" means no stop."""

    max_tokens: int
    min_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int | None
    wants_first: bool
    retries: int
    end_ids: tuple[int, ...] = ()
    stop: str = ""


class Submit(msgspec.Struct, array_like=True, tag=True):
    """Requests: for each its number, its place's index and its prompt's tokens as int32."""

    numbers: list[int]
    places: list[int]
    prompts: list[bytes]
    sampling: Sampling


class Post(msgspec.Struct, array_like=True, tag=True):
    """Any request with a JSON body, whose answer is passed on unchanged."""

    number: int
    place: int
    path: str
    body: bytes


class Drop(msgspec.Struct, array_like=True, tag=True):
    """Drop all unanswered requests and close their connections."""


class First(msgspec.Struct, array_like=True, tag=True):
    """The first token or tokens of an answer, and when they arrived."""

    number: int
    token_ids: list[int]
    arrived: float


class Done(msgspec.Struct, array_like=True, tag=True):
    """An answer. `sent`: when its request's bytes were handed to the operating system;
    `connecting`: how long opening its connection took, in s; `first` and `arrived`: when its first
    and last bytes came. What the server reports about it: the tokens of the prompt and of the
    answer, the cached ones, why it ended, and its model if that is another one; None if it does not
    report it. `told_s`: how long the request was queued and how long its first token took after
    that, as the server reports; empty if it does not.
    """

    number: int
    token_ids: list[int]
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
    told_s: tuple[float, ...] = ()


class Reply(msgspec.Struct, array_like=True, tag=True):
    """The answer to a `Post`."""

    number: int
    body: bytes


class Failed(msgspec.Struct, array_like=True, tag=True):
    """A request without an answer. `gone`: the server can no longer be reached. `unfit`: it does
    not take such requests, or returns no usable answers."""

    number: int
    why: str
    gone: bool
    unfit: bool = False


class Beat(msgspec.Struct, array_like=True, tag=True):
    """Sent four times a second if something came. `pieces`: the pieces of answers that came, per
    place; `tokens`: the answer tokens in total; `connections`: the most that were open at once."""

    at: float
    pieces: list[int]
    tokens: int
    connections: int


ToClient = Hello | Submit | Post | Drop
FromClient = First | Done | Reply | Failed | Beat

to_client = msgspec.msgpack.Decoder(ToClient)
from_client = msgspec.msgpack.Decoder(list[FromClient])
