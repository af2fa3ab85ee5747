"""An HTTP proxy that answers repeated requests from memory.

    python -m evidence.caching_audit.with_servers.caching_proxy http://127.0.0.1:8000

Tests the caching audit: together with a server, it is a serving stack whose front end hides a cache
of whole answers. It runs in a separate process and does not identify itself in its answers.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from meta_tests.features.servers.stand_in_server import own_child

_LOOK_FOR_PARENT_S = 0.25
_OWN_HEADERS = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})
"""Headers of a single connection, in lower case, which are not passed on."""
_SALTS = ("cache_salt", "extra_key")
"""Fields that keep a server's prefix cache from answering a request; this cache ignores them."""
_Answer = tuple[int, list[tuple[str, str]], bytes]


@contextlib.contextmanager
def caching_proxy(upstream: str) -> Iterator[str]:
    """Run a proxy in front of a server, on a free port of 127.0.0.1; yields its URL.

    `upstream`: the server's URL, without a path. The proxy ends with the context or this process.
    Raises SuiteError if it does not start.
    """
    with own_child(__name__, "the caching proxy", upstream) as (_, port):
        yield f"http://127.0.0.1:{port}"


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urllib.parse.urlsplit(upstream)
        self.answers: dict[tuple[str, bytes], _Answer] = {}
        self.of_thread = threading.local()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> _Answer:
        """The upstream server's answer, or its earlier answer to the same request."""
        key = path, _without_salt(body)
        if method == "POST" and key in self.answers:
            return self.answers[key]
        connection = getattr(self.of_thread, "connection", None)
        if connection is None:
            address = self.upstream.hostname or "", self.upstream.port
            connection = self.of_thread.connection = http.client.HTTPConnection(*address)
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        fields = [(n, v) for n, v in response.getheaders() if n.lower() not in _OWN_HEADERS]
        answer = response.status, fields, response.read()
        if method == "POST" and response.status == 200:
            self.answers[key] = answer
        return answer


def _without_salt(body: bytes) -> bytes:
    try:
        content = json.loads(body)
    except ValueError:
        return body
    if not isinstance(content, dict):
        return body
    return json.dumps({n: v for n, v in content.items() if n not in _SALTS}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Proxy

    def do_POST(self) -> None:
        """Pass on a request: one with a body once, others every time."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {n: v for n, v in self.headers.items() if n.lower() not in _OWN_HEADERS}
        status, fields, content = self.server.answer(self.command, self.path, headers, body)
        lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in fields]
        head = "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""])
        self.wfile.write(head.encode("latin-1") + content)

    do_GET = do_POST  # noqa: N815 - as http.server names it

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def main() -> None:
    """Serve in front of the URL in the first argument until the process in the second one ends."""
    upstream = sys.argv[1]
    parent = int(sys.argv[2]) if sys.argv[2:] else None
    proxy = _Proxy(upstream)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print(proxy.server_address[1], flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while parent is None or os.getppid() == parent:
            time.sleep(_LOOK_FOR_PARENT_S)


if __name__ == "__main__":
    main()
