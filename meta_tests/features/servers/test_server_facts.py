"""A server's answers about itself: read as the answers of runs are, or refused in one line."""

import gzip
import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.features.servers import server_facts
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.server_facts import check_reachable, find_server_facts, metrics


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def models(owner: str) -> bytes:
    return json.dumps({"data": [{"id": "m", "owned_by": owner}]}).encode()


def pages_of(owner: str) -> dict[str, bytes]:
    """What a server of this kind says of itself, by path."""
    info = (
        b'{"version": "1", "model_path": "m", "speculative_algorithm": null, "dtype": "half",'
        b' "vllm_config": {"scheduler_config": {"max_num_seqs": 8}, "model_config": null}}'
    )
    names = {
        "vllm": ("/version", "/metrics", "/server_info"),
        "sglang": ("/get_server_info",),
        "me": ("/get_model_info",),
    }
    page = (
        b"vllm:num_requests_running 0\nvllm:prefix_cache_hits_total 7\n"
        b'vllm:cache_config_info{block_size="16",cache_dtype="a\x1b",sliding_window="None"} 1.0\n'
    )
    pages = {name: page if name == "/metrics" else info for name in names[owner]}
    return {"/v1/models": models(owner), **pages}


@contextmanager
def server_of(
    pages: dict[str, bytes], pause_s: float = 0.0
) -> Iterator[tuple[EndpointConfig, list[bytes]]]:
    """A server of these answers, which it sends byte by byte (a long one in a thousand pieces), and
    the requests that it gets."""
    heads: list[bytes] = []

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            lines = list(iter(self.rfile.readline, b"\r\n"))
            heads.append(b"".join(lines))
            # Closed with a body unread, a connection is reset.
            sizes = [line for line in lines if line.startswith(b"Content-Length:")]
            self.rfile.read(int(sizes[0].split()[1]) if sizes else 0)
            path = lines[0].split()[1].decode().partition("?")[0]
            missing = answer(b"{}", status="404 Not Found")
            page = pages.get(path, missing)
            size = 1 + len(page) // 1000
            for start in range(0, len(page), size):
                try:
                    self.wfile.write(page[start : start + size])
                except OSError:
                    return
                time.sleep(pause_s)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        target = parse_endpoint(f"http://127.0.0.1:{server.server_address[1]}")
        yield EndpointConfig((target,), "m", None, 32_000), heads
        server.shutdown()


def test_each_of_vllms_data_parallel_engines_has_a_batch() -> None:
    own = {"scheduler_config": {"max_num_seqs": 8}, "parallel_config": {"data_parallel_size": 4}}
    assert server_facts._vllm_batch({"vllm_config": own}) == 32


@pytest.mark.parametrize(
    ("stated", "context"),
    [
        ({"max_model_len": 4096, "meta": {"n_ctx": 1}}, 4096),
        ({"meta": {"n_ctx": 2048}}, 2048),
        ({"meta": [2048]}, None),
    ],
)
def test_the_context_is_as_the_list_of_models_states_it(
    stated: dict[str, Any], context: int | None
) -> None:
    models = json.dumps({"data": [{"id": "m", **stated}]}).encode()
    pages = {"/v1/models": answer(models), "/v1/completions": answer(b"{}")}
    with server_of(pages) as (config, _):
        assert check_reachable(config) == context
        assert find_server_facts(config, config.targets[0]).max_model_len == context
    with server_of({}) as (config, _), pytest.raises(UsageError, match="URL up to /v1, as http:"):
        check_reachable(config)


@pytest.mark.parametrize("owner", ["vllm", "sglang", "me"])
def test_every_question_asks_for_an_answer_that_is_not_compressed(owner: str) -> None:
    pages = {path: answer(body) for path, body in pages_of(owner).items()}
    with server_of(pages) as (config, heads):
        facts = find_server_facts(config, config.targets[0])
    assert facts.model == "m" and len(heads) >= len(pages)
    assert all(b"Accept-Encoding: identity\r\n" in head for head in heads)


@pytest.mark.parametrize(
    ("owner", "path"),
    [(owner, path) for owner in ("vllm", "sglang", "me") for path in pages_of(owner)],
)
def test_an_answer_that_is_compressed_all_the_same_is_refused_in_a_line(
    owner: str, path: str
) -> None:
    pages = {page: answer(body) for page, body in pages_of(owner).items()}
    pages[path] = answer(gzip.compress(pages_of(owner)[path]), "Content-Encoding: gzip")
    with (
        server_of(pages) as (config, _),
        pytest.raises(UsageError, match="compressed an answer with gzip") as caught,
    ):
        find_server_facts(config, config.targets[0])
    assert str(caught.value).startswith(config.targets[0].url) and "\n" not in str(caught.value)


BODY = models("vllm")


