"""The request and answer formats of each kind of server.

Sources: vllm/entrypoints/openai/completion/protocol.py of vLLM 0.22 to 0.32 and
vllm/entrypoints/scale_out/token_in_token_out/protocol.py of 0.32;
vllm/entrypoints/generate/base/protocol.py of 0.32; sglang/srt/managers/io_struct.py,
its native API's page and sglang/srt/entrypoints/openai/protocol.py;
tensorrt_llm/serve/openai_protocol.py; transformers/cli/serving/completion.py of transformers 5.19.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from mlperf_suite.engines.messages import Sampling
from mlperf_suite.secrets import redact
from mlperf_suite.untrusted_files import printable

COMPLETIONS, CHAT_COMPLETIONS = "/v1/completions", "/v1/chat/completions"
_MAX_TIME_MS = 1e9
_SPARSE_PIECES = 16
"""Tokens per piece of an answer that is not timed; vLLM supports this from 0.32 on."""
_MAX_MESSAGE_LENGTH = 4096
"""How much of a server's message is read, in bytes or characters, before it becomes one line."""


class AnswerError(Exception):
    """The response is not an answer; the message says why, in a few words."""


class PartialAnswer:
    """An answer as received so far. `token_ids` if the server gives them, else `text`."""

    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    server_s: tuple[float, ...] = ()

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self.text: list[str] = []


Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A server's own count. Messages between processes hold no larger ones."""


class _PromptDetails(msgspec.Struct):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _PromptDetails | None = None


class CalledFunction(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class CallPiece(msgspec.Struct):
    """A piece of a tool call; the first one of a call has its id and name."""

    index: int | None = None
    id: str | None = None
    function: CalledFunction | None = None


class Delta(msgspec.Struct):
    """A piece of a chat's answer. Servers name reasoning one way or the other, or both."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallPiece] | None = None


class Choice(msgspec.Struct):
    """The answer in an event of a completion, or of a chat completion."""

    index: int | None = None
    text: str | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    message: Delta | None = None
    delta: Delta | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None


class _Completion(msgspec.Struct):
    choices: list[Choice] | None = None
    usage: _Usage | None = None
    model: str | None = None
    error: Any = None
    metrics: Any = None


_completion = msgspec.json.Decoder(_Completion)


class Adapter:
    """One kind of server. As it stands: `/v1/completions` as OpenAI defines it.

    `path`: where prompts go. `token_ids`: it takes and returns them; otherwise text. `messages`:
    its prompts are a chat's messages, as JSON, and are not tokens whatever it returns.
    """

    path = COMPLETIONS
    token_ids = True
    messages = False

    def body(
        self, prompt: Sequence[int] | str, sampling: Sampling, model: str, salt: str
    ) -> dict[str, Any]:
        """The JSON of a request. It holds every sampling value, since servers fill in missing ones
        from the model's own generation config. `salt`: keeps a prefix cache from answering."""
        return {
            "model": model,
            "prompt": prompt,
            **_openai_sampling(sampling),
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra_fields(sampling, salt),
        }

    def extra_fields(self, sampling: Sampling, salt: str) -> dict[str, Any]:
        """The fields of a completion that this server adds to OpenAI's."""
        return {}

    def read(self, event: bytes, answer: PartialAnswer) -> None:
        """Add one event of a stream, or a whole answer. Raises AnswerError."""
        completion = _decoded(_completion, event)
        answer.model = completion.model or answer.model
        for choice in completion.choices or _no_choices(completion, event):
            if choice.index:
                raise AnswerError("sent several answers to a request for one")
            if choice.token_ids:
                answer.token_ids += choice.token_ids
            answer.finish_reason = choice.finish_reason or answer.finish_reason
            self.take(choice, answer)
        if (usage := completion.usage) is not None:
            details = usage.prompt_tokens_details
            answer.prompt_tokens = usage.prompt_tokens
            answer.completion_tokens = usage.completion_tokens
            answer.cached_tokens = details.cached_tokens if details else None
        if completion.metrics is not None:
            answer.server_s = _server_s(completion.metrics)

    def take(self, choice: Choice, answer: PartialAnswer) -> None:
        """Add the text of an event. Raises AnswerError if it is in another place."""
        if choice.finish_reason or not (choice.token_ids or choice.text):
            # A piece of text is in the right place; an answer in one piece has its reason too.
            _check_place(choice)
        if choice.text:
            answer.text.append(choice.text)


def _check_place(choice: Choice) -> None:
    """Raises AnswerError if any of the answer is where chat completions have it, so that nobody
    would count its tokens."""
    # Called for every answer: a loop over the names takes four times as long.
    name = (
        (choice.message and _says(choice.message) and "message")
        or (choice.delta and _says(choice.delta) and "delta")
        or (choice.reasoning and "reasoning")
        or (choice.reasoning_content and "reasoning_content")
        or (choice.tool_calls and "tool_calls")
    )
    if name:
        raise AnswerError(
            f"answered in `{name}`, as chat completions do: it must answer {COMPLETIONS} in "
            "`text` or token ids alone"
        )


def _says(delta: Delta) -> bool:
    """Whether it has anything of an answer."""
    return any(msgspec.structs.astuple(delta))


def _no_choices(completion: _Completion, event: bytes) -> Sequence[Choice]:
    """An event without choices has the usage, keeps the connection alive, or is an error that does
    not say so: then AnswerError is raised."""
    if completion.usage is None:
        _check_error(event)
    return ()


def _server_s(metrics: Any) -> tuple[float, ...]:
    """How long a request was queued and how long its first token took after that, in s, as vLLM
    0.32 adds them to the usage with `--enable-per-request-metrics`; empty for anything else."""
    if not isinstance(metrics, dict):
        return ()
    times_ms = [metrics.get(name) for name in ("queue_time_ms", "time_to_first_token_ms")]
    usable = [ms for ms in times_ms if isinstance(ms, int | float) and 0 <= ms <= _MAX_TIME_MS]
    return tuple(ms / 1000 for ms in usable) if len(usable) == len(times_ms) else ()


def _openai_sampling(sampling: Sampling) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "n": 1,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    }
    if sampling.seed is not None:
        fields["seed"] = sampling.seed
    if sampling.stop:
        fields["stop"] = [sampling.stop]
    return fields


