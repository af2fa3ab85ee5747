"""Builds a stand-in server's answers from requests, in the dialects of real servers."""

import gzip
import json
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from meta_tests.features.servers.stand_in_options import Fault, StandIn

SERVER = "mlperf-suite-stand-in"
"""The Server header of every answer."""
COMPLETIONS, GENERATE, SCALE_OUT = "/v1/completions", "/generate", "/inference/v1/generate"
_EVENTS = "text/event-stream; charset=utf-8"
_FIRST_ID = 100
_WORDS = ("each ", "answer ", "measures ", "nothing ", "besides ", "clients ")
_DONE = b"data: [DONE]\n\n"
_END_OF_CHUNKS = b"0\r\n\r\n"


class Refusal(Exception):  # noqa: N818 - not an error of this process
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What a completion request asks for.

    `limit` and `least`: tokens. `ids`: token ids instead of or besides text. `usage`: token counts
    at the end of a stream. `native`: SGLang's /generate. `ids_alone`: vLLM's route for token ids.
    `logprobs_from`: the first position of the prompt whose log-probability SGLang reports, -1 for
    those of the answer alone, None for none; `choices`: the tokens to report in the answer.
    """

    prompt: tuple[int, ...] | str
    limit: int
    least: int
    stream: bool
    ids: bool
    usage: bool
    native: bool = False
    ids_alone: bool = False
    logprobs_from: int | None = None
    choices: tuple[int, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt.split() if isinstance(self.prompt, str) else self.prompt)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: `head` at once, then each of `parts` at its time in `at_s`, from the request.

    `then`: what happens to the connection afterwards: it is kept for the next request or left
    silent; or the whole process ends before the first byte.
    """

    head: bytes = b""
    parts: tuple[bytes, ...] = ()
    at_s: tuple[float, ...] = ()
    then: Literal["keep", "hang", "die"] = "keep"


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Completion(msgspec.Struct):
    prompt: tuple[int, ...] | str | None = None
    model: str | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    stream: bool = False
    stream_options: _StreamOptions | None = None
    return_token_ids: bool | None = None
    detokenize: bool = True


_OPENAI = """model prompt max_tokens stream stream_options best_of echo frequency_penalty logprobs n
presence_penalty seed stop temperature top_p user"""
_TENSORRT = """min_tokens detokenize add_special_tokens min_p repetition_penalty skip_special_tokens
stop_token_ids top_k ignore_eos include_stop_str_in_output"""
_VLLM_SAMPLING = """max_tokens min_tokens ignore_eos temperature top_p top_k min_p frequency_penalty
presence_penalty repetition_penalty seed n detokenize stop include_stop_str_in_output
stream_interval"""
_FIELDS = {
    "tensorrt-llm": {*_OPENAI.split(), *_TENSORRT.split()},
    "transformers": {*_OPENAI.split(), "suffix", "generation_config"},
}
"""The fields of a completion for servers that refuse all others, by dialect."""


class _VllmGenerate(msgspec.Struct):
    """The body of vLLM's /inference/v1/generate."""

    token_ids: tuple[int, ...]
    sampling_params: dict[str, Any]
    model: str | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None


class _Sampling(msgspec.Struct):
    max_new_tokens: int = 128
    min_new_tokens: int = 0


class _Generate(msgspec.Struct):
    """The body of SGLang's /generate."""

    input_ids: tuple[int, ...]
    sampling_params: _Sampling = msgspec.field(default_factory=_Sampling)
    stream: bool = False
    return_logprob: bool = False
    logprob_start_len: int = -1
    token_ids_logprob: tuple[int, ...] = ()


