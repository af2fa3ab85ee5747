"""Options of a stand-in server: its behaviour and its faults."""

from typing import Literal

import msgspec

Dialect = Literal["vllm", "sglang", "tensorrt-llm", "text", "transformers"]
Fault = Literal[
    "status-500",
    "status-503",
    "turned-away",
    "redirect",
    "dies",
    "no-answer",
    "no-first-token",
    "stops",
    "ends-early",
    "error-in-stream",
    "error-event",
    "error-detail",
    "error-whole",
    "compressed",
    "id-beyond",
    "cut",
    "other-model",
    "cached",
]
"""What can be wrong with the answer to a completion request; from `no-first-token` on, with an
answer that is streamed.

- `status-N`: refused with this status. `turned-away`: 429 with Retry-After,
  `StandIn.retry_after_s`.
  `redirect`: 302 to `StandIn.redirect_to`.
- `dies`: the process ends at once, without an answer.
- `no-answer`: nothing, on a connection that stays open. `no-first-token`: only the headers.
- `stops`: nothing after the first chunk, and the connection stays open. `ends-early`: the answer
  ends there properly. `error-in-stream`: an error object follows; `error-event`: as an event named
  error; `error-detail`: as FastAPI writes one.
  `error-whole`: nothing but an error object, with status 200.
- `compressed`: with gzip, although identity was asked for. `id-beyond`: one token id is beyond the
  vocabulary.
- `cut`: half of the tokens, with finish reason "length". `other-model`: another model's name.
  `cached`: `usage` reports cached tokens.
"""


class StandIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stand-in server. Times in s, from the arrival of a request.

    `first_token_s`: until the first chunk, which has one token; `rest_s`: from there until the
    last. Both are accurate to about 1 ms. `tokens`: of each answer, unless the request's own limits
    say otherwise. `chunk_tokens`: of each chunk after the first; None puts the rest into one chunk.

    `scale_out`: whether vLLM's /inference/v1/generate is mounted; `native`: whether SGLang's
    /generate is.

    `base`: what the paths of OpenAI's routes begin with, in place of /v1.

    `key`: requests under /v1, /inference and /generate without it are refused with status 401.
    `redirect_to`: the target of redirects. `certificate` and `certificate_key`: PEM files for TLS.

    `batch`: the most requests it says it works on at once, as vLLM in its development mode and
    SGLang do. `queue_s`: the time that /metrics says each completion request spent in vLLM's queue;
    `metrics`: what else it says.

    `tells_times`: `usage` has what vLLM adds with --enable-per-request-metrics: a quarter of the
    time until the first token was queue, half was prefill.

    `root`: what it says it loaded the model from; None: the model's name.

    `speculates`: the tokens that it says it proposes at a time; 0: it says that it proposes none;
    None: it does not say.

    Requests from number `fault_from` on, counted from 0, are answered with the `fault`, at most
    `fault_for` of them. With `everywhere`, requests other than completions get the fault too, if
    it does not need an answer to spoil.
    """

    dialect: Dialect = "vllm"
    first_token_s: float = 0.0
    rest_s: float = 0.0
    tokens: int = 100
    chunk_tokens: int | None = None
    model: str = "stand-in"
    max_model_len: int = 131_072
    vocabulary: int = 32_000
    scale_out: bool = False
    native: bool = True
    base: str = "/v1"
    key: str | None = None
    redirect_to: str = ""
    retry_after_s: int = 1
    certificate: str | None = None
    certificate_key: str | None = None
    fault: Fault | None = None
    fault_from: int = 0
    fault_for: int | None = None
    everywhere: bool = False
    tells_times: bool = False
    speculates: int | None = 0
    root: str | None = None
    batch: int | None = None
    queue_s: float | None = None
    metrics: str = ""

    def faulty(self, number: int) -> bool:
        """Whether the completion request with this number, counted from 0, gets the fault."""
        if self.fault is None or number < self.fault_from:
            return False
        return self.fault_for is None or number < self.fault_from + self.fault_for
