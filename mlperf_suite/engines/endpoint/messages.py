"""What the engine and its client processes tell each other: frames (`engines/frames.py`) on a
socket.

Times are s of time.monotonic, which is one clock for all processes of a machine.
"""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, array_like=True, frozen=True):
    """A server's address: of its `host`, the one that answered when it was asked first.
    `authority`: what the header Host says; `prefix`: its path before /v1."""

    host: str
    address: str
    port: int
    tls: bool
    authority: str
    prefix: str


class Hello(msgspec.Struct, array_like=True, tag=True):
    """The first message to a client. `connections`: the most to each place. `silence_s`: how long
    an answer that began may pause, and a first token may be overdue."""

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
    """How tokens are chosen; as `Generation`. `wants_first`: whether the first token is wanted
    early. `retries`: how often a request that a server refuses for now is sent again. `end_ids`:
    those with which the model ends an answer, where they are known. `stop`: a text after which the
    answer ends, with it; "" is none."""

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
    """Requests: of each its number, its place's index and its prompt's tokens as int32."""

    numbers: list[int]
    places: list[int]
    prompts: list[bytes]
    sampling: Sampling


class Post(msgspec.Struct, array_like=True, tag=True):
    """Any request with a JSON body, whose answer is wanted as it is."""

    number: int
    place: int
    path: str
    body: bytes


class Drop(msgspec.Struct, array_like=True, tag=True):
    """Forget every request that is not answered, and close its connection."""


class First(msgspec.Struct, array_like=True, tag=True):
    """The first token or tokens of an answer, and when they arrived."""

    number: int
    token_ids: list[int]
    arrived: float


class Done(msgspec.Struct, array_like=True, tag=True):
    """An answer. `sent`: when its request's bytes were handed to the system, `connecting` the s
    that opening its connection took; `first` and `arrived`: when its first and last bytes came.
    What the server says of it: the tokens of the prompt and of the answer, the cached ones, why it
    ended, and its model where that is another one; None is what it does not say. `told_s`: how long
    it says that the request was queued and that its first token took then; empty where it does not.
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
    """A request without an answer. `gone`: the server cannot be reached any more. `unfit`: it does
    not take such requests, or gives no such answers."""

    number: int
    why: str
    gone: bool
    unfit: bool = False


class Beat(msgspec.Struct, array_like=True, tag=True):
    """Four times a second, and only where something came: of each place the pieces of answers that
    came, the answer tokens in all, and the most connections that were open at once."""

    at: float
    pieces: list[int]
    tokens: int
    connections: int


ToClient = Hello | Submit | Post | Drop
FromClient = First | Done | Reply | Failed | Beat

to_client = msgspec.msgpack.Decoder(ToClient)
from_client = msgspec.msgpack.Decoder(list[FromClient])