def read_request(options: StandIn, path: str, body: bytes) -> CompletionRequest:
    """What a completion request asks for. Raises Refusal if such a server would refuse it."""
    refused = 422 if options.dialect == "transformers" else 400
    try:
        if path == GENERATE:
            request = _from_generate(msgspec.json.decode(body, type=_Generate))
        elif path == SCALE_OUT:
            request = _from_scale_out(options, msgspec.json.decode(body, type=_VllmGenerate))
        else:
            completion = msgspec.json.decode(body, type=_Completion)
            if options.dialect in _FIELDS:
                _check_fields(msgspec.json.decode(body), _FIELDS[options.dialect], refused)
            request = _from_completion(options, completion)
    except msgspec.DecodeError as error:
        raise Refusal(refused, str(error)) from error
    if request.limit < 1:
        raise Refusal(400, "max_tokens must be at least 1.")
    if request.prompt_tokens + request.limit > options.max_model_len:
        raise Refusal(
            400, f"This model's maximum context length is {options.max_model_len} tokens."
        )
    return request


def _check_fields(body: dict[str, Any], allowed: Collection[str], status: int) -> None:
    for name in body:
        if name not in allowed:
            raise Refusal(status, f"Object contains unknown field `{name}`")


def _from_generate(body: _Generate) -> CompletionRequest:
    limit, least = body.sampling_params.max_new_tokens, body.sampling_params.min_new_tokens
    return CompletionRequest(
        body.input_ids,
        limit,
        least,
        body.stream,
        ids=True,
        usage=True,
        native=True,
        logprobs_from=body.logprob_start_len if body.return_logprob else None,
        choices=body.token_ids_logprob,
    )


def _from_scale_out(options: StandIn, body: _VllmGenerate) -> CompletionRequest:
    _check_model(options, body.model)
    sampling = body.sampling_params
    _check_fields(sampling, _VLLM_SAMPLING.split(), 400)
    limit = sampling.get("max_tokens", options.max_model_len - len(body.token_ids))
    least, usage = sampling.get("min_tokens", 0), _wants_usage(body.stream_options)
    return CompletionRequest(
        body.token_ids, limit, least, body.stream, ids=True, usage=usage, ids_alone=True
    )


def _wants_usage(options: _StreamOptions | None) -> bool:
    return options is not None and options.include_usage


def _check_model(options: StandIn, model: str | None) -> None:
    if options.dialect == "transformers" and model != options.model:
        raise Refusal(400, f"Server is pinned to '{options.model}'.")
    if model not in (None, options.model):
        raise Refusal(404, f"The model `{model}` does not exist.")


def _from_completion(options: StandIn, body: _Completion) -> CompletionRequest:
    if body.prompt is None:
        raise Refusal(400, "Either prompt or prompt_embeds must be provided.")
    if options.dialect in ("text", "transformers") and not isinstance(body.prompt, str):
        raise Refusal(500 if options.dialect == "text" else 422, "prompt: a text is expected")
    _check_model(options, body.model)
    limit, least, ids = 16, body.min_tokens, bool(body.return_token_ids)
    if options.dialect == "tensorrt-llm":
        ids = not body.detokenize
    ids = ids and options.dialect not in ("text", "transformers")
    limit = limit if body.max_tokens is None else body.max_tokens
    usage = options.dialect != "transformers" and _wants_usage(body.stream_options)
    return CompletionRequest(body.prompt, limit, least, body.stream, ids, usage)


def plain(
    status: int, body: bytes = b"", content: str = "application/json", headers: str = ""
) -> Reply:
    """An answer that is sent at once and in whole."""
    return Reply(parts=(_whole(status, body, content, headers),), at_s=(0.0,))


def refusal_reply(refusal: Refusal, headers: str = "") -> Reply:
    """The answer to a refused request, in vLLM's format."""
    kind = HTTPStatus(refusal.status).phrase.replace(" ", "") + "Error"
    error = {"message": str(refusal), "type": kind, "param": None, "code": refusal.status}
    return plain(refusal.status, _json({"error": error}), headers=headers)


def _whole(status: int, body: bytes, content: str, headers: str = "") -> bytes:
    return _head(status, content, f"Content-Length: {len(body)}\r\n{headers}") + body


