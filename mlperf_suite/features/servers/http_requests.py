"""Requests of a client process: sent, received, and retried where that is safe."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import struct
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path

import msgspec

from mlperf_suite.engines.messages import (
    Failure,
    FromWorker,
    Post,
    PostReply,
    Sampling,
    ServerAnswer,
    ServerFirstTokens,
    WorkerConfig,
)
from mlperf_suite.features.servers.adapters import (
    Adapter,
    AnswerError,
    PartialAnswer,
    error_words,
    one_line,
)
from mlperf_suite.features.servers.connection import Connection, Pool, PooledRequest, is_json
from mlperf_suite.features.servers.streams import Arrivals

_BACKOFF_S = (0.5, 1.0, 2.0)
_PASSING = (429, 500, 502, 503, 504)
"""Statuses of a server that may answer the same request a moment later."""
_TURNING_AWAY = (429, 503)
"""Statuses with which a server may say in Retry-After when it has room for a request."""
_MIN_WAIT_S = 0.1
"""How long a request waits, in s, that may be sent again at once."""
_SECONDS = re.compile(r"[0-9]{1,300}(?:\.[0-9]{1,300})?")
_UNFIT = (400, 404, 405, 415, 422, 501)
"""Statuses of a server that does not know this form of request."""
_REDIRECTS = (301, 302, 303, 307, 308)

_MAX_PIECES_FACTOR, _FEW_PIECES = 4, 64
"""An answer has no end if it comes in more than `_MAX_PIECES_FACTOR` times as many pieces as it may
have tokens, plus `_FEW_PIECES`. One that is only a little too long is accepted and reported."""
_MAX_TOKEN_LENGTH = 128
"""How many characters a token has at most: the longest of these models' tokens are 128 blanks.
Longer texts would keep the tokenizer busy for minutes."""

_NO_SIGNS: tuple[int, int, str | None, int | None] = (0, 0, None, None)
"""What of an answer came so far: tokens, pieces of text, its finish_reason and its own count."""

_MAX_WAIT_FACTOR = 3.0
"""How many times the longest wait for a first token so far an overtaken request may wait."""

_json = msgspec.json.Encoder()
_PROMPT, _SALT = "\0prompt", "\0salt"
"""The placeholder in the JSON of requests until they are known; no other text has a NUL."""
_PROMPT_JSON, _SALT_JSON = _json.encode(_PROMPT), _json.encode(_SALT)[1:-1]


class TextCodec:
    """A model's tokenizer; `folder` holds its tokenizer.json."""

    def __init__(self, folder: str) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        # The server's own tokenizer puts this in front of every text.
        self._prefix = self._tokenizer.encode("").ids[:1]
        self._end = self._end_id(Path(folder))

    def _end_id(self, folder: Path) -> int | None:
        with contextlib.suppress(OSError, msgspec.DecodeError, AttributeError):
            settings = msgspec.json.decode((folder / "tokenizer_config.json").read_bytes())
            token = settings.get("eos_token")
            content = token.get("content") if isinstance(token, dict) else token
            number: int | None = self._tokenizer.token_to_id(str(content))
            return number
        return None

    def prompt(self, token_ids: list[int]) -> str:
        text_ids = token_ids[1:] if self._prefix and token_ids[:1] == self._prefix else token_ids
        text: str = self._tokenizer.decode(text_ids, skip_special_tokens=False)
        return text

    def tokens(self, text: str) -> list[int]:
        """The tokens of the whole text; an answer that ended at once has only its end token."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids or ([] if self._end is None else [self._end])

    def counts(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text is."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [len(encoding.ids) for encoding in encodings]


@dataclass(slots=True)
class WaitingRequests:
    """What the first tokens from one place say about the requests still waiting there.

    A server may queue: Offline sends it everything at once, and the last first token comes minutes
    later. So a wait alone says nothing, however long. A request counts as forgotten only if all of
    these hold: it waited longer than `silence_s`; a request sent after it got its first token; and
    it waited more than `_MAX_WAIT_FACTOR` times as long as any request that got one since the place
    was last idle.

    A server that answers in order lets requests overtake by at most a batch. A server that spreads
    requests over several engines with queues of different lengths, or takes short prompts first,
    keeps the waits of requests that arrived together within that factor, since the longest wait of
    the answered ones grows as long as it works off its queue. A single lost request is found after
    `silence_s` if first tokens otherwise come within a third of that. Everything missed here is
    found by silence once the others are answered.

    An answer that nobody streams may stop, since a server may preempt it until it has room. It
    counts as stopped for good after `silence_s` if it is forgotten as a request that was sent at
    its last piece would be, or if more answers ended since than are still under way: then there is
    room for every one of them.

    `newest`: the latest sending time among the requests with a first token; `longest_s`: the
    longest wait; both in s. `ended`: the answers that ended.
    """

    newest: float = 0.0
    longest_s: float = 0.0
    ended: int = 0

    def came(self, sent_s: float, arrived: float) -> None:
        """Note the first token of a request that was sent at `sent_s`."""
        self.newest = max(self.newest, sent_s)
        self.longest_s = max(self.longest_s, arrived - sent_s)

    def has_forgotten(self, sent_s: float, waited_s: float, silence_s: float) -> bool:
        """Whether a request sent then, having waited this long, should have a first token."""
        longest_s = max(silence_s, _MAX_WAIT_FACTOR * self.longest_s)
        return sent_s < self.newest and waited_s > longest_s


@dataclass(slots=True)
class HttpWorkerState:
    """What the requests of a client process share.

    `tell` sends a message to the engine. `text` is None if the servers give token ids. By place:
    `pools` of connections, the number of `pieces` of answers that came, how often requests were
    `turned_away`, and `queues`. Since the last heartbeat: `tokens` that came, and how often so many
    of a streamed answer came at a time (`events`). `under_way`: the requests that are not over.
    """

    config: WorkerConfig
    adapter: Adapter
    text: TextCodec | None
    pools: Sequence[Pool]
    tell: Callable[[FromWorker], None]
    pieces: list[int] = field(init=False)
    turned_away: list[int] = field(init=False)
    tokens: int = 0
    events: Counter[int] = field(default_factory=Counter)
    under_way: set[HttpRequest] = field(default_factory=set)
    queues: list[WaitingRequests] = field(init=False)
    _sampling: Sampling | None = None
    _template: bytes = b""

    def __post_init__(self) -> None:
        self.pieces = [0] * len(self.pools)
        self.turned_away = [0] * len(self.pools)
        self.queues = [WaitingRequests() for _ in self.pools]

    def body(self, prompt: list[int] | str | msgspec.Raw, sampling: Sampling) -> bytes:
        """The JSON of a request. Requests with the same sampling differ in the prompt and the salt
        alone: the rest is encoded once."""
        if sampling != self._sampling:
            template = self.adapter.body(_PROMPT, sampling, self.config.model, _SALT)
            self._sampling, self._template = sampling, _json.encode(template)
        salt = self.config.cache_salt.encode() or b"%016x" % random.getrandbits(64)
        salted = self._template.replace(_SALT_JSON, salt)
        return salted.replace(_PROMPT_JSON, _json.encode(prompt))


class HttpRequest(PooledRequest):
    """One request, from its first sending to its end; retried where that is safe. `retries`:
    how often, at most, if the server refuses it for now."""

    def __init__(self, shared: HttpWorkerState, number: int, place: int, retries: int) -> None:
        super().__init__(shared.pools[place])
        self.shared = shared
        self.number = number
        self.place = place
        self.retries = retries
        self.sent = self._began = 0.0
        self._refusals = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        shared = self.shared
        if not shared.under_way:
            # A new run, whose waits may differ.
            shared.queues = [WaitingRequests() for _ in shared.pools]
        shared.under_way.add(self)
        self.pool.acquire(self)

    def request(self) -> bytes:
        """The head and body to send."""
        raise NotImplementedError

    def begin(self, connection: Connection) -> None:
        self.connection = connection
        try:
            data = self.request()
        except Exception as error:
            self.pool.release(connection)
            self.fail(f"could not be asked: {type(error).__name__}: {error}", died=False)
            return
        connection.send(data, self)
        self._began = time.monotonic()
        self.sent = self.sent or self._began

    def on_refusal(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        wait_s = _wait_s(headers) if status in _TURNING_AWAY else None
        if wait_s is not None and wait_s <= self.shared.config.silence_s / 2:
            # No sign of life: a server that turns everything away is lost after the silence limit.
            self.shared.turned_away[self.place] += 1
            self._send_again(max(wait_s, _MIN_WAIT_S))
            return
        self.shared.pieces[self.place] += 1
        if wait_s is not None:
            why = f"turned a request away for {wait_s:,.0f} s (status {status}), too long to wait: "
            self.fail(why + "raise --engine-silence to twice that", died=False)
        elif status in _REDIRECTS:
            where = one_line(headers.get(b"location", b"elsewhere"))
            self.fail(f"redirects to {where}: give that URL", died=True)
        elif status in (401, 403):
            why = f"refused the key (status {status}): {error_words(body)}: set API_KEY"
            self.fail(why, died=True)
        elif status not in _PASSING or not self._again():
            why = f"answered with status {status}: {error_words(body)}"
            self.fail(why, died=False, unfit=status in _UNFIT)

    def _again(self) -> bool:
        """Send it again after a pause, unless it was sent too often."""
        if self._refusals >= self.retries:
            return False
        after_s = _BACKOFF_S[min(self._refusals, len(_BACKOFF_S) - 1)]
        self._refusals += 1
        self.resent += 1
        self._send_again(after_s)
        return True

    def _send_again(self, after_s: float) -> None:
        self.restart()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(after_s, self.pool.acquire, self)

    def restart(self) -> None:
        """Forget the answer so far."""

    def fail(self, why: str, *, died: bool, unfit: bool = False) -> None:
        if not self.is_over:
            self.over()
            self.shared.tell(Failure(self.number, why, died, unfit))

    def look(self, now: float, silence_s: float, asleep_s: float) -> None:
        """Called regularly, to end a request whose server fell silent. `asleep_s`: how long this
        process was stopped since the last look, for example by Ctrl-Z."""

    def over(self) -> None:
        self.is_over = True
        self.shared.under_way.discard(self)

    def forget(self) -> None:
        """Drop the request: the engine no longer wants its answer."""
        self.over()
        if self._timer is not None:
            self._timer.cancel()
        if self.connection is not None:
            self.connection.close()


class GenerationRequest(HttpRequest):
    """A request for a prompt's answer."""

    def __init__(
        self, shared: HttpWorkerState, number: int, place: int, prompt: bytes, sampling: Sampling
    ) -> None:
        super().__init__(shared, number, place, sampling.retries)
        self._prompt = prompt
        self._sampling = sampling
        self.restart()

    def restart(self) -> None:
        self._answer = PartialAnswer()
        self._arrivals = Arrivals()
        self._letters = self._texts = 0
        self._signs = _NO_SIGNS
        self._began = self._first = self._last = self._asleep_s = 0.0
        self._counted = self._ended_before = 0

    def request(self) -> bytes:
        shared, config = self.shared, self.shared.config
        if shared.adapter.messages:
            body = shared.body(msgspec.Raw(self._prompt), self._sampling)
            return self.pool.head(config.places[self.place].path, len(body)) + body
        ids = array("i", self._prompt).tolist()
        sampling = self._sampling
        if config.context is not None and len(ids) + sampling.max_tokens > config.context:
            # A server refuses what exceeds its context; an in-process engine cuts it.
            room = max(1, config.context - len(ids))
            sampling = msgspec.structs.replace(sampling, max_tokens=room)
        body = shared.body(shared.text.prompt(ids) if shared.text else ids, sampling)
        return self.pool.head(config.places[self.place].path, len(body)) + body

    def on_event(self, data: bytes, arrived: float) -> None:
        if self.is_over:
            return
        shared, answer = self.shared, self._answer
        connection = self.connection
        unstreamed = connection is not None and not connection.streams
        unstreamed = unstreamed and self._sampling.wants_first
        try:
            shared.adapter.read(data, answer)
            count = len(answer.token_ids)
            if count > self._counted:
                _check_tokens(answer.token_ids[self._counted :], shared.config.vocabulary)
                shared.tokens += count - self._counted
                self._counted = count
            if unstreamed:
                raise AnswerError("answered in one piece although a stream was requested")
        except AnswerError as error:
            # A server may refuse a form of request with status 200.
            self.refuse(self._no_stream(data) or str(error), unfit=unstreamed)
            return
        pieces = len(answer.text)
        signs = count, pieces, answer.finish_reason, answer.completion_tokens
        if signs == self._signs:
            # An event that brings nothing new counts as silence.
            return
        self._signs = signs
        shared.pieces[self.place] += 1
        self._last = arrived
        self._ended_before = shared.queues[self.place].ended
        for text in answer.text[self._texts :]:
            self._letters += len(text)
        self._texts = pieces
        pieces, most = max(count, pieces), self._sampling.max_tokens
        if self._sampling.wants_first:
            self._arrivals.came(count if shared.text is None else self._letters, pieces, arrived)
        longest = _MAX_PIECES_FACTOR * most + _FEW_PIECES
        if pieces > longest or self._letters > _MAX_TOKEN_LENGTH * longest:
            amount = f"{pieces:,} pieces and {self._letters:,} characters"
            self.refuse(f"sent {amount} of an answer of at most {most:,} tokens")
            return
        if not self._first and (answer.token_ids or answer.text):
            self._first = arrived
            shared.queues[self.place].came(self._began, arrived)
            if self._sampling.wants_first:
                tokens = list(answer.token_ids)
                if shared.text is not None:
                    tokens = shared.text.tokens("".join(answer.text))[:1]
                shared.tell(ServerFirstTokens(self.number, tokens, arrived))

    def _no_stream(self, data: bytes) -> str:
        """What kind of content an answer is that is neither a stream nor JSON; empty for others."""
        connection = self.connection
        if connection is None or connection.streams or is_json(data):
            return ""
        kind = one_line(connection.headers.get(b"content-type", b"no content type"))
        return f"answered with {kind}, where text/event-stream was requested: {one_line(data)}"

    def look(self, now: float, silence_s: float, asleep_s: float) -> None:
        """Give up an answer that stopped, or that never began although others did: see
        `WaitingRequests`.

        An answer whose tokens are wanted at once counts as stopped after `silence_s`.
        """
        if self.is_over or not self._began:
            return
        self._last += asleep_s
        self._asleep_s += asleep_s
        waited_s = now - self._began - self._asleep_s
        queue = self.shared.queues[self.place]
        if self._first:
            pause_s = now - self._last
            if pause_s > silence_s and (
                self._sampling.wants_first
                or queue.ended - self._ended_before > len(self.shared.under_way)
                or queue.has_forgotten(self._last, pause_s, silence_s)
            ):
                self.refuse(f"sent nothing for {silence_s:.0f} s in the middle of an answer")
        elif queue.has_forgotten(self._began, waited_s, silence_s):
            self.refuse(
                f"sent no first token for {waited_s:.0f} s while requests sent later got "
                "theirs: raise --engine-silence for a slower server"
            )

    def on_end(self, arrived: float) -> None:
        if self.is_over:
            return
        shared, answer = self.shared, self._answer
        token_ids = answer.token_ids
        if shared.text is not None and (answer.text or answer.finish_reason):
            token_ids = shared.text.tokens("".join(answer.text))
            shared.tokens += len(token_ids)
        if not token_ids:
            self.fail("answered without a token", died=False, unfit=True)
            return
        if answer.finish_reason is None:
            self.fail("ended an answer without a finish_reason", died=False)
            return
        if not self._first and self._sampling.wants_first:
            # LoadGen must get the first token of every answer.
            self._first = arrived
            shared.tell(ServerFirstTokens(self.number, list(token_ids[:1]), arrived))
        shared.queues[self.place].ended += 1
        first = self._first_tokens(len(token_ids)) if self._sampling.wants_first else 1
        self.over()
        model = None if _is_one_of(answer.model, shared.config.model_names) else answer.model
        times = self.sent, self.opened_s, self._first or arrived, arrived
        usage = answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens
        ends = answer.finish_reason, model, answer.server_s
        # Half the time of an array made from the list.
        tokens = struct.pack(f"{len(token_ids)}i", *token_ids)
        fields = *times, self.resent, *usage, *ends
        shared.tell(ServerAnswer(self.number, tokens, *fields, first_tokens=first))

    def _first_tokens(self, tokens: int) -> int:
        """How many of so many tokens came with the first one; counts each event's tokens."""
        arrivals, text = self._arrivals, self.shared.text
        if not arrivals.parts:
            return 1
        if text is None:
            self.shared.events.update(arrivals.parts)
            return arrivals.first
        self.shared.events.update(arrivals.in_tokens(tokens))
        if arrivals.first == self._letters:
            return tokens
        # Cut off, a text may be a token more.
        first = "".join(self._answer.text)[: arrivals.first]
        return max(1, len(text.tokens(first)) - 1)


