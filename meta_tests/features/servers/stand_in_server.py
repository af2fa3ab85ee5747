"""An HTTP server with known delays and known faults, in a separate process.

    python -m meta_tests.features.servers.stand_in_server '{"dialect": "vllm"}'

It has no model: it serves to measure and test the client, and the Server header of every answer
says so. It answers one request at a time on each connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httptools
import msgspec
import uvloop

from meta_tests.features.servers.replies import (
    COMPLETIONS,
    GENERATE,
    SCALE_OUT,
    CompletionRequest,
    Refusal,
    Reply,
    page_reply,
    plain,
    read_request,
    refusal_reply,
    reply,
    without_answer,
)
from meta_tests.features.servers.stand_in_options import StandIn
from mlperf_suite import SUITE_FOLDER
from mlperf_suite.errors import SuiteError

if TYPE_CHECKING:
    from mlperf_suite.features.servers.engine import EndpointEngine

ACCOUNT, BECOME = "/stand-in/account", "/stand-in/become"
_OPEN_PATHS = ("/health", "/version", ACCOUNT)
_LOOK_FOR_PARENT_S = 0.25
_REMEMBERED_REPLIES = 4096


@dataclass(frozen=True, slots=True)
class RunningStandIn:
    """A stand-in server that listens. `url` has no path and no trailing slash."""

    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def become(self, options: StandIn) -> RunningStandIn:
        """Behave as these options say from now on, with a new account; itself.

        For tests that need many servers one after another: a process for each takes longer than
        what is tested.
        """
        content = msgspec.json.encode(options)
        with urllib.request.urlopen(self.url + BECOME, data=content, timeout=120):
            return self

    def account(self) -> dict[str, Any]:
        """What it was asked so far.

        `requests`: their number by path. `completions`: the number of completion requests.
        `connections`, `open`: connections made since the start, and open now. `authorizations`:
        every value of this header, at most 16. `body`: of the last completion request.
        """
        with urllib.request.urlopen(self.url + ACCOUNT, timeout=120) as answer:
            figures: dict[str, Any] = json.load(answer)
        return figures


@contextlib.contextmanager
def own_child(module: str, name: str, argument: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a module of this repository that serves on a port of its own, which it prints first, as
    long as the context and this process last. Yields the process and the port.

    It gets `argument` and this process's id. Raises SuiteError if it does not start.
    """
    command = [sys.executable, "-m", module, argument, str(os.getpid())]
    process = subprocess.Popen(command, cwd=SUITE_FOLDER, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if not port:
            raise SuiteError(f"{name} did not start: status {process.wait()}")
        yield process, int(port)
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def stand_in_server(options: StandIn | None = None) -> Iterator[RunningStandIn]:
    """Run a stand-in server on a free port of 127.0.0.1 until the context ends.

    It also ends when this process does, in whatever way. Raises SuiteError if it does not start.
    """
    options = options or StandIn()
    encoded = msgspec.json.encode(options).decode()
    with own_child(__name__, "the stand-in server", encoded) as (process, port):
        scheme = "https" if options.certificate else "http"
        yield RunningStandIn(f"{scheme}://127.0.0.1:{port}", process)


@contextlib.contextmanager
def engine_on(*servers: RunningStandIn, **config: Any) -> Iterator[EndpointEngine]:
    """The endpoint engine on these servers, loaded; its clients end with the context.

    `config`: fields of `EndpointConfig` that differ.
    """
    from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
    from mlperf_suite.features.servers.engine import EndpointEngine

    targets = tuple(parse_endpoint(server.url) for server in servers)
    fields = {"tokenizer": None, "vocabulary": StandIn().vocabulary} | config
    with contextlib.closing(
        EndpointEngine.load(EndpointConfig(targets, "stand-in", **fields))
    ) as engine:
        yield engine


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key, as PEM files; needs openssl.

    A client trusts it if given the certificate itself as a certificate authority.
    """
    certificate, key = folder / "certificate.pem", folder / "certificate_key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return certificate, key


class _Account:
    """What was asked; see RunningStandIn.account."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.completions = self.connections = self.open = 0
        self.authorizations: set[str] = set()
        self.body = b""

    def as_json(self) -> bytes:
        texts = {"authorizations": sorted(self.authorizations), "body": self.body.decode()}
        return json.dumps(vars(self) | texts).encode()


class _Server:
    def __init__(self, options: StandIn) -> None:
        self.account = _Account()
        self._be(options)

    def _be(self, options: StandIn) -> None:
        self.options = options
        self._right = lru_cache(_REMEMBERED_REPLIES)(partial(reply, options, fault=None))
        self._wrong = lru_cache(_REMEMBERED_REPLIES)(partial(reply, options, fault=options.fault))
        self._authorization = f"Bearer {options.key}".encode()
        self._paths = {COMPLETIONS}
        if options.dialect == "sglang" and options.native:
            self._paths.add(GENERATE)
        if options.dialect == "vllm" and options.scale_out:
            self._paths.add(SCALE_OUT)

    def answer(self, path: str, authorization: bytes | None, body: bytes) -> Reply:
        account = self.account
        if authorization is not None and len(account.authorizations) < 16:
            account.authorizations.add(authorization.decode("latin-1"))
        if path == ACCOUNT:
            return plain(200, account.as_json())
        if path == BECOME:
            self.account = _Account()
            self.account.open = account.open
            self._be(msgspec.json.decode(body, type=StandIn))
            return plain(200)
        account.requests[path] += 1
        if self.options.base != "/v1":
            path = _as_usual(path, self.options.base)
        if self.options.key and path not in _OPEN_PATHS and authorization != self._authorization:
            return plain(401, b'{"error":"Unauthorized"}')
        if path in self._paths:
            account.completions += 1
            account.body = body
            return self._completion(account.completions - 1, path, body)
        if path == "/metrics" and self.options.queue_s is not None:
            waited_s = account.completions * self.options.queue_s
            page = f'vllm:request_queue_time_seconds_sum{{engine="0"}} {waited_s:g}\n'
            return plain(200, (page + self.options.metrics).encode())
        fault = self.options.fault if self.options.everywhere else None
        wrong = without_answer(self.options, fault)
        return wrong or page_reply(self.options, path) or plain(404, b'{"detail":"Not Found"}')

    def _completion(self, number: int, path: str, body: bytes) -> Reply:
        try:
            request: CompletionRequest = read_request(self.options, path, body)
        except Refusal as refusal:
            return refusal_reply(refusal)
        return (self._wrong if self.options.faulty(number) else self._right)(request)


def _as_usual(path: str, base: str) -> str:
    """The path of this route on a server with /v1; one that no server has for any other path."""
    return f"/v1{path.removeprefix(base)}" if path.startswith(f"{base}/") else f"/not{path}"


class _Connection(asyncio.Protocol):
    """One connection: reads a request and writes its answer part by part."""

    def __init__(self, server: _Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._path = ""
        self._authorization: bytes | None = None
        self._body = b""
        self._reply = Reply()
        self._next = 0
        self._began_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not instances of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        account = self._server.account
        account.connections += 1
        account.open += 1

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._server.account.open -= 1

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.close()

    def on_message_begin(self) -> None:
        self._authorization, self._body = None, b""

    def on_url(self, url: bytes) -> None:
        self._path = url.decode("latin-1").partition("?")[0]

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self._authorization = value

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        reply = self._reply = self._server.answer(self._path, self._authorization, self._body)
        if reply.then == "die":
            os._exit(1)
        self._next = 0
        self._began_s = self._loop.time()
        if self._transport is None:
            return
        if reply.at_s and reply.at_s[0] == 0:
            self._write_next(reply.head)
        elif reply.head:
            self._transport.write(reply.head)
        if self._next == 0:
            self._wait()

    def _wait(self) -> None:
        """Write the next part at its time, at most one part per iteration of the event loop."""
        reply = self._reply
        if self._next == len(reply.parts):
            self._end()
        elif reply.at_s[self._next] == 0:
            self._loop.call_soon(self._write_next)
        else:
            self._loop.call_at(self._began_s + reply.at_s[self._next], self._write_next)

    def _write_next(self, head: bytes = b"") -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(head + self._reply.parts[self._next])
        self._next += 1
        self._wait()

    def _end(self) -> None:
        ends = self._reply.then == "keep" and not self._parser.should_keep_alive()
        if ends and self._transport is not None:
            self._transport.close()


async def _serve(options: StandIn, parent: int | None) -> None:
    loop = asyncio.get_running_loop()
    server = _Server(options)
    tls = None
    if options.certificate:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(options.certificate, options.certificate_key)
    connection = partial(_Connection, server, loop)
    listening = await loop.create_server(connection, "127.0.0.1", 0, ssl=tls, backlog=4096)
    print(listening.sockets[0].getsockname()[1], flush=True)
    # PR_SET_PDEATHSIG would fire when the thread that started this process ends.
    while parent is None or os.getppid() == parent:
        await asyncio.sleep(_LOOK_FOR_PARENT_S)


def main() -> None:
    """Serve with the options in the first argument (JSON) until the process in the second ends."""
    options = msgspec.json.decode(sys.argv[1] if sys.argv[1:] else "{}", type=StandIn)
    parent = int(sys.argv[2]) if sys.argv[2:] else None
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(options, parent))


if __name__ == "__main__":
    main()
