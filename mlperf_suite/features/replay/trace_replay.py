"""The replay of a production trace on a server: its arrivals, lengths and shared prefixes.

Open loop: each request is sent when the trace says, whatever the server has answered:
no benchmark of MLPerf has such a load, and the prompts are words without a meaning.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.request_times import RequestTimes, distribution
from mlperf_suite.engines.protocol import Engine, RemoteRun, Request, RequestTimestamps, Tokens
from mlperf_suite.errors import EngineDiedError, EngineError, UsageError
from mlperf_suite.features.replay.production_traces import BLOCK, Trace, TraceRequest, read_trace
from mlperf_suite.features.replay.started import started_by
from mlperf_suite.features.replay.trace_page import trace_lines, trace_page
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.engine import EndpointEngine
from mlperf_suite.features.servers.word_tokens import WordTokens
from mlperf_suite.results.run_folder import write_whole
from mlperf_suite.results.schema import Goodput
from mlperf_suite.rules.limits import FULL_SHARE, held_back
from mlperf_suite.session.plan import duration_words

TRACE_MARK = "not an MLPerf result: a recorded trace"
_ANY_ID = 2**31 - 1
"""What the ids of answers stay below: what they mean matters to nobody here."""
_MAX_DELAY_MS = 10.0
"""How late requests may be sent, and answers taken up, at p99."""
_WINDOWS = 60
_BLOCKS_KEPT = 20_000
_SALT_BYTES = 8

Figures = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TraceRun:
    """What to replay where. `tokenizer`: the folder with the model's tokenizer.json. `speed`: how
    many times as fast as recorded. `limit`: the first so many requests alone. `ttft_ms`, `tpot_ms`:
    the limits of goodput. `silence_s`: how long the server may be silent while it has requests.
    """

    trace: Path
    endpoint: str
    model: str
    tokenizer: Path
    out: Path
    speed: float = 1.0
    limit: int | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    silence_s: float = 600.0


class TracePrompts:
    """Makes prompts of whole words: drawn for each request, or block by block for a trace that says
    which prompts begin alike. `seed`: another one gives other words."""

    def __init__(self, tokens: WordTokens, seed: int) -> None:
        self._words = np.array(tokens.words, np.int64)
        self._prefix = list(tokens.prefix)
        self._seed = seed
        self._block = lru_cache(_BLOCKS_KEPT)(partial(self._drawn, BLOCK, 0))

    def _drawn(self, count: int, *key: int) -> list[int]:
        drawn = np.random.default_rng([self._seed, *key]).choice(self._words, count)
        return [int(token) for token in drawn]

    def of(self, number: int, request: TraceRequest) -> list[int]:
        """The token ids of the request with this number, as many as it says."""
        if not request.blocks:
            ids = self._drawn(request.prompt, 1, number)
        else:
            ids = [token for block in request.blocks for token in self._block(block)]
        return [*self._prefix, *ids[len(self._prefix) :]][: request.prompt]


def run_trace(run: TraceRun, say: Callable[[str], None]) -> int:
    """Replay a trace, write its figures and a page of them, and say them.

    Returns the exit status: 1 if a request has no answer, if the client limited the run or if the
    run ended early, 130 at Ctrl-C. Raises DatasetError, UsageError and EngineError before anything
    is sent.
    """
    trace = read_trace(run.trace, run.limit)
    tokens = WordTokens.of(run.tokenizer)
    is_shared = any(request.blocks for request in trace.requests)
    config = EndpointConfig(
        (parse_endpoint(run.endpoint),),
        run.model,
        run.tokenizer,
        _ANY_ID,
        served_model=run.model,
        key=os.environ.get("API_KEY"),
        silence_s=run.silence_s,
        # One salt for all: requests that begin alike may share a cache, as they did.
        cache_salt=secrets.token_hex(_SALT_BYTES) if is_shared else "",
    )
    with closing(EndpointEngine.load(config)) as engine:
        context = engine.description.max_model_len
        requests = [r for r in trace.requests if r.prompt + r.answer <= context]
        if not requests:
            raise UsageError(f"{run.trace}: no request fits the server's context of {context:,}")
        for line in _plan_lines(run, trace, requests, context):
            say(line)
        measured = _measured(engine, run, tokens, requests)
        server = engine.description
    left_out = len(trace.requests) - len(requests)
    summary = trace_summary(run, requests, *measured) | {
        "trace": run.trace.name,
        "kind": trace.kind,
        "notes": [*trace.notes],
        "left_out": left_out,
        "context": context,
        "server": f"{server.name} {server.version}",
        "stand_in": server.stand_in,
        **started_by(),
    }
    write_whole(run.out, json.dumps(summary, indent=2) + "\n")
    page = run.out.with_suffix(".html")
    write_whole(page, trace_page(summary))
    say("\n".join(trace_lines(summary)))
    say(f"{run.out}\n{page}")
    if summary["ended"] == "interrupted":
        return 130
    return int(any(summary[name] for name in ("ended", "failed", "client_limits", "held_back")))


def _plan_lines(
    run: TraceRun, trace: Trace, requests: Sequence[TraceRequest], context: int
) -> Iterator[str]:
    """What follows, with the time that it takes."""
    yield TRACE_MARK
    yield from trace.notes
    if left_out := len(trace.requests) - len(requests):
        yield f"left out: {left_out:,} requests longer than the server's context of {context:,}"
    seconds = requests[-1].at_s / run.speed
    prompt, answer = (
        sum(lengths) / len(requests)
        for lengths in zip(*((r.prompt, r.answer) for r in requests), strict=True)
    )
    yield (
        f"{trace.kind}: {len(requests):,} requests, {prompt:,.0f} prompt and {answer:,.0f} answer "
        f"tokens on average, within {duration_words(seconds)} and the last answers"
    )


def _measured(
    engine: EndpointEngine, run: TraceRun, tokens: WordTokens, requests: Sequence[TraceRequest]
) -> tuple[OpenLoop, RequestTimestamps, RemoteRun]:
    prompts = TracePrompts(tokens, secrets.randbits(32))

    def due() -> Iterator[DueRequest]:
        for number, request in enumerate(requests):
            most = request.answer
            generation = Generation(most, most, ignore_eos=True)
            yield DueRequest(request.at_s / run.speed, prompts.of(number, request), generation)

    engine.run_begins(run.trace.name, "performance")
    engine.take_trace()
    engine.take_remote_run()
    loop = OpenLoop()
    loop.send(engine, due())
    timestamps = engine.take_trace().timestamps
    assert timestamps is not None
    return loop, timestamps, engine.take_remote_run()


class _Answers:
    """The answered requests in the order of sending, their times in ms since the loop began.

    `at_ms`: when each was due; they count from when the bytes were handed to the operating system.
    """

    def __init__(self, due_s: Figures, loop: OpenLoop, timestamps: RequestTimestamps) -> None:
        self.tags = np.array(timestamps.tags, np.int64)
        self.at_ms = due_s[self.tags] * 1000
        # The client's part is the first of all kinds; first and last token the last two.
        sent, *_, first, ended = (
            (np.array(column, float) - loop.began_s) * 1000 for column in timestamps.times_s
        )
        tokens = np.array([loop.tokens.get(tag, 0) for tag in self.tags.tolist()])
        self.times = RequestTimes(sent, first, ended, tokens)
        self.late_ms = sent - self.at_ms


def trace_summary(
    run: TraceRun,
    requests: Sequence[TraceRequest],
    loop: OpenLoop,
    timestamps: RequestTimestamps,
    remote: RemoteRun,
) -> dict[str, Any]:
    """The figures of a replay as JSON. Times in ms by percentile; TTFT and latency count from when
    a request was sent, `late_ms` is how long after its time in the trace that was."""
    due_s = np.array([request.at_s for request in requests]) / run.speed
    answers = _Answers(due_s, loop, timestamps)
    times = answers.times
    duration_s = float(times.ended_ms.max()) / 1000 if len(times) else 0.0
    lengths = np.array([request.prompt for request in requests])[answers.tags]
    reasons, held = Counter(loop.failures.values()), held_back(remote.stream)
    return {
        "mark": TRACE_MARK,
        "speed": run.speed,
        "requests": len(requests),
        "sent": len(loop.issued_s),
        "answered": len(answers.tags),
        "failed": len(loop.failures),
        "failures": dict(reasons.most_common(5)),
        "ended": loop.ended,
        "duration_s": round(duration_s, 3),
        "output_tokens": int(times.tokens.sum()),
        "prompt_tokens": int(lengths.sum()),
        "tokens_per_s": _rate(times.tokens.sum(), duration_s),
        "requests_per_s": _rate(len(answers.tags), duration_s),
        "ttft_ms": _percentiles(times.ttft_ms),
        "tpot_ms": _percentiles(times.tpot_ms),
        "latency_ms": _percentiles(times.latency_ms),
        "late_ms": _percentiles(answers.late_ms),
        "client_limits": _limits(remote, answers),
        "held_back": held,
        "departures": list(remote.departures),
        "goodput": None if held else _goodput(run, answers, duration_s),
        "shared_tokens": shared_tokens(requests),
        "cached_tokens": None if remote.cached_untold else remote.cached_tokens,
        "windows": _windows(run, due_s, answers, duration_s),
        "server_view": [asdict(e.server) for e in remote.endpoints if e.server is not None],
        "client": asdict(remote.client),
    }


def _rate(count: float, seconds: float) -> float:
    return round(float(count) / seconds, 3) if seconds > 0 else 0.0


def _percentiles(values: Figures) -> dict[str, float]:
    return {name: round(value, 3) for name, value in distribution(values).items()}


def _limits(remote: RemoteRun, answers: _Answers) -> list[str]:
    """How the client limited the run, a few words each; empty if it did not."""
    client, limits = remote.client, []
    if client.waited_for_room:
        limits.append(f"{client.waited_for_room:,} requests waited in the client")
    if client.busy_share >= FULL_SHARE:
        limits.append(f"a client process used {client.busy_share:.0%} of a core")
    late_ms = {"sent": _percentiles(answers.late_ms).get("p99"), "taken up": client.back_ms}
    for name, delay_ms in late_ms.items():
        if delay_ms is not None and delay_ms > _MAX_DELAY_MS:
            limits.append(f"{name} {delay_ms:,.1f} ms late at p99")
    return limits


def _within(run: TraceRun, answers: _Answers) -> tuple[npt.NDArray[np.bool_], ...]:
    """Which answers are beyond each limit; an answer of one token has no TPOT."""
    none = np.zeros(len(answers.tags), bool)
    late = none if run.ttft_ms is None else answers.times.ttft_ms > run.ttft_ms
    slow = none if run.tpot_ms is None else np.nan_to_num(answers.times.tpot_ms) > run.tpot_ms
    return late, slow


def _goodput(run: TraceRun, answers: _Answers, duration_s: float) -> dict[str, Any] | None:
    """Of all answered requests; None without limits."""
    if run.ttft_ms is None and run.tpot_ms is None:
        return None
    late, slow = _within(run, answers)
    within = int(np.count_nonzero(~late & ~slow))
    rate = _rate(within, duration_s)
    beyond, limits = (int(late.sum()), int(slow.sum())), (run.ttft_ms, run.tpot_ms)
    return asdict(Goodput(len(late), within, *beyond, *limits, samples_per_sec=rate))


def shared_tokens(requests: Sequence[TraceRequest]) -> int | None:
    """The tokens of prompts that an earlier one of the trace begins with too: the most that any
    cache could have. None if the trace does not say."""
    if not any(request.blocks for request in requests):
        return None
    seen: set[int] = set()
    shared = 0
    for request in requests:
        begun = 0
        while begun < len(request.blocks) and request.blocks[begun] in seen:
            begun += 1
        shared += min(begun * BLOCK, request.prompt)
        seen.update(request.blocks)
    return shared


def _windows(
    run: TraceRun, due_s: Figures, answers: _Answers, duration_s: float
) -> list[dict[str, float | None]]:
    """The run in parts of equal length: due requests, answers, and the times of the
    requests that were due in each."""
    if not len(answers.tags):
        return []
    edges = np.linspace(0.0, max(duration_s, 1e-9), _WINDOWS + 1)
    length_s = edges[1]
    late, slow = _within(run, answers)
    times = answers.times
    rows: list[dict[str, float | None]] = []
    for low, high in pairwise(edges):
        low_ms, high_ms = low * 1000, high * 1000
        inside = (answers.at_ms >= low_ms) & (answers.at_ms < high_ms)
        ended = (times.ended_ms > low_ms) & (times.ended_ms <= high_ms)
        ttft = _percentiles(times.ttft_ms[inside])
        good = (~late & ~slow)[inside]
        rows.append(
            {
                "from_s": round(float(low), 3),
                "due_per_s": _rate(float(np.sum((due_s >= low) & (due_s < high))), length_s),
                "answered_per_s": _rate(float(np.sum(ended)), length_s),
                "tokens_per_s": _rate(times.tokens[ended].sum(), length_s),
                "ttft_p50_ms": ttft.get("p50"),
                "ttft_p99_ms": ttft.get("p99"),
                "tpot_p99_ms": _percentiles(times.tpot_ms[inside]).get("p99"),
                "late_p99_ms": _percentiles(answers.late_ms[inside]).get("p99"),
                "within": round(float(good.mean()), 4) if len(good) else None,
            }
        )
    return rows


_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class DueRequest:
    """A request to send at `at_s`, in s since the loop begins."""

    at_s: float
    token_ids: Sequence[int]
    generation: Generation


@dataclass(slots=True)
class OpenLoop:
    """What became of the requests, by their number in the order of sending.

    `began_s`: in s of time.monotonic. `issued_s`: when each was given to the engine, since then.
    `tokens`: of the answers that came. `failures`: why others did not. `ended`: why the loop ended
    before its last request; empty if it did not.
    """

    began_s: float = 0.0
    issued_s: list[float] = field(default_factory=list)
    tokens: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    ended: str = ""
    _events: SimpleQueue[tuple[Sequence[Tokens], EngineError | None]] = field(
        default_factory=SimpleQueue
    )

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        """The engine's trace has their times."""

    def finished(self, answers: Sequence[Tokens]) -> None:
        self._events.put((answers, None))

    def failed(self, tag: int, error: EngineError) -> None:
        self._events.put(([(tag, ())], error))

    def send(self, engine: Engine, requests: Iterable[DueRequest]) -> None:
        """Send each request when it is due, and wait for the last answers. Ends early if the
        engine dies or hangs, or at Ctrl-C; answers until then are kept.

        A request is made before it is due, so `requests` may be an iterator that makes them.
        """
        self.began_s = time.monotonic()
        try:
            for due in requests:
                due_s = self.began_s + due.at_s
                while (left_s := due_s - time.monotonic()) > 0 and not self.ended:
                    self._take(left_s)
                if self.ended:
                    break
                tag = len(self.issued_s)
                self.issued_s.append(time.monotonic() - self.began_s)
                request = Request(tag, due.token_ids)
                engine.submit([request], due.generation, self, stream=True)
            while self.waiting:
                self._take(_POLL_S)
        except KeyboardInterrupt:
            self.ended = "interrupted"
        if self.ended:
            engine.abort()

    @property
    def waiting(self) -> int:
        """The requests that were sent and have neither an answer nor a failure."""
        return len(self.issued_s) - len(self.tokens) - len(self.failures)

    def _take(self, patience_s: float) -> None:
        try:
            answers, error = self._events.get(timeout=patience_s)
        except Empty:
            return
        for tag, token_ids in answers:
            if error is None:
                self.tokens[tag] = len(token_ids)
            else:
                self.failures[tag] = str(error)
        if isinstance(error, EngineDiedError):
            self.ended = str(error)