class PostRequest(HttpRequest):
    """A `Post`."""

    def __init__(self, shared: HttpWorkerState, message: Post) -> None:
        super().__init__(shared, message.number, message.place, len(_BACKOFF_S))
        self._message = message
        self._body = b""

    def request(self) -> bytes:
        body = self._message.body
        path = self.shared.config.places[self.place].posts
        return self.pool.head(path, len(body)) + body

    def on_event(self, data: bytes, arrived: float) -> None:
        self.shared.pieces[self.place] += 1
        self._body = data

    def on_end(self, arrived: float) -> None:
        if not self.is_over:
            self.over()
            self.shared.tell(PostReply(self.number, self._body))


def _wait_s(headers: dict[bytes, bytes]) -> float | None:
    """How long Retry-After asks to wait, in s, from a number or a date (RFC 9110, 10.2.3); None if
    it is missing or neither. Some gateways write fractions."""
    text = headers.get(b"retry-after", b"").decode("latin-1").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    with contextlib.suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None


def _is_one_of(model: str | None, names: Sequence[str]) -> bool:
    """Whether an answer's model is one of these names (case does not matter); some servers append a
    revision, and some name no model."""
    if not model or model in names:  # so it is in nearly every answer
        return True
    reported = model.casefold()
    return any(reported == n or reported.startswith(f"{n}@") for n in map(str.casefold, names))


def _check_tokens(token_ids: list[int], vocabulary: int) -> None:
    for token in token_ids:
        if token < 0 or token >= vocabulary:
            raise AnswerError(f"sent the token id {token}, beyond the vocabulary of {vocabulary:,}")