def _more_sampling(sampling: Sampling) -> dict[str, Any]:
    """What servers of language models agree on beside OpenAI's fields."""
    return {
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "min_tokens": sampling.min_tokens,
        **_without_end(sampling),
    }


def _without_end(sampling: Sampling) -> dict[str, Any]:
    return {"ignore_eos": True} if sampling.ignore_eos else {}


def _vllm_sampling(sampling: Sampling) -> dict[str, Any]:
    fields = _more_sampling(sampling)
    if sampling.stop:
        fields |= _with_stop(sampling)
    if not sampling.wants_first:
        fields["stream_interval"] = _SPARSE_PIECES
    return fields


def _with_stop(sampling: Sampling) -> dict[str, Any]:
    """The field that keeps the stop text in an answer, as vLLM and TensorRT-LLM name it."""
    return {"include_stop_str_in_output": True} if sampling.stop else {}


class Vllm(Adapter):
    """vLLM: prompts and answers are token ids."""

    def extra_fields(self, sampling: Sampling, salt: str) -> dict[str, Any]:
        return _vllm_sampling(sampling) | {"return_token_ids": True, "cache_salt": salt}


class VllmGenerate(Adapter):
    """vLLM's `/inference/v1/generate`: token ids both ways, without detokenization.

    vLLM 0.32 mounts it with `--enable-scale-out` or `--tokens-only`, and it streams as completions
    do. Missing fields take the defaults of vLLM's SamplingParams, never the model's.
    """

    path = "/inference/v1/generate"

    def body(
        self, prompt: Sequence[int] | str, sampling: Sampling, model: str, salt: str
    ) -> dict[str, Any]:
        params = _openai_sampling(sampling) | _vllm_sampling(sampling)
        return {
            "model": model,
            "token_ids": prompt,
            "sampling_params": params | {"detokenize": bool(sampling.stop)},
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_salt": salt,
        }


