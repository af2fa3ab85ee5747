"""The servers at one or several URLs as one engine: a driver whose workers are client processes.

The clients speak HTTP, with one event loop each.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import cast

import psutil

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.datasets.media import MediaPrompt
from mlperf_suite.engines.driver import Driver, PendingRequest, UnfitError
from mlperf_suite.engines.framed_socket import FramedSocket
from mlperf_suite.engines.messages import (
    Answer,
    FirstTokens,
    HttpWorkerHeartbeat,
    Post,
    PostReply,
    ReplicaHeartbeat,
    Reply,
    ServerAddress,
    ServerAnswer,
    ServerFirstTokens,
    WorkerConfig,
)
from mlperf_suite.engines.protocol import (
    MODEL_CHANGES,
    SERVER_MODEL,
    SERVER_SETTINGS,
    SPECULATIVE,
    EndpointFigures,
    EngineDescription,
    EngineTrace,
    RemoteRun,
    Request,
    Score,
    ScoreRequest,
    Steps,
    Tokens,
)
from mlperf_suite.engines.routing import Router
from mlperf_suite.errors import EngineDiedError, EngineError, UsageError
from mlperf_suite.features.servers.adapters import (
    ADAPTERS,
    CHAT,
    COMPLETIONS,
    STRICT_TEXT,
    TRANSFORMERS,
    VLLM_CHAT,
)
from mlperf_suite.features.servers.completion_scores import SCORE_FORMS, OnBody, score_all
from mlperf_suite.features.servers.config import EndpointConfig
from mlperf_suite.features.servers.connection import max_connections
from mlperf_suite.features.servers.figures import (
    AnswerTimestamps,
    DeviationAccount,
    EndpointAccount,
    HttpWorkerAccount,
)
from mlperf_suite.features.servers.http_requests import TextCodec
from mlperf_suite.features.servers.picture_messages import chat_prompt, trial_prompt
from mlperf_suite.features.servers.server_facts import (
    ServerFacts,
    check_alike,
    find_server_facts,
    metrics,
)
from mlperf_suite.features.servers.server_metrics import (
    HITS,
    QUEUE_S,
    MetricsSampler,
    Reading,
    fill_load,
    server_view,
)
from mlperf_suite.features.servers.streams import StreamAccount

AT_ONCE, TEXT_AT_ONCE = 2048, 256
"""The most requests one endpoint holds at once, unless the user or the server's own limit says
otherwise: more than most servers batch, but limited, as connections are. Servers without token ids
expect fewer: most run under the usual limit of 1,024 open files."""
_QUEUED_SHARE = 0.05
"""A server whose requests spent this share of their time in its queue had more than it works on at
once; without a queue it is the wait for the next step, about a thousandth."""
RETRIES = 3
"""For accuracy runs, whose score does not depend on when an answer comes."""
_UNKNOWN_CONTEXT = 131_072
"""The context length assumed, in tokens, if neither the server nor the benchmark gives one."""
_CORES_PER_CLIENT = 4
_MAX_CLIENT_PROCESSES = 8
_TRIAL_TOKENS, _TRIAL_S = 2, 60.0


class EndpointEngine(Driver):
    """Servers behind URLs. Create it with `EndpointEngine.load`."""

    ROLE = "the endpoint client"

    def __init__(
        self, config: EndpointConfig, servers: Sequence[ServerFacts], form: str, why: str
    ) -> None:
        """`form`: the key of `ADAPTERS` used for all servers; `why`: the reason for that one."""
        self._config = config
        self._servers = servers
        self._form = form
        self._why = why
        self._adapter = ADAPTERS[form]
        usual = AT_ONCE if self._adapter.token_ids else TEXT_AT_ONCE
        most = config.requests or max(usual, *[2 * (server.batch or 0) for server in servers])
        self._at_once = min(most, max_connections(len(servers)))
        lengths = [s.max_model_len for s in servers if s.max_model_len is not None]
        self._context = min(lengths, default=None)
        self._clients: list[subprocess.Popen[bytes]] = []
        framed_sockets = self._start_clients()
        # What a server has no room for is held here: its connections are limited.
        router = Router([self._at_once] * len(servers), config.routing, spare=False)
        super().__init__(framed_sockets, router, config.silence_s, any_worker=True)
        self._retries = RETRIES
        self._end_ids = config.end_ids
        self._turns = itertools.count()
        self._pieces = [[0] * len(servers) for _ in framed_sockets]
        self._turned_away = [[0] * len(servers) for _ in framed_sockets]
        self._steps, self._timestamps = Steps(), AnswerTimestamps()
        self.steps_made = 0
        self.cached_prompt_tokens = 0
        self._samplers: list[MetricsSampler] = []
        self._without_metrics: set[int] = set()
        self._begin_accounts()
        self._thread.start()
        self._began_cpu = self._cpu_s()

    @classmethod
    def load(cls, config: EndpointConfig) -> EndpointEngine:
        """Ask the servers what they are, start the clients, and try a short prompt.

        Raises EngineError if a server cannot be reached, serves another model, or gives an unusable
        answer to that prompt.
        """
        try:
            servers = [find_server_facts(config, target) for target in config.targets]
            check_alike({server.kind for server in servers}, {server.model for server in servers})
        except UsageError as error:
            raise EngineError(str(error)) from error
        kind = servers[0].kind
        text_alone = kind == "text" or (config.chat and kind != "vllm")
        if text_alone and config.tokenizer is None:
            raise EngineError(
                f"{config.targets[0].url} returns text only, and its tokens cannot be counted: "
                f"the model {config.model} has no tokenizer.json"
            )
        forms = _forms(config, servers)
        first_error: EngineError | None = None
        for form in forms:
            kind_of_engine = ScoringEndpointEngine if form in SCORE_FORMS else cls
            why = f"{form}, as the server says" if config.kind is None else f"{form}, as given"
            if first_error is not None:
                why = f"{form}, since as {forms[0]} it is: {first_error}"
            engine = kind_of_engine(config, servers, form, why)
            try:
                engine._try_out()
            except UnfitError as error:
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

    def _start_clients(self) -> list[FramedSocket]:
        config = self._config
        cores = len(psutil.Process().cpu_affinity() or [0])
        count = config.clients or max(1, min(_MAX_CLIENT_PROCESSES, cores // _CORES_PER_CLIENT))
        scores = SCORE_FORMS.get(self._form)
        posts = COMPLETIONS if scores is None else scores.path
        worker_config = WorkerConfig(
            [
                ServerAddress(
                    t.host,
                    t.address,
                    t.port,
                    t.tls,
                    t.authority,
                    t.path(self._adapter.path),
                    t.path(posts),
                )
                for t in (server.target for server in self._servers)
            ],
            self._form,
            self._servers[0].model,
            config.key,
            dict(config.headers),
            str(config.ca_file) if config.ca_file else None,
            str(config.tokenizer) if config.tokenizer else None,
            config.vocabulary,
            self._context,
            self._at_once,
            config.silence_s,
            config.cache_salt,
            (self._servers[0].model, config.model),
        )
        framed_sockets: list[FramedSocket] = []
        try:
            for _ in range(count):
                framed_sockets.append(self._start_client(config.log_file))
                framed_sockets[-1].send(worker_config)
        except OSError as error:
            for framed_socket in framed_sockets:
                framed_socket.close()
            self._wait_for_clients()
            raise EngineError(f"a client process could not be started: {error}") from error
        return framed_sockets

    def _start_client(self, log_file: Path | None) -> FramedSocket:
        own_end, client_end = socket.socketpair()
        descriptor = client_end.fileno()
        command = [
            sys.executable,
            "-m",
            "mlperf_suite.features.servers.http_worker",
            str(descriptor),
        ]
        with client_end, (log_file or Path(os.devnull)).open("ab") as log:
            process = subprocess.Popen(
                command, pass_fds=[descriptor], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._clients.append(process)
        return FramedSocket(own_end)

    def _wait_for_clients(self) -> None:
        """Wait until the clients ended, as each does when its link ends."""
        for process in self._clients:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _end_workers(self) -> None:
        for sampler in self._samplers:
            sampler.close()
        for framed_socket in self._framed_sockets:
            framed_socket.end()
        self._wait_for_clients()

    def _try_out(self) -> None:
        """Send each server a short prompt, to find what it cannot do before any run."""
        prompt = trial_prompt() if self._adapter.messages else self._trial_prompt()
        outcomes: queue.SimpleQueue[EngineError | None] = queue.SimpleQueue()

        class Trial:
            def first_tokens(self, tokens: Sequence[Tokens]) -> None:
                """Nothing is timed here."""

            def finished(self, answers: Sequence[Tokens]) -> None:
                for _ in answers:
                    outcomes.put(None)

            def failed(self, tag: int, error: EngineError) -> None:
                outcomes.put(error)

        # Each goes to another server, since the earlier ones are outstanding.
        trials = [Request(0, prompt) for _ in self._servers]
        self.submit(trials, Generation(max_new_tokens=_TRIAL_TOKENS), Trial(), stream=True)
        for _ in self._servers:
            try:
                error = outcomes.get(timeout=_TRIAL_S)
            except queue.Empty:
                names = ", ".join(target.url for target in self._config.targets)
                raise EngineDiedError(f"{names}: no answer within {_TRIAL_S:.0f} s") from None
            if error is not None:
                raise error
        self._begin_accounts()

    def _trial_prompt(self) -> Sequence[int]:
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
        versions = dict.fromkeys(s.version for s in self._servers)
        return EngineDescription(
            server.name,
            ", ".join(filter(None, versions)) or "unknown",
            server.model,
            any(s.stand_in for s in self._servers),
            self._context or config.context_needed or _UNKNOWN_CONTEXT,
            {
                "endpoints": [target.url for target in config.targets],
                "server": server.kind,
                "fields": self._form,
                "tokens": "ids" if self._adapter.token_ids else "text",
                "tokens_why": self._why,
                "routing": config.routing,
                "clients": len(self._framed_sockets),
                "requests_at_once": self._at_once,
                "extra_headers": sorted(config.headers),
                "key": "set" if config.key else "not set",
                **_address_words(self._servers),
                **_speculative(self._servers),
                **_server_model(self._servers),
                **_model_changes(self._servers),
                SERVER_SETTINGS: _settings(self._servers) | dict(config.notes),
            },
        )

    # Requests

    def run_begins(self, name: str, mode: str) -> None:
        """Only in an accuracy run are requests that a server refuses for now sent again."""
        self._retries = RETRIES if mode == "accuracy" else 0
        if not self._samplers and all(self._counters):
            self._samplers = [MetricsSampler(read) for read in self.metrics_readers()]

    def metrics_readers(self) -> list[Callable[[], Reading]]:
        """The reader of each server's metrics; it reads nothing of one that has none."""
        return [partial(self._counters_of, place) for place in range(len(self._servers))]

    # What the driver asks

    def _as_sent(self, prompt: Sequence[int]) -> bytes:
        if self._adapter.messages:
            return chat_prompt(prompt, self._text_of)
        return super()._as_sent(prompt)

    def _text_of(self, token_ids: list[int]) -> str:
        # Not every prompt needs the tokenizer, nor is there one for every server.
        return self._codec.prompt(token_ids)

    @cached_property
    def _codec(self) -> TextCodec:
        """The tokenizer, loaded when a prompt first needs it."""
        assert self._config.tokenizer is not None
        return TextCodec(str(self._config.tokenizer))

    def _line(self, place: int, why: str) -> str:
        return f"{self._config.targets[place].url} {why}"

    def _cause_of_loss(self, worker: int) -> str:
        process = self._clients[worker]
        status = process.poll()
        ended = "ended" if status is None else f"ended with exit status {status}"
        return f"a client process of the suite {ended}: process {process.pid}"

    def _mute_worker(self, before: float) -> str | None:
        for worker, heartbeat in self._heartbeats.items():
            if heartbeat < before:
                process = self._clients[worker].pid
                return f"a client process of the suite gave no sign of life: process {process}"
        return None

    def _silence(self, place: int) -> str | None:
        count = self._outstanding(place)
        if not count or len(self._heartbeats) < len(self._framed_sockets):
            # A client that has not started yet asked nobody.
            return None
        # A client that beats four times a second is silent a little shorter than its servers.
        mute = self._mute_worker(time.monotonic() - self._silence_s / 2)
        if mute is not None:
            return mute
        if self._endpoint_accounts[place].turned_away:
            return self._line(
                place,
                f"turned requests away and answered none of {count:,} for {self._silence_s:.0f} s",
            )
        return self._line(
            place,
            f"sent nothing for {self._silence_s:.0f} s while {count:,} requests waited: "
            "raise --engine-silence for a slower server",
        )

    def _outstanding(self, place: int) -> int:
        questions = sum(asked_place == place for asked_place, _ in [*self._questions.values()])
        return self._router.requests[place] + questions

    def _place_turns(self, place: int, now: float, *, busy: bool) -> None:
        if busy:
            self._signs[place] = now

    def _take_heartbeat(
        self, worker: int, heartbeat: HttpWorkerHeartbeat | ReplicaHeartbeat
    ) -> None:
        assert isinstance(heartbeat, HttpWorkerHeartbeat)
        before, self._pieces[worker] = self._pieces[worker], heartbeat.pieces
        now = time.monotonic()
        for place, (earlier, count) in enumerate(zip(before, heartbeat.pieces, strict=True)):
            if count > earlier:
                self._signs[place] = now
                self.steps_made += count - earlier
        if heartbeat.tokens:
            # A trace may be taken between these two lines.
            steps = self._steps
            steps.ended_s.append(heartbeat.at)
            steps.tokens.append(heartbeat.tokens)
        turned_away, self._turned_away[worker] = self._turned_away[worker], heartbeat.turned_away
        for account, earlier, count in zip(
            self._endpoint_accounts, turned_away, heartbeat.turned_away, strict=True
        ):
            account.turned_away += count - earlier
        self._client_account.add_connections(worker, heartbeat.connections)
        self._streams.events.update(heartbeat.events)

    def _note_told(self, messages: Sequence[FirstTokens] | Sequence[Answer]) -> None:
        now = time.monotonic()
        of_servers = cast("Sequence[ServerFirstTokens | ServerAnswer]", messages)
        self._client_account.add_told(now, [message.arrived for message in of_servers])
        if isinstance(messages[0], Answer):
            self._ended = now

    def _count(self, pending: PendingRequest, answer: Answer, tokens: int, now: float) -> None:
        assert isinstance(answer, ServerAnswer)
        sampling = pending.job.sampling
        self._timestamps.add(pending.request.tag, answer)
        if sampling.wants_first:
            self._streams.add(answer, pending.request.sample)
        self._client_account.add(answer, pending.job.submitted, pending.handed)
        self._endpoint_accounts[pending.place].add(
            answer, pending.job.submitted, tokens, streamed=sampling.wants_first
        )
        self.cached_prompt_tokens += max(0, answer.cached_tokens or 0)
        self._deviations.add(
            answer,
            self._prompt_tokens(pending.request.prompt_token_ids),
            sampling.max_tokens,
            sampling.min_tokens,
            ids=self._adapter.token_ids,
        )
        self._signs[pending.place] = now

    def _prompt_tokens(self, prompt: Sequence[int]) -> int | None:
        """The tokens that a server has to count in a prompt; None if that is not known.

        A picture that a server resizes becomes other tokens, which MLPerf forbids.
        """
        if not self._adapter.messages:
            return len(prompt)
        counts_media = self._servers[0].kind in ("vllm", "sglang")
        return prompt.counted if counts_media and isinstance(prompt, MediaPrompt) else None

    # Traces and figures

    def take_trace(self) -> EngineTrace:
        """The tokens that came in each quarter of a second, and when each answer came."""
        fill_load(self._steps, self._readings())
        trace = EngineTrace(self._steps, self._timestamps.timestamps)
        self._steps, self._timestamps = Steps(), AnswerTimestamps()
        return trace

    def _cpu_s(self) -> dict[int, float]:
        """The CPU time of each client process, and under -1 of the thread that receives answers."""
        used_s: dict[int, float] = {}
        for number, process in enumerate(self._clients):
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(process.pid).cpu_times()
                used_s[number] = times.user + times.system
        own_s = self._thread_cpu_s()
        return used_s if own_s is None else used_s | {-1: own_s}

    def _begin_accounts(self) -> None:
        self._endpoint_accounts = [EndpointAccount(t.url) for t in self._config.targets]
        self._deviations, self._streams = DeviationAccount(), StreamAccount()
        self._client_account = HttpWorkerAccount()
        self._counters = [self._counters_of(place) for place in range(len(self._servers))]
        self._disturbed = False
        # Last: the requests to the servers above do not belong to the next run.
        self._began = self._ended = time.monotonic()

    def _counters_of(self, place: int) -> dict[str, float]:
        # A failed server may not answer this either, and reporting the failure would wait for it.
        if self._disturbed or not self.alive or place in self._without_metrics:
            return {}
        server = self._servers[place]
        figures = metrics(self._config, server.target, server.kind)
        if not figures and server.kind != "vllm":
            # It may take its time to say so: it is asked once.
            self._without_metrics.add(place)
        return figures

    def _readings(self) -> list[list[tuple[float, Reading]]]:
        """The readings of each server's metrics since the run began, until its last answer."""
        end = max(self._ended, self._began)
        return [sampler.between(self._began, end) for sampler in self._samplers]

    def take_remote_run(self) -> RemoteRun:
        """The figures since the last call."""
        run_began = self._began
        with self._telling:
            accounts, client = self._endpoint_accounts, self._client_account
            deviations, counters_before = self._deviations, self._counters
            stream = self._streams.figures()
            elapsed_s, cpu_s = max(self._ended, run_began) - run_began, self._cpu_s()
            readings = self._readings() or [[] for _ in accounts]
        began = self._began_cpu
        used_s = {n: max(0.0, cpu - began[n]) for n, cpu in cpu_s.items() if n in began}
        self._begin_accounts()
        self._began_cpu = self._cpu_s()
        full: list[bool | None] = []
        figures: list[EndpointFigures] = []
        for server, account, before, after, of_run in zip(
            self._servers, accounts, counters_before, self._counters, readings, strict=True
        ):
            growth = {n: max(0.0, after[n] - before[n]) for n in after.keys() & before.keys()}
            if server.kind == "vllm" and account.cached_tokens is None and HITS in growth:
                account.cached_tokens = round(growth[HITS])
                self.cached_prompt_tokens += account.cached_tokens
            view = server_view([reading for _, reading in of_run], growth)
            figures.append(account.figures(run_began, view))
            full.append(self._was_full(server, account.served_s, growth.get(QUEUE_S)))
        # A server with room outweighs one that does not tell.
        servers_full = None if None in full and False not in full else all(full)
        return RemoteRun(
            client.figures(used_s, elapsed_s, servers_full),
            tuple(figures),
            deviations.words(),
            stream,
        )

    def _was_full(self, server: ServerFacts, served_s: float, queue_s: float | None) -> bool | None:
        """Whether the most requests that it gets here are more than it works on at once."""
        if server.batch is not None:
            return self._at_once >= server.batch
        return None if queue_s is None else queue_s >= _QUEUED_SHARE * served_s

    def _post(self, body: bytes, on_body: OnBody) -> None:
        turn = next(self._turns)
        place = turn % len(self._servers)

        def pass_on(reply: Reply | EngineError) -> None:
            self._signs[place] = time.monotonic()
            if isinstance(reply, EngineError):
                on_body(reply)
            elif isinstance(reply, PostReply):
                on_body(reply.body)

        if not self._outstanding(place):
            self._signs[place] = time.monotonic()
        worker = turn % len(self._framed_sockets)
        self._ask(worker, place, lambda number: Post(number, place, body), pass_on)


