"""Streams of real servers as the client receives them: which does the suite take for held back?

    python -m evidence.servers.honest_streams [--write]

Measures each of `SERVERS`, which are started one after the other on this machine, and prints a row
for each; with --write into docs/evidence/servers.md. Servers that are not installed are left out.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from evidence.servers.other_servers import (
    LITELLM_KEY,
    litellm_proxy,
    llama_cpp_server,
    sglang_server,
)
from evidence.tables import PAGES, write_cells
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.engines.batch import AnswerCollector, requests_of
from mlperf_suite.engines.protocol import RemoteRun, StreamFigures
from mlperf_suite.errors import UsageError
from mlperf_suite.features.servers.config import EndpointConfig, ServerKind, parse_endpoint
from mlperf_suite.features.servers.engine import EndpointEngine
from mlperf_suite.rules.limits import held_back
from scripts.local_servers import LocalServer, vllm_server

SILENCE_S = 1800.0
"""A machine under load may let a server wait long."""
ANSWERS, TOKENS, AT_ONCE = 24, 64, 4
WHOLE = 2**30
"""More bytes than any answer has."""
PAGE = PAGES / "servers.md"
HEADER = (
    "| server | answers | tokens of the first event: median, p99 | tokens of an event: median, p99 "
    "| TPOT p99 in ms | without the first event | in one piece | held back |"
)


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


def measured(server: LocalServer, kind: ServerKind | None = None) -> RemoteRun:
    """`ANSWERS` answers of `TOKENS` tokens, `AT_ONCE` at a time."""
    tokenizer = load_tokenizer(str(embedded_model_dir()), None)
    prompts = [tokenizer(f"The number after {n} is")["input_ids"] for n in range(ANSWERS)]
    config = EndpointConfig(
        (parse_endpoint(server.url),),
        server.model,
        embedded_model_dir(),
        49_152,
        served_model=server.model,
        kind=kind,
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


@dataclass(frozen=True, slots=True)
class Behind:
    """What is measured in front of a server, if anything is. `name`: of the row. `honest`: what
    arrives came as it was made. `kind`: the route that is used; None is the server's own."""

    name: str
    honest: bool = True
    kind: ServerKind | None = None
    around: Callable[[LocalServer], AbstractContextManager[LocalServer]] = contextlib.nullcontext


def _vllm(*arguments: str) -> Callable[[], AbstractContextManager[LocalServer]]:
    return lambda: vllm_server(arguments=["--max-model-len", "2048", *arguments])


_NGRAM = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}'
SERVERS: Sequence[tuple[Callable[[], AbstractContextManager[LocalServer]], Sequence[Behind]]] = (
    (
        _vllm(),
        (
            Behind("vLLM"),
            Behind("vLLM behind LiteLLM", around=litellm_proxy),
            Behind(
                "vLLM behind a proxy that buffers",
                honest=False,
                around=lambda server: collecting_proxy(server, WHOLE),
            ),
            Behind(
                "vLLM behind a gateway that collects 16 kB",
                honest=False,
                around=lambda server: collecting_proxy(server, 16_384),
            ),
        ),
    ),
    (_vllm("--stream-interval", "5"), (Behind("vLLM `--stream-interval 5`"),)),
    (_vllm("--stream-interval", "10"), (Behind("vLLM `--stream-interval 10`"),)),
    (_vllm("--speculative-config", _NGRAM), (Behind("vLLM, speculative: ngram, 4 tokens"),)),
    (sglang_server, (Behind("SGLang"), Behind("SGLang, completions", kind="sglang-completions"))),
    (
        lambda: sglang_server("--stream-interval", "5"),
        (Behind("SGLang `--stream-interval 5`"),),
    ),
    (llama_cpp_server, (Behind("llama.cpp (llama-cpp-python)"),)),
)
"""Each server is started once, for all that is measured in front of it."""


def measured_streams(
    servers: Sequence[
        tuple[Callable[[], AbstractContextManager[LocalServer]], Sequence[Behind]]
    ] = SERVERS,
) -> Iterator[tuple[Behind, StreamFigures]]:
    """Of each server and what stands in front of it; those that are not installed are left out."""
    for start, stands in servers:
        with contextlib.ExitStack() as at_end:
            try:
                server = at_end.enter_context(start())
            except UsageError as error:
                print(error, file=sys.stderr)
                continue
            for behind in stands:
                with behind.around(server) as outermost:
                    stream = measured(outermost, behind.kind).stream
                assert stream is not None and stream.answers == ANSWERS
                yield behind, stream


def cells(behind: Behind, stream: StreamFigures) -> list[str]:
    """The row of a measured stream."""
    of_events = [f"{n['p50']:,}, {n['p99']:,}" for n in (stream.first_tokens, stream.event_tokens)]
    later_ms = stream.later_tpot_ms.get("p99")
    return [
        behind.name,
        str(stream.answers),
        *of_events,
        f"{stream.tpot_ms['p99']:.1f}",
        "unknown" if later_ms is None else f"{later_ms:.1f}",
        str(stream.at_once),
        "**yes**" if held_back(stream) else "no",
    ]


def main() -> None:
    """Measure and print; with --write, into the page."""
    rows = []
    for behind, stream in measured_streams():
        rows.append(cells(behind, stream))
        print(*rows[-1], sep=" | ", flush=True)
    if "--write" in sys.argv[1:]:
        write_cells(PAGE, HEADER, rows)


if __name__ == "__main__":
    main()
