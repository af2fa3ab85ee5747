"""The servers at one or several URLs as one engine.

This process hands requests to client processes and receives their answers on one thread; the
clients speak HTTP, with one event loop each. Whatever dies, each request is answered or failed
exactly once.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import queue
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import psutil

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.endpoint.accounts import (
    ClientAccount,
    DepartureAccount,
    EndpointAccount,
)
from mlperf_suite.engines.endpoint.adapters import (
    ADAPTERS,
    COMPLETIONS,
    STRICT_TEXT,
    TRANSFORMERS,
    words_of,
)
from mlperf_suite.engines.endpoint.config import EndpointConfig
from mlperf_suite.engines.endpoint.detect import ServerFacts, cache_hits, find_out
from mlperf_suite.engines.endpoint.link import Link
from mlperf_suite.engines.endpoint.messages import (
    Beat,
    Done,
    Drop,
    Failed,
    First,
    FromClient,
    Hello,
    Place,
    Post,
    Reply,
    Sampling,
    Submit,
    from_client,
)
from mlperf_suite.engines.endpoint.scoring import OnReply, score_all
from mlperf_suite.engines.frames import hear
from mlperf_suite.engines.protocol import (
    DECODE,
    FIRST_TOKEN,
    LATER_TOKENS,
    NETWORK,
    PREFILL,
    QUEUE,
    EngineDescription,
    EngineTrace,
    Listener,
    Marks,
    RemoteRun,
    Request,
    Steps,
    Tokens,
)
from mlperf_suite.engines.scoring import Score, ScoreRequest
from mlperf_suite.engines.telling import Collected, by_listener
from mlperf_suite.errors import EngineDiedError, EngineError, UsageError

AT_ONCE, TEXT_AT_ONCE = 2048, 256
"""The most requests one endpoint holds at once: more than a server batches, so that it never waits
for the client, but limited, as its connections are. Servers without token ids expect fewer: most
run under the usual limit of 1,024 open files."""
RETRIES = 3
"""For accuracy runs, whose score does not depend on when an answer comes."""
_TICK_S = 0.5
_ASLEEP_S = 4.0
"""Looks further apart mean that this process was stopped: Ctrl-Z, or the machine slept."""
_UNTOLD_CONTEXT = 131_072
"""The context length assumed, in tokens, if neither the server nor the benchmark gives one."""
_CORES_PER_CLIENT = 4
_MOST_CLIENTS = 8
_TRIAL_TOKENS, _TRIAL_S = 2, 60.0
_SCORING = ("vllm", "vllm-generate")
"""The forms of servers whose completions return log-probabilities of chosen tokens."""


@dataclass(slots=True)
class _Waiting:
    """An unanswered request: who asked, for what, and when.

    `handed`: when an endpoint had room and the request was handed to a client process.
    """

    tag: int
    listener: Listener
    request: Request
    sampling: Sampling
    submitted: float
    handed: float = 0.0
    place: int = -1
    client: int = -1


class _UnfitError(EngineError):
    """A server does not take requests of this form, or returns no usable answers."""


class EndpointEngine:
    """Servers behind URLs. Create it with `EndpointEngine.load`."""

    def __init__(
        self, config: EndpointConfig, servers: Sequence[ServerFacts], form: str, why: str
    ) -> None:
        """`form`: the key of `ADAPTERS` used for all servers; `why`: the reason for that one."""
        self._config = config
        self._servers = servers
        self._form = form
        self._why = why
        self._adapter = ADAPTERS[form]
        self._at_once = AT_ONCE if self._adapter.token_ids else TEXT_AT_ONCE
        self._lock = threading.RLock()
        self._telling = threading.RLock()
        self._numbers = itertools.count()
        self._turns = itertools.count()
        self._waiting: dict[int, _Waiting] = {}
        self._posted: dict[int, tuple[int, OnReply]] = {}
        """By number: the endpoint that was asked, and the callback for its reply."""
        self._held: deque[_Waiting] = deque()
        self._in_flight = [0] * len(servers)
        self._tokens_out = [0] * len(servers)
        self._signs = [time.monotonic()] * len(servers)
        self._looked = time.monotonic()
        self._pieces: list[list[int]] = []
        self._steps, self._marks = Steps(), _marks(told=False)
        self.steps_made = 0
        self.cached_prompt_tokens = 0
        self._retries = RETRIES
        self._lost_any = False
        self._gone: str | None = None
        self._closed = False
        self._came = Collected[First, Done](self._tell_firsts, self._tell_answers)
        self._begin_accounts()
        self._links = self._start_clients()
        self._thread = threading.Thread(target=self._hear, name="endpoints", daemon=True)
        self._thread.start()
        self._began_cpu = self._cpu_s()

    @classmethod
    def load(cls, config: EndpointConfig) -> EndpointEngine:
        """Ask the servers what they are, start the clients, and try a short prompt.

        Raises EngineError if a server cannot be reached, serves another model, or gives an unusable
        answer to that prompt.
        """
        try:
            servers = [find_out(config, target) for target in config.targets]
        except UsageError as error:
            raise EngineError(str(error)) from error
        kinds = {server.kind for server in servers}
        if len(kinds) > 1:
            raise EngineError(f"the endpoints are of several kinds: {', '.join(sorted(kinds))}")
        names = {server.model for server in servers}
        if len(names) > 1:
            told = ", ".join(map(words_of, sorted(names)))
            raise EngineError(f"the endpoints serve several models: {told}")
        kind = servers[0].kind
        if kind == "text" and config.tokenizer is None:
            raise EngineError(
                f"{config.targets[0].url} returns text only, and its tokens cannot be counted: "
                f"the model {config.model} has no tokenizer.json"
            )
        forms = _forms(config, servers)
        first_error: EngineError | None = None
        for form in forms:
            kind_of_engine = ScoringEndpointEngine if form in _SCORING else cls
            why = f"{form}, as the server says" if config.kind is None else f"{form}, as given"
            if first_error is not None:
                why = f"{form}, since as {forms[0]} it is: {first_error}"
            engine = kind_of_engine(config, servers, form, why)
            try:
                engine._try_out()
            except _UnfitError as error:
                # If several forms fail, the error of the first one that should work explains most.
                first_error = first_error or error
                engine.close()
            except BaseException:
                engine.close()
                raise
            else:
                return engine
        assert first_error is not None
        raise first_error

    def _start_clients(self) -> list[Link]:
        config = self._config
        cores = len(psutil.Process().cpu_affinity() or [0])
        count = config.clients or max(1, min(_MOST_CLIENTS, cores // _CORES_PER_CLIENT))
        lengths = [s.max_model_len for s in self._servers if s.max_model_len is not None]
        hello = Hello(
            [
                Place(t.host, s.address, t.port, t.tls, t.authority, t.prefix)
                for t, s in zip(config.targets, self._servers, strict=True)
            ],
            self._form,
            self._servers[0].model,
            config.key,
            dict(config.headers),
            str(config.ca_file) if config.ca_file else None,
            str(config.tokenizer) if config.tokenizer else None,
            config.vocabulary,
            min(lengths, default=None),
            -(-self._at_once // count),
            config.silence_s,
        )
        links: list[Link] = []
        try:
            for _ in range(count):
                links.append(Link(hello, config.log_file))
        except OSError as error:
            for link in links:
                link.close()
            raise EngineError(f"a client process could not be started: {error}") from error
        self._pieces = [[0] * len(self._servers) for _ in links]
        return links

    def _try_out(self) -> None:
        """Send each server a short prompt, to find what it cannot do before any run."""
        prompt = self._trial_prompt()
        heard: queue.SimpleQueue[EngineError | None] = queue.SimpleQueue()

        class Trial:
            def first_tokens(self, told: Sequence[Tokens]) -> None:
                """Nothing is timed here."""

            def finished(self, answers: Sequence[Tokens]) -> None:
                for _ in answers:
                    heard.put(None)

            def failed(self, tag: int, error: EngineError) -> None:
                heard.put(error)

        generation = Generation(max_new_tokens=_TRIAL_TOKENS)
        for _ in self._servers:
            # Each goes to another server, since the earlier ones are outstanding.
            self.submit([Request(0, prompt)], generation, Trial(), stream=True)
        for _ in self._servers:
            try:
                error = heard.get(timeout=_TRIAL_S)
            except queue.Empty:
                names = ", ".join(target.url for target in self._config.targets)
                raise EngineDiedError(f"{names}: no answer within {_TRIAL_S:.0f} s") from None
            if error is not None:
                raise error
        self._begin_accounts()

    def _trial_prompt(self) -> list[int]:
        if self._config.tokenizer is not None:
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(str(self._config.tokenizer / "tokenizer.json"))
            ids: list[int] = tokenizer.encode("The capital of France is").ids
            return ids
        return [number % self._config.vocabulary for number in range(100, 108)]

    # What it is

    @property
    def description(self) -> EngineDescription:
        server, config = self._servers[0], self._config
        versions = dict.fromkeys(one.version for one in self._servers)
        lengths = [one.max_model_len for one in self._servers if one.max_model_len is not None]
        return EngineDescription(
            server.name,
            ", ".join(filter(None, versions)) or "unknown",
            server.model,
            any(one.stand_in for one in self._servers),
            min(lengths, default=config.context_needed or _UNTOLD_CONTEXT),
            {
                "endpoints": [target.url for target in config.targets],
                "server": server.kind,
                "fields": self._form,
                "tokens": "ids" if self._adapter.token_ids else "text",
                "tokens_why": self._why,
                "routing": config.routing,
                "clients": len(self._links),
                "requests_at_once": self._at_once,
                "extra_headers": sorted(config.headers),
                "key": "set" if config.key else "not set",
            },
        )

    @property
    def alive(self) -> bool:
        return self._gone is None and not self._closed

    # Requests

    def run_begins(self, name: str, mode: str) -> None:
        """Only in an accuracy run are requests that a server refuses for now sent again."""
        self._retries = RETRIES if mode == "accuracy" else 0

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        now = time.monotonic()
        of_stop = {r.stop: self._sampling(generation, r.stop, stream) for r in requests}
        waiting = [_Waiting(r.tag, listener, r, of_stop[r.stop], now) for r in requests]
        if self._gone is not None:
            for one in waiting:
                listener.failed(one.tag, EngineDiedError(self._gone))
            return
        with self._lock:
            self._held.extend(waiting)
            self._send(self._hand_out(now))

    def _sampling(self, generation: Generation, stop: str, stream: bool) -> Sampling:
        return Sampling(
            generation.max_new_tokens,
            generation.min_new_tokens,
            generation.temperature,
            generation.top_p,
            generation.top_k,
            generation.seed,
            stream,
            self._retries,
            self._config.end_ids,
            stop,
        )

    def _hand_out(self, now: float) -> dict[int, Submit]:
        """Hand held requests to endpoints with room. Returns what to send, by client.

        The lock must be held. `now`: requests submitted at this time did not wait for room.
        """
        batches: dict[int, Submit] = {}
        while self._held:
            place = self._choose()
            if place is None:
                break
            one = self._held.popleft()
            number = next(self._numbers)
            one.place, one.client = place, number % len(self._links)
            one.handed = now if one.submitted == now else time.monotonic()
            if not self._in_flight[place]:
                self._signs[place] = time.monotonic()
            self._in_flight[place] += 1
            self._tokens_out[place] += _expected(one)
            self._waiting[number] = one
            batch = batches.get(one.client)
            if batch is None or batch.sampling != one.sampling:
                if batch is not None:
                    # Another sampling: within a run only if some answers have a stop.
                    self._send({one.client: batch})
                batch = batches[one.client] = Submit([], [], [], one.sampling)
            batch.numbers.append(number)
            batch.places.append(place)
            batch.prompts.append(array("i", one.request.prompt_token_ids).tobytes())
        return batches

    def _choose(self) -> int | None:
        """The endpoint for the next request; None if none has room."""
        with_room = [p for p, count in enumerate(self._in_flight) if count < self._at_once]
        if not with_room:
            return None
        turn = next(self._turns)
        if self._config.routing == "round-robin":
            return with_room[turn % len(with_room)]
        # Take turns among equals, so that an idle SUT does not always begin with the same one.
        count = len(self._in_flight)
        return min(with_room, key=lambda place: (self._tokens_out[place], (place - turn) % count))

    def _send(self, batches: dict[int, Submit]) -> None:
        for client, batch in batches.items():
            try:
                self._links[client].send(batch)
            except OSError:
                self._lose_all("a client process of the suite ended")

    # Answers, all on one thread

    def _hear(self) -> None:
        try:
            hear(
                [link.socket for link in self._links],
                _TICK_S,
                until=lambda: self._closed,
                heard=self._take,
                lost=self._lost,
                looked=self._look,
            )
        # Any exception here would leave every request without an answer.
        except Exception as error:
            self._lose_all(f"the endpoint client failed: {type(error).__name__}: {error}")

    def _lost(self, client: int) -> None:
        """The connection to a client ended."""
        if not self._closed:
            self._came.tell()
            self._lose_all("a client process of the suite ended")

    def _take(self, client: int, data: bytes) -> None:
        for content in self._links[client].frames.feed(data):
            for message in from_client.decode(content):
                self._take_one(client, message)

    def _take_one(self, client: int, message: FromClient) -> None:
        if isinstance(message, First):
            self._came.firsts.append(message)
        elif isinstance(message, Done):
            self._came.answers.append(message)
        elif isinstance(message, Beat):
            self._beat(client, message)
        elif isinstance(message, Reply):
            self._replied(message.number, message.body)
        else:
            self._failed(message)

    def _look(self) -> None:
        self._came.tell()
        if self._held:
            with self._lock:
                self._send(self._hand_out(time.monotonic()))
        self._look_for_silence()

    def _tell_firsts(self, firsts: Sequence[First]) -> None:
        told, arrived = [], []
        for first in firsts:
            one = self._waiting.get(first.number)
            if one is not None:
                told.append((one.listener, one.tag, first.token_ids))
                arrived.append(first.arrived)
        for listener, tokens in by_listener(told):
            listener.first_tokens(tokens)
        self._client_account.told(time.monotonic(), arrived)

    def _tell_answers(self, dones: Sequence[Done]) -> None:
        told: list[tuple[Listener, int, Sequence[int]]] = []
        arrived: list[float] = []
        # Taking the figures of a run that ends with these answers waits until all are counted.
        with self._telling:
            try:
                for done in dones:
                    one = self._end(done.number)
                    if one is not None:
                        told.append((one.listener, one.tag, done.token_ids))
                        arrived.append(done.arrived)
                        self._count(one, done)
            finally:
                # Listeners hear of the answers that ended, whatever went wrong with another one.
                for listener, answers in by_listener(told):
                    listener.finished(answers)
            if told:
                self._ended = time.monotonic()
                self._client_account.told(self._ended, arrived)

    def _replied(self, number: int, reply: bytes | EngineError) -> None:
        with self._lock:
            place, answered = self._posted.pop(number, (0, None))
            if answered is not None:
                self._in_flight[place] -= 1
                self._signs[place] = time.monotonic()
        if answered is not None:
            answered(reply)

    def _end(self, number: int) -> _Waiting | None:
        with self._lock:
            one = self._waiting.pop(number, None)
            if one is not None:
                self._in_flight[one.place] -= 1
                self._tokens_out[one.place] -= _expected(one)
        return one

    def _count(self, one: _Waiting, done: Done) -> None:
        self._mark(one, done)
        self._client_account.sent(done, one.handed)
        streamed = one.sampling.wants_first
        self._endpoint_accounts[one.place].add(done, one.submitted, streamed=streamed)
        self.cached_prompt_tokens += done.cached_tokens or 0
        self._departures.add(
            done,
            len(one.request.prompt_token_ids),
            one.sampling.max_tokens,
            one.sampling.min_tokens,
            ids=self._adapter.token_ids,
        )
        self._signs[one.place] = time.monotonic()

    def _mark(self, one: _Waiting, done: Done) -> None:
        """Keep the parts of an answered request's time, before its run can end.

        A server reports how long parts took, not when. The unreported time before the first token
        is placed in front of the reported parts; the time after it goes to the last part.
        """
        told, first = done.told_s, done.first
        if len(told) and not len(self._marks.tags):
            self._marks = _marks(told=True)
        if self._marks.parts == _TOLD and len(told):
            queue_s, prefill_s = told
            began = max(done.sent, first - queue_s - prefill_s)
            times = began, min(began + queue_s, first), first, done.arrived
        elif self._marks.parts == _TOLD:
            times = math.nan, math.nan, first, done.arrived
        else:
            self._marks.keep(one.tag, 0, done.sent, first, done.arrived)
            return
        self._marks.keep(one.tag, 0, done.sent, *times)

    def _failed(self, message: Failed) -> None:
        # Pass on what came before it first.
        self._came.tell()
        one = self._end(message.number)
        with self._lock:
            place = one.place if one else self._posted.get(message.number, (None,))[0]
        if place is None:
            return
        self._lost_any = True
        why = f"{self._config.targets[place].url} {message.why}"
        if message.gone:
            self._gone = self._gone or why
        kind = _UnfitError if message.unfit else EngineError
        error = EngineDiedError(why) if message.gone else kind(why)
        if one is not None:
            one.listener.failed(one.tag, error)
        else:
            self._replied(message.number, error)

    def _beat(self, client: int, beat: Beat) -> None:
        before, self._pieces[client] = self._pieces[client], beat.pieces
        now = time.monotonic()
        for place, (then, count) in enumerate(zip(before, beat.pieces, strict=True)):
            if count > then:
                self._signs[place] = now
                self.steps_made += count - then
        if beat.tokens:
            # A trace may be taken between these two lines.
            steps = self._steps
            steps.ended_s.append(beat.at)
            steps.tokens.append(beat.tokens)
        self._client_account.opened(client, beat.connections)

    def _look_for_silence(self) -> None:
        now = time.monotonic()
        gap, self._looked = now - self._looked, now
        if gap > _ASLEEP_S:
            self._signs = [now] * len(self._signs)
        silence_s = self._config.silence_s
        for place, count in enumerate(list(self._in_flight)):
            if count and now - self._signs[place] > silence_s:
                url = self._config.targets[place].url
                self._lose_all(
                    f"{url} sent nothing for {silence_s:.0f} s while {count:,} requests waited: "
                    "raise --engine-silence for a slower server"
                )

    def _lose_all(self, why: str) -> None:
        """Fail all waiting requests: no answer will come."""
        self._gone = self._gone or why
        with self._lock:
            lost = [*self._waiting.values(), *self._held]
            posted = list(self._posted.values())
            self._waiting.clear()
            self._held.clear()
            self._posted.clear()
            self._in_flight = [0] * len(self._servers)
            self._tokens_out = [0] * len(self._servers)
        for one in lost:
            one.listener.failed(one.tag, EngineDiedError(why))
        for _, answered in posted:
            answered(EngineDiedError(why))

    def abort(self) -> None:
        # An interrupted run does not wait for a server's counters.
        self._lost_any = True
        # Hold the lock to the end, so that nothing is handed out in between.
        with self._lock:
            self._waiting.clear()
            self._held.clear()
            self._posted.clear()
            self._in_flight = [0] * len(self._servers)
            self._tokens_out = [0] * len(self._servers)
            for link in self._links:
                with contextlib.suppress(OSError):
                    link.send(Drop())

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for link in self._links:
            link.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)
        for link in self._links:
            link.socket.close()

    # Traces and figures

    def take_trace(self) -> EngineTrace:
        """The tokens that came in each quarter of a second, and when each answer came."""
        trace = EngineTrace(self._steps, self._marks)
        self._steps, self._marks = Steps(), _marks(told=False)
        return trace

    def _cpu_s(self) -> dict[int, float]:
        """The CPU time of each client process, and under -1 of the thread that receives answers."""
        used = {number: link.cpu_s() for number, link in enumerate(self._links)}
        if not self._thread.is_alive():
            return used
        with contextlib.suppress(OSError):
            clock = time.pthread_getcpuclockid(self._thread.ident or 0)
            used[-1] = time.clock_gettime(clock)
        return used

    def _begin_accounts(self) -> None:
        self._endpoint_accounts = [EndpointAccount(t.url) for t in self._config.targets]
        self._departures = DepartureAccount()
        self._client_account = ClientAccount()
        self._hits = [self._cache_hits(place) for place in range(len(self._servers))]
        self._lost_any = False
        # Last: the requests to the servers above do not belong to the next run.
        self._began = self._ended = time.monotonic()

    def _cache_hits(self, place: int) -> int | None:
        """The server's own counter of cache hits, for servers whose answers do not report them."""
        # A failed server may not answer this either, and reporting the failure would wait for it.
        if self._servers[place].kind != "vllm" or self._lost_any or not self.alive:
            return None
        return cache_hits(self._config, self._config.targets[place])

    def take_remote_run(self) -> RemoteRun:
        """What happened since the last call."""
        run_began = self._began
        with self._telling:
            accounts, client = self._endpoint_accounts, self._client_account
            departures, hits = self._departures, self._hits
            elapsed_s, cpu_s = max(self._ended, run_began) - run_began, self._cpu_s()
        began = self._began_cpu
        # A process that ended counts as having used nothing.
        used = {n: max(0.0, cpu - began[n]) for n, cpu in cpu_s.items() if n in began}
        self._begin_accounts()
        self._began_cpu = self._cpu_s()
        for account, before, now in zip(accounts, hits, self._hits, strict=True):
            if account.cached is None and before is not None and now is not None:
                account.cached = max(0, now - before)
                self.cached_prompt_tokens += account.cached
        return RemoteRun(
            client.figures(used, elapsed_s),
            tuple(account.figures(run_began) for account in accounts),
            departures.words(),
        )

    def _post(self, body: bytes, answered: OnReply) -> None:
        number = next(self._numbers)
        place = number % len(self._servers)
        if self._gone is not None:
            answered(EngineDiedError(self._gone))
            return
        with self._lock:
            self._posted[number] = place, answered
            if not self._in_flight[place]:
                self._signs[place] = time.monotonic()
            self._in_flight[place] += 1
        with contextlib.suppress(OSError):
            client = self._links[number % len(self._links)]
            client.send(Post(number, place, COMPLETIONS, body))


