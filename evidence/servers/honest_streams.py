"""Streams as the suite's client receives them from a server, or from a proxy in front of it."""

from __future__ import annotations

import contextlib
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from evidence.servers.other_servers import LITELLM_KEY
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.engines.batch import AnswerCollector, requests_of
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.engine import EndpointEngine
from scripts.local_servers import LocalServer

SILENCE_S = 1800.0
"""A machine under load may let a server wait long."""
ANSWERS, TOKENS, AT_ONCE = 24, 64, 4
WHOLE = 2**30
"""More bytes than any answer has."""


class _Collector(BaseHTTPRequestHandler):
    """Passes on a server's answer in pieces of `size` bytes, as proxies and gateways do."""

    protocol_version = "HTTP/1.1"
    server_url: str
    size: int

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = urllib.request.Request(self.server_url + self.path, body or None)
        request.add_header("Content-Type", "application/json")
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while piece := answer.read(self.size):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def collecting_proxy(server: LocalServer, size: int) -> Iterator[LocalServer]:
    """A proxy that collects so many bytes of an answer before it passes them on."""
    handler = type("Handler", (_Collector,), {"server_url": server.url, "size": size})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield replace(server, url=f"http://127.0.0.1:{proxy.server_port}")
        proxy.shutdown()


def measured(server: LocalServer) -> RemoteRun:
    """`ANSWERS` answers of `TOKENS` tokens, `AT_ONCE` at a time."""
    tokenizer = load_tokenizer(str(embedded_model_dir()), None)
    prompts = [tokenizer(f"The number after {n} is")["input_ids"] for n in range(ANSWERS)]
    config = EndpointConfig(
        (parse_endpoint(server.url),),
        server.model,
        embedded_model_dir(),
        49_152,
        served_model=server.model,
        key=LITELLM_KEY,
        clients=1,
        requests=AT_ONCE,
        silence_s=SILENCE_S,
    )
    generation = Generation(max_new_tokens=TOKENS, min_new_tokens=TOKENS, ignore_eos=True)
    with contextlib.closing(EndpointEngine.load(config)) as engine:
        engine.take_remote_run()
        answers = AnswerCollector(len(prompts))
        engine.submit(requests_of(prompts), generation, answers, stream=True)
        answers.wait(engine, SILENCE_S)
        return engine.take_remote_run()
