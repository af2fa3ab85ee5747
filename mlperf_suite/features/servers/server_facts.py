"""Finds out what a server is by asking it once."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
import socket
import ssl
import time
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from mlperf_suite.benchmarks.definition import OWN_HEAD
from mlperf_suite.engines.protocol import MEDIA_CHANGES
from mlperf_suite.errors import UsageError
from mlperf_suite.features.servers.adapters import ADAPTERS, CHAT_COMPLETIONS, error_words, one_line
from mlperf_suite.features.servers.config import EndpointConfig, ServerKind, Target
from mlperf_suite.features.servers.connection import (
    Connection,
    ResponseHandler,
    header_lines,
    why_unreachable,
)
from mlperf_suite.features.servers.server_metrics import figures_in, labels_in

_ASK_S = 10.0
"""How long connecting to a server, and one answer of it, may take, in s."""
_PIECE = 65_536
_OK, _BAD_REQUEST, _NOT_FOUND = 200, 400, 404
_REFUSED_KEY, _AT_A_LIMIT, _NO_ROUTE = (401, 403), (402, 429), (404, 405)
STAND_IN = "mlperf-suite-stand-in"
"""The Server header of this suite's own stand-in."""
_OWNERS: dict[str, ServerKind] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt_llm": "tensorrt-llm",
    "tensorrt-llm": "tensorrt-llm",
}
_NAMES: dict[str, str] = {
    "vllm": "vLLM server",
    "sglang": "SGLang server",
    "tensorrt-llm": "TensorRT-LLM server",
    "text": "OpenAI-compatible server",
}
_SECOND_ROUTES: dict[ServerKind, ServerKind] = {
    "vllm-generate": "vllm",
    "sglang-completions": "sglang",
}
_NOT_A_REQUEST = (400, 422)
"""The statuses with which a route answers an empty request; a missing or disabled route answers
with another status."""
_SPECULATIVE_COUNTERS = "vllm:spec_decode_"
_PLACE_COUNTER = re.compile(
    r'vllm:spec_decode_num_accepted_tokens_per_pos_total\{.*\bposition="(\d+)"'
)
SGLANG_MEDIA_CHANGES = ("mm_process_config",)
"""SGLang's argument for its processor of pictures (sglang/srt/server_args.py)."""
_VLLM_SETTINGS = {
    "model_config": ("dtype", "quantization", "enforce_eager", "seed"),
    "parallel_config": (
        *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
        *("enable_expert_parallel", "distributed_executor_backend"),
    ),
    "scheduler_config": (
        *("max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "async_scheduling"),
    ),
    "cache_config": (
        *("block_size", "cache_dtype", "enable_prefix_caching", "gpu_memory_utilization"),
    ),
}
"""What is kept of the configuration that vLLM reports (vllm/config/): what was set, and not the
number of blocks, which differs from start to start."""
_SGLANG_SETTINGS = (
    *("dtype", "quantization", "kv_cache_dtype", "tp_size", "dp_size", "pp_size", "page_size"),
    *("mem_fraction_static", "max_running_requests", "max_total_tokens", "chunked_prefill_size"),
    *("max_prefill_tokens", "schedule_policy", "attention_backend", "sampling_backend"),
    *("disable_radix_cache", "disable_cuda_graph", "enable_torch_compile"),
)
"""What is kept of SGLang's arguments (sglang/srt/server_args.py)."""
METRICS: dict[ServerKind, str] = {"tensorrt-llm": "/prometheus/metrics"}
"""Where a server has its metrics, if not at /metrics."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says about itself. `kind` names the server, never its second route. `target`:
    where it answered, with its base and its address, one of the `addresses` of its host.
    `max_model_len` is None and `version` empty if it does
    not report them. `model`: the name it serves the model under. `speculative`: as `SPECULATIVE`,
    empty if it does not say. `root`: what it loaded the model from, if it says. `generates`: it has
    vLLM's route for token ids only, which is checked only if no kind was given. `batch`: the most
    requests it works on at once, None if it does not report them. `media_changes`: the arguments
    that give pictures other tokens than the model's files do, if it reports them. `settings`: those
    that it reports, by its own names."""

    kind: ServerKind
    version: str
    model: str
    max_model_len: int | None
    target: Target
    addresses: int
    stand_in: bool
    speculative: Mapping[str, object] | None
    root: str | None
    generates: bool = False
    batch: int | None = None
    media_changes: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return _NAMES[self.kind]


class _UnansweredError(UsageError):
    """The server did not answer a question about itself."""


class _Page(ResponseHandler):
    """A server's answer to a question about itself, which was sent to `target`. `status`: 0 until
    it is complete. `why`: the reason if it cannot be read; `any_data`: whether any of it came."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.why = ""
        self.any_data = False
        self._body = b""

    def on_event(self, data: bytes, arrived: float) -> None:
        self._body += data

    def on_error(self, data: bytes) -> None:
        self._body += data

    def on_end(self, arrived: float) -> None:
        self.status = _OK

    def on_refusal(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.status, self._body = status, body

    def on_loss(self, why: str, any_data: bool) -> None:
        self.why, self.any_data = why, any_data

    @property
    def content(self) -> Any:
        """What it is as JSON; its text if it is none."""
        try:
            return json.loads(self._body)
        except (ValueError, RecursionError):
            return self._body.decode(errors="replace")


def check_reachable(config: EndpointConfig) -> int | None:
    """Ask each server for its models. Returns the shortest context of the model that they state, in
    tokens; None if none does. Raises UsageError, in one line, if one refuses the connection or the
    key, redirects, answers what cannot be read (compressed, for example), has a TLS certificate
    that does not verify, or does not serve the model, or if they differ in kind or model."""
    contexts, kinds, names = [], set(), set()
    for target in config.targets:
        models, response = _models(config, target)
        model = _model_of(config, response.target, models)
        kind = config.kind or _kind(config, response.target, model)
        _check_served(config, response.target, kind, model, models)
        contexts.append(_context(_stated_context(model)))
        kinds.add(kind)
        names.add(str(model["id"]))
    check_alike(kinds, names)
    return min(filter(None, contexts), default=None)


def _stated_context(model: Mapping[str, Any]) -> object:
    """The context in an entry of /v1/models: as vLLM and SGLang state it, or as llama.cpp's server
    does, which divides it among the requests that it works on at once (tools/server)."""
    meta = model.get("meta")
    return model.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)


def check_alike(kinds: Collection[str], models: Collection[str]) -> None:
    """Raise UsageError if servers that are one system are of several kinds, or serve several
    models."""
    for values, what in ((kinds, "are of several kinds"), (models, "serve several models")):
        if len(values) > 1:
            names = ", ".join(map(one_line, sorted(values)))
            raise UsageError(f"the endpoints {what}: {names}: measure each in a session of its own")


def _context(length: object) -> int | None:
    return length if type(length) is int and length > 0 else None


def find_server_facts(config: EndpointConfig, target: Target) -> ServerFacts:
    """Find out what the server is and serves. Raises UsageError as `check_reachable` does, and if
    the server does not serve the model."""
    models, response = _models(config, target)
    target = response.target
    model = _model_of(config, target, models)
    form = config.kind
    kind = _kind(config, target, model) if form is None else _SECOND_ROUTES.get(form, form)
    version, length = "", _stated_context(model)
    batch: int | None = None
    changes: tuple[str, ...] = ()
    speculative: Mapping[str, object] | None = {}
    settings: dict[str, object] = {}
    root = model.get("root")
    if kind == "sglang":
        info = _info(config, target, "/get_server_info", "/server_info")
        version, length = str(info.get("version") or ""), length or info.get("context_length")
        speculative, root = _sglang_speculation(info), info.get("model_path") or root
        changes = tuple(name for name in SGLANG_MEDIA_CHANGES if info.get(name))
        batch, settings = _sglang_batch(info), _picked(info, _SGLANG_SETTINGS)
    elif kind in ("vllm", "tensorrt-llm"):
        version = str(_info(config, target, "/version").get("version") or "")
    if kind == "vllm":
        lines = _metrics(config, target)
        speculative = _vllm_speculation(lines)
        info = _info(config, target, "/server_info?config_format=json")
        settings = _vllm_settings(lines, info)
        batch, changes = _vllm_batch(info), _vllm_media_changes(info)
    return ServerFacts(
        kind,
        one_line(version),
        str(model["id"]),
        _context(length),
        target,
        _count_addresses(target),
        response.headers.get(b"server", b"").startswith(STAND_IN.encode()),
        speculative,
        one_line(root) if isinstance(root, str) and root else None,
        kind == "vllm" and form is None and _takes(config, target, ADAPTERS["vllm-generate"].path),
        batch,
        changes,
        settings,
    )


def _count_addresses(target: Target) -> int:
    """How many addresses the name of its host has."""
    with contextlib.suppress(OSError):
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        return len({address[0] for *_, address in found})
    return 1


def _check_proxies(target: Target) -> None:
    """Raise UsageError if the environment wants a proxy for this host: the client uses none, since
    its time would be measured too. This machine is never behind one."""
    proxies = urllib.request.getproxies()
    name = next((n for n in ("https" if target.tls else "http", "all") if proxies.get(n)), None)
    with contextlib.suppress(ValueError):
        if target.host == "localhost" or ipaddress.ip_address(target.host).is_loopback:
            return
    if name and not urllib.request.proxy_bypass(target.host):
        raise UsageError(
            f"{target.url}: {name.upper()}_PROXY is set, but no proxy is used, which would be "
            f"measured too: unset it, or add {target.host} to NO_PROXY"
        )


def metrics(config: EndpointConfig, target: Target, kind: ServerKind) -> dict[str, float]:
    """The figures of the server's metrics (`server_metrics`); empty if it has none to read."""
    with contextlib.suppress(UsageError):
        return figures_in(_metrics(config, target, METRICS.get(kind, "/metrics")))
    return {}


def _metrics(config: EndpointConfig, target: Target, path: str = "/metrics") -> list[str]:
    """The lines of the server's metrics; empty if it has none."""
    with contextlib.suppress(_UnansweredError):
        response = _ask(config, target, path)
        if response.status == _OK and isinstance(response.content, str):
            return response.content.splitlines()
    return []


def _vllm_speculation(metrics: Sequence[str]) -> dict[str, object] | None:
    """A vLLM server's `SPECULATIVE`: only if it decodes so does it have the counters for it, one of
    them for each proposed place (vllm/v1/spec_decode/metrics.py)."""
    if any(line.startswith(_SPECULATIVE_COUNTERS) for line in metrics):
        places = {match[1] for line in metrics if (match := _PLACE_COUNTER.match(line))}
        return {"steps": len(places)}
    return None if any(line.startswith("vllm:") for line in metrics) else {}


def _sglang_speculation(info: Mapping[str, Any]) -> dict[str, object] | None:
    """An SGLang server's `SPECULATIVE`, from its arguments (sglang/srt/server_args.py)."""
    method = info.get("speculative_algorithm", "")
    if not method:
        return {} if method == "" else None
    head, quantization = (
        info.get(f"speculative_draft_model_{name}") for name in ("path", "quantization")
    )
    own = head in (None, info.get("model_path"))
    # Where nothing is given, a head is loaded as its own files store it.
    if quantization is None and not own and "speculative_draft_model_quantization" in info:
        quantization = "none"
    adaptive = info.get("speculative_adaptive")
    facts = {
        "method": one_line(str(method)).lower(),
        "steps": "adaptive" if adaptive else info.get("speculative_num_steps"),
        "topk": info.get("speculative_eagle_topk"),
        "head": OWN_HEAD if own else one_line(str(head)),
        "quantization": quantization,
    }
    thresholds = (info.get(f"speculative_accept_threshold_{name}", 1) for name in ("single", "acc"))
    if any(threshold != 1 for threshold in thresholds):
        facts["acceptance"] = "a lowered acceptance threshold"
    return {name: value for name, value in facts.items() if value is not None}


def _vllm_settings(metrics: Sequence[str], info: Mapping[str, Any]) -> dict[str, object]:
    """From the labels of a metric, which every vLLM server has, and from the configuration that
    only one with VLLM_SERVER_DEV_MODE=1 reports."""
    settings = _picked(labels_in(metrics, "vllm:cache_config_info"), _VLLM_SETTINGS["cache_config"])
    reported = info.get("vllm_config")
    parts = reported if isinstance(reported, dict) else {}
    for part, names in _VLLM_SETTINGS.items():
        if isinstance(of_part := parts.get(part), dict):
            settings |= _picked(of_part, names)
    return settings


def _picked(reported: Mapping[str, Any], names: Sequence[str]) -> dict[str, object]:
    """The plain values of these names, the same whether they are labels or JSON."""
    words = {n: reported[n] for n in names if isinstance(reported.get(n), str | int | float)}
    return {name: one_line(str(value)) for name, value in words.items() if value != "None"}


def _sglang_batch(info: dict[str, Any]) -> int | None:
    """The sum over SGLang's data-parallel engines, each of which has an internal state."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        states = info["internal_states"]
        return sum(int(state["effective_max_running_requests_per_dp"]) for state in states) or None
    return None


def _vllm_batch(info: dict[str, Any]) -> int | None:
    """From the configuration that vLLM reports with VLLM_SERVER_DEV_MODE=1."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        vllm = info["vllm_config"]
        engines = int(vllm["parallel_config"].get("data_parallel_size", 1))
        return int(vllm["scheduler_config"]["max_num_seqs"]) * engines or None
    return None


def _vllm_media_changes(info: dict[str, Any]) -> tuple[str, ...]:
    """From the same: multimodal_config's arguments (vllm/config/multimodal.py)."""
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        media = info["vllm_config"]["model_config"]["multimodal_config"]
        return tuple(name for name in MEDIA_CHANGES if media.get(name))
    return ()


def _models(config: EndpointConfig, target: Target) -> tuple[list[dict[str, Any]], _Page]:
    _check_proxies(target)
    response = _ask(config, target, "/v1/models")
    if response.status == _NOT_FOUND:
        with contextlib.suppress(_UnansweredError):
            # A base path need not end in /v1.
            at_base = _ask(config, replace(response.target, base=""), "/v1/models")
            response = at_base if at_base.status == _OK else response
    if response.status != _OK and config.served_model is not None:
        # transformers' server fails if there is no hub cache to list.
        return [], response
    if response.status != _OK:
        url = ": give the URL up to /v1, as http://HOST:8000/v1"
        raise UsageError(
            f"{target.url}: /v1/models answered with status {response.status}: "
            f"{error_words(response.content)}{url * (response.status == _NOT_FOUND)}"
        )
    content = response.content
    models = content.get("data") if isinstance(content, dict) else None
    if not isinstance(models, list):
        raise UsageError(
            f"{target.url}: /v1/models did not return a list of models but {error_words(content)}: "
            "is this an OpenAI-compatible server?"
        )
    return [m for m in models if isinstance(m, dict) and isinstance(m.get("id"), str)], response


def _model_of(
    config: EndpointConfig, target: Target, models: list[dict[str, Any]]
) -> dict[str, Any]:
    """The listed model that matches the configured one. Raises UsageError if none clearly does."""
    if config.served_model is not None:
        matches = [model for model in models if model["id"] == config.served_model]
        return matches[0] if matches else {"id": config.served_model}
    for model in models:
        if any(_same_model(config.model, model.get(key)) for key in ("id", "root")):
            return model
    raise UsageError(
        f"{target.url} serves {_names(models)}, and not {config.model}: give --model the model "
        "that it serves, or --served-model-name if it is that one under another name"
    )


def _check_served(
    config: EndpointConfig,
    target: Target,
    kind: ServerKind,
    model: Mapping[str, Any],
    models: Sequence[Mapping[str, Any]],
) -> None:
    """Ask for one token where a run will, as a gateway may list models without a key.

    Raises UsageError if the server refuses the key, has no such route, or refuses a name that it
    does not list, as it need not list an alias: it repeats that name, or takes the same request
    under a name that it lists. Says nothing of a server that does not answer in time.
    """
    name = str(model["id"])
    prompt = {"messages": [{"role": "user", "content": "a"}]} if config.chat else {"prompt": "a"}
    path = CHAT_COMPLETIONS if config.chat else ADAPTERS[kind].path

    def ask(model: object) -> _Page:
        body = {"model": model, "max_tokens": 1} | prompt
        return _page(config, target, path, json.dumps(body).encode())

    with contextlib.suppress(_UnansweredError):
        page = ask(name)
        words = error_words(page.content)
        if model not in models and (
            page.status in (_NOT_FOUND, *_NOT_A_REQUEST)
            and (name in str(page.content) or any(ask(m["id"]).status == _OK for m in models[:1]))
        ):
            option = "--model" if name == config.model else "--served-model-name"
            raise UsageError(
                f"{target.url} serves {_names(models)}, and refuses {option} {name}: {words}"
            )
        if hint := _hint(config, page, one_line(name), only_route=config.chat or kind == "text"):
            at = target.path(path)
            raise UsageError(f"{target.url} refuses {at} (status {page.status}): {words}: {hint}")


def _hint(config: EndpointConfig, page: _Page, name: str, *, only_route: bool) -> str:
    """What to do about a refusal that every request would meet; empty if there is none.

    `only_route`: requests have no other route.
    """
    if page.status in _REFUSED_KEY:
        key = "the wrong key" if config.key else "not set"
        return (
            f"API_KEY is {key} (a key in another header: --endpoint-header), or the key may not "
            f"use the model {name} (another: --served-model-name)"
        )
    # A run waits as long as Retry-After says.
    if page.status in _AT_A_LIMIT and b"retry-after" not in page.headers:
        return "raise that limit, then start again"
    if only_route and page.status in _NO_ROUTE:
        return f"is the path of --endpoint right, and {name} a model that answers there?"
    return ""


def _names(models: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(one_line(model["id"]) for model in models[:5]) or "no model"


def _same_model(name: str, other_name: object) -> bool:
    """Whether both are the same hub id or folder."""
    if not isinstance(other_name, str) or not other_name:
        return False
    if name.casefold() == other_name.casefold():
        return True
    with contextlib.suppress(OSError, ValueError):
        return Path(name).is_dir() and Path(name).samefile(other_name)
    return False


def _kind(config: EndpointConfig, target: Target, model: Mapping[str, Any]) -> ServerKind:
    owner = str(model.get("owned_by") or "").casefold()
    if owner in _OWNERS:
        return _OWNERS[owner]
    if _info(config, target, "/get_model_info", "/model_info").get("model_path"):
        return "sglang"
    return "text"


def _info(config: EndpointConfig, target: Target, *paths: str) -> dict[str, Any]:
    """The first JSON object that one of these paths returns; an empty one if none does."""
    for path in paths:
        with contextlib.suppress(_UnansweredError):
            response = _ask(config, target, path)
            if response.status == _OK and isinstance(response.content, dict):
                return response.content
    return {}


def _takes(config: EndpointConfig, target: Target, path: str) -> bool:
    """Whether the server has a route at this path that takes requests."""
    with contextlib.suppress(_UnansweredError):
        return _ask(config, target, path, b"{}").status in _NOT_A_REQUEST
    return False


def _ask(config: EndpointConfig, target: Target, path: str, body: bytes | None = None) -> _Page:
    """As `_page`. Raises _UnansweredError also if the server refuses the key."""
    page = _page(config, target, path, body)
    if page.status in _REFUSED_KEY:
        fault = "refused the key" if config.key else "requires a key"
        raise _UnansweredError(f"{target.url} {fault} (status {page.status}): set API_KEY")
    return page


def _page(config: EndpointConfig, target: Target, path: str, body: bytes | None = None) -> _Page:
    """GET a path of the server, or POST this JSON to it, and read the answer as those of runs.

    Raises _UnansweredError if there is no answer, or if the server redirects, and UsageError if the
    answer cannot be read.
    """
    lines = header_lines(target.authority, config.key, config.headers).decode()
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    method = "GET" if body is None else "POST"
    # A server may close a connection of the other kind without a word.
    kind, scheme = ("plain HTTP", "http") if target.tls else ("TLS", "https")
    other_scheme = f": if it speaks {kind}, give its URL with {scheme}://"
    head = f"{method} {target.path(path)} HTTP/1.1\r\n{lines}{length}\r\n".encode()
    try:
        with _connect(config, target) as peer:
            page = _Page(replace(target, address=peer.getpeername()[0]))
            _exchange(peer, head + (body or b""), page)
    except (OSError, ValueError) as error:
        hint = other_scheme if isinstance(error, ssl.SSLEOFError | ConnectionResetError) else ""
        why = f"{why_unreachable(error, _ASK_S)}{hint}"
        raise _UnansweredError(f"{target.url}: {why}") from error
    if page.why:
        if page.any_data:
            raise UsageError(f"{target.url} {page.why}")
        raise _UnansweredError(f"{target.url} {page.why}{other_scheme}")
    if page.status == _BAD_REQUEST and not target.tls and "HTTPS" in str(page.content):
        # As nginx, Go's and Apache's servers put it.
        raise UsageError(f"{target.url} speaks TLS: give its URL with https://")
    if 300 <= page.status < 400:
        where = one_line(page.headers.get(b"location", b"elsewhere"))
        raise _UnansweredError(f"{target.url} redirects to {where}: give --endpoint that URL")
    return page


def _exchange(peer: socket.socket, request: bytes, page: _Page) -> None:
    """Send a request and read its answer. Raises OSError."""
    connection = Connection(lambda connection: None, lambda connection: None)
    transport = SimpleNamespace(write=peer.sendall, abort=peer.close)
    connection.connection_made(cast(asyncio.BaseTransport, transport))
    connection.send(request, page)
    deadline = time.monotonic() + _ASK_S
    while not (page.status or page.why):
        # A server that sends a byte now and then would never meet a limit on the pause.
        peer.settimeout(max(0.001, deadline - time.monotonic()))
        if data := peer.recv(_PIECE):
            connection.data_received(data)
        else:
            connection.connection_lost(None)
    page.headers = connection.headers


def _connect(config: EndpointConfig, target: Target) -> socket.socket:
    # To the address of the answer before: a dead one in front of it would cost its time-out again.
    peer = socket.create_connection((target.address or target.host, target.port), _ASK_S)
    if not target.tls:
        return peer
    try:
        context = ssl.create_default_context(cafile=config.ca_file)
        return context.wrap_socket(peer, server_hostname=target.host)
    except (OSError, ValueError):
        peer.close()
        raise