class ScoringEndpointEngine(EndpointEngine):
    """Servers that return log-probabilities of chosen tokens: vLLM's."""

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        """Yield each request's tag and score as they come; see `ScoringEngine`."""
        return score_all(requests, self._post, self._servers[0].model)


CLIENT = "client"
"""The part of a request's time until its bytes are handed to the operating system."""
_UNTOLD = (CLIENT, FIRST_TOKEN, LATER_TOKENS)
_TOLD = (CLIENT, NETWORK, QUEUE, PREFILL, DECODE)


def _marks(*, told: bool) -> Marks:
    """`told`: whether the servers report how long a request was queued and computed."""
    return Marks(*(_TOLD if told else _UNTOLD))


def _forms(config: EndpointConfig, servers: Sequence[ServerFacts]) -> list[str]:
    """The keys of `ADAPTERS` to try, in order; if a kind was given, only its own."""
    texts = ["text", TRANSFORMERS, STRICT_TEXT]
    kind = servers[0].kind
    if kind == "text":
        return texts
    if config.kind is not None:
        return [config.kind]
    forms: list[str] = [kind]
    if all(server.generates for server in servers):
        forms.insert(0, "vllm-generate")
    if kind == "sglang":
        forms.append("sglang-completions")
    return forms if config.tokenizer is None else forms + texts


def _expected(one: _Waiting) -> int:
    """The tokens that a request can mean for an endpoint: its prompt's and at most its answer's."""
    return len(one.request.prompt_token_ids) + one.sampling.max_tokens