class SglangCompletions(Adapter):
    """SGLang's `/v1/completions` in versions that take `return_token_ids`: token ids both ways,
    those of an answer as deltas."""

    def extra_fields(self, sampling: Sampling, salt: str) -> dict[str, Any]:
        return _more_sampling(sampling) | {
            "top_k": sampling.top_k or -1,
            "skip_special_tokens": True,
            "return_token_ids": True,
            "cache_salt": salt,
            **({"no_stop_trim": True} if sampling.stop else {}),
        }


class TensorRtLlm(Adapter):
    """TensorRT-LLM: token ids in place of text, as it is asked not to detokenize."""

    def extra_fields(self, sampling: Sampling, salt: str) -> dict[str, Any]:
        # It turns stops into token ids, so that they need no text.
        return _more_sampling(sampling) | _with_stop(sampling) | {"detokenize": False}


class StrictText(Adapter):
    """A server that takes only OpenAI's own fields and refuses all others."""

    token_ids = False


class Text(StrictText):
    """Any other server: text in, text out. Adds vLLM's and llama.cpp's fields to OpenAI's."""

    def extra_fields(self, sampling: Sampling, salt: str) -> dict[str, Any]:
        return _more_sampling(sampling) | {"repeat_penalty": 1.0, "cache_salt": salt}


class Transformers(StrictText):
    """transformers serve: OpenAI's own fields and `generation_config`, a JSON text.

    The server builds a GenerationConfig from that text alone. Without continuous batching,
    generate() fills in what is missing from the model's own config. With continuous batching
    nothing does: the ids that end an answer must be sent, and the minimum answer length is ignored.
    """

    def extra_fields(self, sampling: Sampling, salt: str) -> dict[str, Any]:
        config: dict[str, Any] = {
            "max_new_tokens": sampling.max_tokens,
            "min_new_tokens": sampling.min_tokens,
            "do_sample": sampling.temperature > 0,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": 0.0,
            "typical_p": 1.0,
            "repetition_penalty": 1.0,
            "no_repeat_ngram_size": 0,
            "num_beams": 1,
        }
        if sampling.end_ids:
            config["eos_token_id"] = sampling.end_ids
        return {"generation_config": msgspec.json.encode(config).decode()}


class _FinishReason(msgspec.Struct):
    type: str | None = None
    message: str | None = None


