"""The address of an endpoint, and how to talk to it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

from mlperf_suite.engines.routing import EndpointRouting
from mlperf_suite.errors import UsageError

ServerKind = Literal[
    "vllm", "vllm-generate", "sglang", "sglang-completions", "tensorrt-llm", "text"
]
SERVER_KINDS: tuple[ServerKind, ...] = get_args(ServerKind)
"""`vllm-generate` and `sglang-completions` name the second route of the same servers; `text` is any
OpenAI-compatible server that takes and returns only text."""
SILENCE_S = 22.0
"""A server that sends nothing for this long, in s, counts as hung; see --engine-silence.

Only while it has requests. Every fault should end its run within 30 s, and LoadGen gets up to 5 s
more to finish.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """One server. `prefix`: the path before /v1, without a trailing slash. `base`: what its OpenAI
    routes begin with after that, where others have /v1; "" if their paths follow at once.
    `address`: the address of its host to connect to; "" for the first that answers."""

    url: str
    tls: bool
    host: str
    port: int
    prefix: str
    base: str = "/v1"
    address: str = ""

    def path(self, route: str) -> str:
        """The path of a route, which is given as most servers have it: /v1/models, /version."""
        if route.startswith("/v1/"):
            return self.prefix + self.base + route.removeprefix("/v1")
        return self.prefix + route

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def parse_endpoint(text: str) -> Target:
    """Parse a URL like http://host:8000, with or without a trailing /v1.

    Raises UsageError if the text is not such a URL, or has a user, a query or a fragment.
    """
    hint = "must be a URL like http://host:8000"
    # Checked first, since every other message quotes the URL.
    if "@" in text:
        raise UsageError("--endpoint: no user or password in the URL: set API_KEY")
    if "?" in text or "#" in text:
        raise UsageError(f"--endpoint: no query or fragment in the URL: {hint}")
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--endpoint {text}: {hint}") from error
    # "or" below would take port 0 for the scheme's own.
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise UsageError(f"--endpoint {text}: {hint}")
    if not _is_host(parts.hostname) or any(not 0x20 < ord(c) < 0x7F for c in parts.path):
        raise UsageError(f"--endpoint {text}: {hint}")
    tls = parts.scheme == "https"
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    target = Target("", tls, parts.hostname, port or (443 if tls else 80), prefix)
    return replace(target, url=f"{parts.scheme}://{target.authority}{prefix}")


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return all((c.isalnum() and c.isascii()) or c in "-._" for c in host)
    return True


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """How to reach the servers of one SUT.

    `model`: the measured model, a folder or hub id, whose tokenizer is in the folder `tokenizer`.
    `served_model`: its name on the servers; None asks the server, as does `kind` None. `key` is
    sent as a bearer token and never written anywhere, nor are the values of `headers`. `ca_file`:
    certificates used in place of the system's. `clients`: the number of processes; None chooses by
    the machine's cores. `requests`: the most that a server gets at once; None chooses by what it
    works on at once. `context_needed`: the longest sequence needed, in tokens. `vocabulary`: all
    token ids are below it. `end_ids`: the ids that end the model's answers, for servers that must
    be told. `cache_salt`: hexadecimal digits that every request has, so that they may share a
    prefix cache; "" gives each a salt of its own.
    `chat`: the prompts are a chat's messages. `notes`: what the user says of the servers.
    """

    targets: tuple[Target, ...]
    model: str
    tokenizer: Path | None
    vocabulary: int
    end_ids: tuple[int, ...] = ()
    served_model: str | None = None
    kind: ServerKind | None = None
    routing: EndpointRouting = "fewest-tokens"
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    clients: int | None = None
    requests: int | None = None
    context_needed: int | None = None
    silence_s: float = SILENCE_S
    log_file: Path | None = None
    cache_salt: str = ""
    chat: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