@pytest.mark.parametrize("head", ["103 Early Hints\r\n\r\nHTTP/1.1 200 OK", "200 OK"])
def test_an_odd_but_legal_answer_is_read(head: str) -> None:
    """One without a length ends with the connection. What else servers do: `test_connection.py`."""
    pages = {path: answer(body) for path, body in pages_of("vllm").items()}
    pages["/v1/models"] = f"HTTP/1.1 {head}\r\n\r\n".encode() + BODY
    with server_of(pages) as (config, _):
        facts = find_server_facts(config, config.targets[0])
        assert metrics(config, config.targets[0], "vllm") == {"hits": 7.0, "running": 0.0}
    assert (facts.model, facts.kind, facts.speculative) == ("m", "vllm", None)
    assert facts.settings == {"block_size": "16", "cache_dtype": "a?", "max_num_seqs": "8"}


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "garbage": (b"\x16\x03\x01 this is no HTTP\r\n\r\n", "sent a response that is not HTTP"),
    "cut": (answer(BODY)[:-3], "closed the connection in the middle of an answer"),
    "other port": (
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.",
        "speaks TLS: give its URL with https://",
    ),
}


@pytest.mark.parametrize("path", ["/v1/models", "/version"])
@pytest.mark.parametrize("fault", UNREADABLE)
def test_what_cannot_be_read_is_refused_in_a_line(fault: str, path: str) -> None:
    data, words = UNREADABLE[fault]
    pages: dict[str, Any] = {page: answer(body) for page, body in pages_of("vllm").items()}
    with server_of(pages | {path: data}) as (config, _):
        with pytest.raises(UsageError, match=words):
            find_server_facts(config, config.targets[0])
        if path == "/version":
            check_reachable(config)


MAY_NOT = r"or the key may not use the model m \(another: --served-model-name\)$"
FIRST_REQUEST: list[tuple[str, str, dict[str, Any], str]] = [
    ("401 Unauthorized", "vllm", {}, rf"\(status 401\): no: API_KEY is not set .*{MAY_NOT}"),
    ("403 Forbidden", "me", {"key": "k"}, rf"\(status 403\): no: API_KEY is the wrong .*{MAY_NOT}"),
    ("402 Payment Required", "vllm", {}, r"\(status 402\): no: raise that limit"),
    ("429 Too Many Requests", "vllm", {}, r"\(status 429\): no: raise that limit"),
    ("429 Too Many Requests\r\nRetry-After: 1", "vllm", {}, ""),
    ("404 Not Found", "me", {}, r"\(status 404\): no: is the path of --endpoint right"),
    ("404 Not Found", "vllm", {"chat": True}, "refuses /v1/chat/completions .*is the path"),
    # It may have another route.
    ("404 Not Found", "vllm", {}, ""),
    ("500 Internal Server Error", "me", {}, ""),
]
"""By the status of a server that lists its models all the same: its kind, and what is said."""


@pytest.mark.parametrize(("status", "owner", "fields", "words"), FIRST_REQUEST)
def test_a_key_or_a_route_that_requests_need_is_missed_before_a_run(
    status: str, owner: str, fields: dict[str, Any], words: str
) -> None:
    pages = {"/v1/models": answer(models(owner))}
    for path in ("/v1/completions", "/v1/chat/completions"):
        pages[path] = answer(b'{"error": {"message": "no"}}', status=status)
    refused = pytest.raises(UsageError, match=words) if words else nullcontext()
    with server_of(pages) as (config, _), refused:
        check_reachable(replace(config, **fields))


def test_servers_that_are_not_alike_are_refused_before_a_run() -> None:
    other = models("sglang").replace(b'"m"', b'"M"')
    with (
        server_of({"/v1/models": answer(models("vllm"))}) as (one, _),
        server_of({"/v1/models": answer(other)}) as (two, _),
        pytest.raises(UsageError, match=r"^the endpoints are of several kinds: sglang, vllm: "),
    ):
        check_reachable(replace(one, targets=one.targets + two.targets))


@pytest.mark.parametrize(("scheme", "other"), [("http", "https"), ("https", "http")])
def test_who_closes_without_a_word_may_speak_the_other_kind(scheme: str, other: str) -> None:
    class Closes(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)

    with socketserver.TCPServer(("127.0.0.1", 0), Closes) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        target = parse_endpoint(f"{scheme}://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(UsageError, match=f"give its URL with {other}://$"):
            check_reachable(EndpointConfig((target,), "m", None, 1))


def test_counters_that_cannot_be_read_after_a_run_are_none() -> None:
    packed = answer(gzip.compress(b"{}"), "Content-Encoding: gzip")
    with server_of({"/metrics": packed}) as (config, _):
        assert metrics(config, config.targets[0], "vllm") == {}


def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_facts, "_ASK_S", 1.0)
    with (
        server_of({"/v1/models": answer(models("vllm") + b" " * 5000)}, pause_s=0.1) as (config, _),
        pytest.raises(UsageError, match="did not answer within 1 s"),
    ):
        check_reachable(config)