class ScoringEndpointEngine(EndpointEngine):
    """Servers that return log-probabilities of chosen tokens: vLLM's and SGLang's."""

    def score(self, requests: Iterable[ScoreRequest]) -> Iterator[tuple[int, Score]]:
        """Yield each request's tag and score as they come; see `ScoringEngine`."""
        form = SCORE_FORMS[self._form]
        return score_all(requests, self._post, self._servers[0].model, form)


def _speculative(servers: Sequence[ServerFacts]) -> dict[str, object]:
    """`SPECULATIVE` of all servers together."""
    entries = [server.speculative for server in servers]
    if any(entry != entries[0] for entry in entries):
        return {SPECULATIVE: [entry for n, entry in enumerate(entries) if entry not in entries[:n]]}
    return {} if entries[0] == {} else {SPECULATIVE: entries[0]}


def _model_changes(servers: Sequence[ServerFacts]) -> dict[str, object]:
    """`MODEL_CHANGES` of all servers together."""
    names = dict.fromkeys(name for server in servers for name in server.media_changes)
    return {MODEL_CHANGES: ", ".join(names)} if names else {}


def _settings(servers: Sequence[ServerFacts]) -> dict[str, object]:
    """What the servers report of their settings, each value of several once."""
    names = dict.fromkeys(name for server in servers for name in server.settings)
    found = {n: dict.fromkeys(str(s.settings.get(n, "none")) for s in servers) for n in names}
    return {name: ", ".join(values) for name, values in found.items()}


def _server_model(servers: Sequence[ServerFacts]) -> dict[str, object]:
    """`SERVER_MODEL`, of the first server where it says something else than it serves."""
    roots = [s.root for s in servers if s.root is not None and s.root != s.model]
    return {SERVER_MODEL: roots[0]} if roots else {}


def _address_words(servers: Sequence[ServerFacts]) -> dict[str, str]:
    """Which addresses are measured, of hosts that have several."""
    several = [server for server in servers if server.addresses > 1]
    chosen = ", ".join(f"{s.target.address} of {s.target.host}" for s in several)
    counts = ", ".join(str(server.addresses) for server in several)
    why = f"the first that answered of {counts}: name the others as endpoints to measure them too"
    return {"addresses": chosen, "addresses_why": why} if several else {}


def _forms(config: EndpointConfig, servers: Sequence[ServerFacts]) -> list[str]:
    """The keys of `ADAPTERS` to try, in order; if a kind was given, only its own."""
    texts = ["text", TRANSFORMERS, STRICT_TEXT]
    kind = servers[0].kind
    if config.chat:
        own = [VLLM_CHAT] if kind == "vllm" else []
        return own + ([CHAT] if config.tokenizer is not None else [])
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