def _head(status: int, content: str, headers: str) -> bytes:
    line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    return f"{line}\r\nServer: {SERVER}\r\nContent-Type: {content}\r\n{headers}\r\n".encode()


def _json(value: object) -> bytes:
    # Not msgspec, which refuses numbers like 2**70.
    return json.dumps(value, separators=(",", ":")).encode()


def page_reply(options: StandIn, path: str) -> Reply | None:
    """What a server of this dialect reports about itself at a path; None if it has no such path."""
    dialect = options.dialect
    if path == "/v1/models":
        return plain(200, _json({"object": "list", "data": [_card(options)]}))
    if path == "/health" and dialect != "text":
        return plain(200)
    if path == "/version" and dialect in ("vllm", "tensorrt-llm"):
        return plain(200, _json({"version": "0+stand.in"}))
    if dialect == "vllm":
        return _told_by_vllm(options, path)
    return _told_by_sglang(options, path) if dialect == "sglang" else None


def _told_by_vllm(options: StandIn, path: str) -> Reply | None:
    if path == SCALE_OUT:
        return refusal_reply(Refusal(403, "Scale-out endpoints are disabled."))
    if path == "/metrics" and options.speculates is not None:
        return plain(200, _metrics(options.speculates))
    if path == "/server_info" and options.batch:
        limits = {"parallel_config": {}, "scheduler_config": {"max_num_seqs": options.batch}}
        return plain(200, _json({"vllm_config": limits}))
    return None


def _told_by_sglang(options: StandIn, path: str) -> Reply | None:
    if path in ("/get_model_info", "/model_info"):
        info = {"model_path": options.model, "tokenizer_path": options.model, "is_generation": True}
        return plain(200, _json(info))
    if path in ("/get_server_info", "/server_info"):
        limits = {"context_length": options.max_model_len, "max_total_num_tokens": 10**6}
        names = {"model_path": options.root or options.model, "served_model_name": options.model}
        states = [{"effective_max_running_requests_per_dp": options.batch}] if options.batch else []
        told = {**names, **limits, **_speculative_arguments(options.speculates)}
        return plain(200, _json({**told, "version": "0+stand.in", "internal_states": states}))
    return None


def _speculative_arguments(steps: int | None) -> dict[str, object]:
    if not steps:
        return {} if steps is None else {"speculative_algorithm": None}
    return {"speculative_algorithm": "EAGLE3", "speculative_num_steps": steps}


def _metrics(steps: int) -> bytes:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [f'{name}{{engine="0",position="{place}"}} 0.0' for place in range(steps)]
    return "\n".join(['vllm:num_requests_running{engine="0"} 0.0', *lines]).encode()


def _card(options: StandIn) -> dict[str, object]:
    card: dict[str, object] = {"id": options.model, "object": "model", "created": 0}
    if options.dialect in ("text", "transformers"):
        return {**card, "owned_by": "me", "permissions": []}
    if options.dialect == "tensorrt-llm":
        return {**card, "owned_by": "tensorrt_llm"}
    limits = {
        # SGLang's is what it serves.
        "root": (options.root if options.dialect == "vllm" else None) or options.model,
        "parent": None,
        "max_model_len": options.max_model_len,
    }
    return {**card, "owned_by": options.dialect, **limits}


def without_answer(options: StandIn, fault: Fault | None) -> Reply | None:
    """What a fault sends instead of an answer; None if it spoils an answer or does nothing."""
    match fault:
        case "status-500" | "status-503" | "turned-away":
            when = f"Retry-After: {options.retry_after_s}\r\n" if fault == "turned-away" else ""
            status = int(fault.removeprefix("status-")) if not when else 429
            refusal = Refusal(status, "the stand-in server refuses, as configured")
            return refusal_reply(refusal, when)
        case "redirect":
            return plain(302, headers=f"Location: {options.redirect_to}\r\n")
        case "error-whole":
            return plain(200, _json({"error": _DEAD}))
        case "dies" | "no-answer":
            return Reply(then="die" if fault == "dies" else "hang")
        case _:
            return None