class _MetaInfo(msgspec.Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None
    finish_reason: _FinishReason | str | None = None


class _Generated(msgspec.Struct):
    output_ids: list[int] | None = None
    meta_info: _MetaInfo | None = None
    error: Any = None


_generated = msgspec.json.Decoder(_Generated)


class Sglang(Adapter):
    """SGLang's native `/generate`: token ids both ways.

    Each event holds either the whole answer so far, at times with fewer tokens than before, or the
    tokens since the last event, depending on the server's settings; `meta_info.completion_tokens`
    is the count to trust.
    """

    path = "/generate"

    def body(
        self, prompt: Sequence[int] | str, sampling: Sampling, model: str, salt: str
    ) -> dict[str, Any]:
        return {
            "input_ids": prompt,
            "sampling_params": {
                "max_new_tokens": sampling.max_tokens,
                "min_new_tokens": sampling.min_tokens,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k or -1,
                "min_p": 0.0,
                "frequency_penalty": 0.0,
                "presence_penalty": 0.0,
                "repetition_penalty": 1.0,
                **({} if sampling.seed is None else {"sampling_seed": sampling.seed}),
                **_without_end(sampling),
                "skip_special_tokens": True,
                **({"stop": [sampling.stop], "no_stop_trim": True} if sampling.stop else {}),
            },
            "extra_key": salt,
            "stream": True,
        }

    def read(self, event: bytes, answer: PartialAnswer) -> None:
        generated = _decoded(_generated, event)
        meta = generated.meta_info or _MetaInfo()
        count = meta.completion_tokens
        if count is None:
            _check_error(event)
            raise AnswerError("sent an event without meta_info.completion_tokens")
        new, ids = count - (answer.completion_tokens or 0), generated.output_ids or []
        if len(ids) >= count:
            answer.token_ids = ids[:count]
        elif len(ids) == new:
            answer.token_ids = answer.token_ids + ids
        answer.prompt_tokens, answer.completion_tokens = meta.prompt_tokens, count
        answer.cached_tokens = meta.cached_tokens
        reason = meta.finish_reason
        answer.finish_reason = reason.type if isinstance(reason, _FinishReason) else reason
        if answer.finish_reason == "abort":
            raise AnswerError(error_line(msgspec.to_builtins(reason)))
        if answer.finish_reason is not None and len(answer.token_ids) != count:
            raise AnswerError(f"sent {len(answer.token_ids)} tokens where it counts {count}")


class Chat(Text):
    """Chat completions of any server: messages in, text out."""

    path = CHAT_COMPLETIONS
    messages = True

    def body(
        self, prompt: Sequence[int] | str, sampling: Sampling, model: str, salt: str
    ) -> dict[str, Any]:
        body = super().body(prompt, sampling, model, salt)
        return {"messages": body.pop("prompt"), **body}

    def take(self, choice: Choice, answer: PartialAnswer) -> None:
        delta = choice.delta or choice.message
        if delta is None:
            return
        for name in ("reasoning", "reasoning_content", "tool_calls"):
            if getattr(delta, name):
                raise AnswerError(f"answered in `{name}`, where only `content` is requested")
        if delta.content:
            answer.text.append(delta.content)


class VllmChat(Chat):
    """vLLM's chat completions, whose answers are token ids."""

    token_ids = True

    def extra_fields(self, sampling: Sampling, salt: str) -> dict[str, Any]:
        return _vllm_sampling(sampling) | {"return_token_ids": True, "cache_salt": salt}


STRICT_TEXT = "text, OpenAI's fields alone"
CHAT, VLLM_CHAT = "chat, text", "chat, vLLM's token ids"
TRANSFORMERS = "text, with a generation_config"
ADAPTERS: dict[str, Adapter] = {
    "vllm": Vllm(),
    "vllm-generate": VllmGenerate(),
    "sglang": Sglang(),
    "sglang-completions": SglangCompletions(),
    "tensorrt-llm": TensorRtLlm(),
    "text": Text(),
    TRANSFORMERS: Transformers(),
    STRICT_TEXT: StrictText(),
    CHAT: Chat(),
    VLLM_CHAT: VllmChat(),
}
"""By `ServerKind`, plus the forms of `text` that are tried after a server refuses the others, and
those of chats."""


def _decoded(decoder: msgspec.json.Decoder[Any], event: bytes) -> Any:
    try:
        content = decoder.decode(event)
    except msgspec.ValidationError as error:
        raise AnswerError(f"sent JSON that is not a completion: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(f"sent invalid JSON: {one_line(event)}") from error
    if content.error:
        raise AnswerError(error_line(event))
    return content


def _check_error(event: bytes) -> None:
    """Raise AnswerError if the event is an error in another form than OpenAI's."""
    content = _json_of(event)
    if isinstance(content, dict) and (content.get("detail") or content.get("message")):
        raise AnswerError(error_line(content))


def _json_of(data: bytes) -> Any:
    """What the data is as JSON; the data itself if it is none."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(data)
    return data


def error_line(content: object) -> str:
    """What a server did that answered with this error and status 200."""
    return f"answered with an error: {error_words(content)}"


def one_line(message: object) -> str:
    """A server's message as one line of at most 100 characters, with known secrets redacted."""
    if isinstance(message, dict):
        message = message.get("message") or message
    if isinstance(message, bytes | bytearray):
        message = bytes(message[:_MAX_MESSAGE_LENGTH]).decode(errors="replace")
    # Redact before cutting: part of a key would no longer be recognized.
    line = printable(" ".join(redact(str(message)[:_MAX_MESSAGE_LENGTH])[:400].split()))
    return line if len(line) <= 100 else f"{line[:99]}…"


def error_words(content: object) -> str:
    """The message in an error's JSON, as these servers write it, or the whole content instead."""
    if isinstance(content, bytes):
        content = _json_of(content)
    if isinstance(content, dict):
        content = content.get("error") or content.get("message") or content.get("detail") or content
    return one_line(content) or "nothing more"