def reply(options: StandIn, request: CompletionRequest, fault: Fault | None) -> Reply:
    refusal = without_answer(options, fault)
    if refusal is not None:
        return refusal
    answer = _Answer(options, request, fault)
    if request.stream:
        return _streamed(options, answer)
    message = _scores(request) if request.logprobs_from is not None else answer.whole()
    content = _whole(200, _json(message), "application/json")
    return Reply(parts=(content,), at_s=(options.first_token_s + options.rest_s,))


def _scores(request: CompletionRequest) -> dict[str, Any]:
    """SGLang's answer of one token with log-probabilities, which are the same wherever a token
    stands, and the likeliest token is always the same."""

    def report(token: int) -> list[Any]:
        return [-token / 1000, token, None]

    likeliest = report(_FIRST_ID)
    meta: dict[str, Any] = {"prompt_tokens": request.prompt_tokens, "completion_tokens": 1}
    meta |= {"cached_tokens": request.prompt_tokens - 1, "output_token_logprobs": [likeliest]}
    if request.choices:
        meta["output_token_ids_logprobs"] = [[report(token) for token in request.choices]]
    if request.logprobs_from != -1:
        assert isinstance(request.prompt, tuple)
        first, *later = request.prompt[request.logprobs_from :]
        meta["input_token_logprobs"] = [[None, first, None], *map(report, later)]
        meta["input_top_logprobs"] = [None, *([likeliest] for _ in later)]
    return {"text": "", "output_ids": [_FIRST_ID], "meta_info": meta}


def _streamed(options: StandIn, answer: "_Answer") -> Reply:
    fault = answer.fault
    head = _head(200, _EVENTS, "Transfer-Encoding: chunked\r\n")
    messages = answer.messages()
    parts = [_event(message) for message in messages]
    end = b"" if options.dialect == "transformers" else _DONE
    ending = b"".join(map(_event, answer.last_words())) + end
    then: Literal["keep", "hang"] = "keep"
    match fault:
        case "no-first-token":
            return Reply(head, then="hang")
        case "stops":
            parts, ending, then = parts[:1], b"", "hang"
        case "ends-early":
            parts, ending = parts[:1], b""
        case "error-in-stream" | "error-event" | "error-detail":
            parts, ending = [parts[0], _ERRORS[fault]], _DONE
    parts[-1] += ending
    if fault == "compressed":
        head = head.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
        parts = [gzip.compress(part) for part in parts]
    pieces = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    if then == "keep":
        pieces[-1] += _END_OF_CHUNKS
    last = max(len(messages) - 1, 1)
    at_s = tuple(options.first_token_s + options.rest_s * i / last for i in range(len(pieces)))
    return Reply(head, tuple(pieces), at_s, then)


def _event(message: object) -> bytes:
    return b"data: " + _json(message) + b"\n\n"


_DEAD = {"message": "EngineCore died", "type": "InternalServerError", "code": 500}
_ERRORS = {
    "error-in-stream": _event({"error": _DEAD}),
    "error-event": b"event: error\n" + _event(_DEAD),
    "error-detail": _event({"detail": _DEAD["message"]}),
}


class _Answer:
    def __init__(self, options: StandIn, request: CompletionRequest, fault: Fault | None) -> None:
        self.fault = fault
        self._options = options
        self._request = request
        tokens = min(max(options.tokens, request.least), request.limit)
        self._finish = "length" if fault == "cut" or tokens == request.limit else "stop"
        self._tokens = max(1, tokens // 2) if fault == "cut" else tokens
        self._ids = self._token_ids()
        text = "".join(_WORDS[i % len(_WORDS)] for i in range(self._tokens))
        # Split by characters, so that chunks begin within words.
        self._text = [
            text[len(text) * i // self._tokens : len(text) * (i + 1) // self._tokens]
            for i in range(self._tokens)
        ]

    def _token_ids(self) -> list[int]:
        span = self._options.vocabulary - _FIRST_ID
        ids = [_FIRST_ID + i % span for i in range(self._tokens)]
        if self.fault == "id-beyond":
            ids[self._tokens // 2] = self._options.vocabulary
        return ids

    def _ends(self) -> list[int]:
        """How many tokens have been sent after each chunk."""
        step = self._options.chunk_tokens or self._tokens
        return [1, *range(1 + step, self._tokens, step), *([self._tokens] * (self._tokens > 1))]

    def messages(self) -> list[dict[str, Any]]:
        """The messages of a stream that carry tokens."""
        ends = self._ends()
        if self._request.native:
            return [self._native(end) for end in ends]
        starts = [0, *ends[:-1]]
        return [
            self._completion(self._choice(start, end), {})
            for start, end in zip(starts, ends, strict=True)
        ]

    def last_words(self) -> list[dict[str, Any]]:
        """The messages of a stream after the tokens."""
        if self._options.dialect == "transformers":
            finished = {"index": 0, "text": "", "finish_reason": self._finish}
            return [self._completion(finished, {"usage": self._usage()})]
        if self._request.native or not self._request.usage:
            return []
        return [self._completion(None, {"usage": self._usage(), **self._times()})]

    def _times(self) -> dict[str, Any]:
        if not self._options.tells_times:
            return {}
        first_ms = self._options.first_token_s * 1000
        times = {"queue_time_ms": first_ms / 4, "time_to_first_token_ms": first_ms / 2}
        return {"metrics": times}

    def whole(self) -> dict[str, Any]:
        return self._completion(self._choice(0, self._tokens), {"usage": self._usage()})

    def _completion(self, choice: dict[str, Any] | None, more: dict[str, Any]) -> dict[str, Any]:
        if self._request.ids_alone:
            only = {"request_id": "0", "output_mode": "tokens"}
            return {**only, "choices": [choice] if choice else [], **more}
        model = "another-model" if self.fault == "other-model" else self._options.model
        content = {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": model}
        return {**content, "choices": [choice] if choice else [], **more}

    def _choice(self, start: int, end: int) -> dict[str, Any]:
        finish = self._finish if end == self._tokens else None
        text = "".join(self._text[start:end])
        if self._options.dialect == "transformers":
            # A later message has the finish reason.
            return {"index": 0, "text": text, "finish_reason": None}
        if self._request.ids_alone:
            return {"index": 0, "token_ids": self._ids[start:end], "finish_reason": finish}
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
        if self._options.dialect == "text":
            return choice
        ids = self._ids[start:end] if self._request.ids else None
        if self._options.dialect == "tensorrt-llm":
            return {**choice, "text": "" if ids else text, "token_ids": ids, "stop_reason": None}
        prompt = self._request.prompt if start == 0 and ids else None
        return {**choice, "stop_reason": None, "prompt_token_ids": prompt, "token_ids": ids}

    def _native(self, end: int) -> dict[str, Any]:
        length = {"length": self._request.limit} if self._finish == "length" else {}
        finish = {"type": self._finish, **length} if end == self._tokens else None
        meta = {"id": "0", "finish_reason": finish, "cached_tokens": self._cached() or 0}
        meta |= {name: self._usage(end)[name] for name in ("prompt_tokens", "completion_tokens")}
        return {"text": "".join(self._text[:end]), "output_ids": self._ids[:end], "meta_info": meta}

    def _usage(self, tokens: int | None = None) -> dict[str, Any]:
        count = self._tokens if tokens is None else tokens
        prompt = self._request.prompt_tokens
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": count}
        usage["total_tokens"] = prompt + count
        if (cached := self._cached()) is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        return usage

    def _cached(self) -> int | None:
        """Cached tokens of the prompt; None if a server of this dialect does not report them."""
        if self.fault == "cached":
            return self._request.prompt_tokens
        return 0 if self._options.dialect in ("sglang", "tensorrt-llm") else None
