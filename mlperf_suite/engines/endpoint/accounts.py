"""What is counted of each run: by endpoint, of the client, and of what the servers say they did."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlperf_suite.benchmarks.percentile import percentile
from mlperf_suite.engines.endpoint.adapters import words_of
from mlperf_suite.engines.endpoint.messages import Done
from mlperf_suite.engines.protocol import ClientFigures, EndpointFigures

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def _percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    if not ordered:
        return {}
    return {n: round(percentile(ordered, of) * 1000, 3) for n, of in _PERCENTILES.items()}


def _p99_ms(seconds: Sequence[float]) -> float | None:
    return round(percentile(sorted(seconds), 0.99) * 1000, 4) if seconds else None


class EndpointAccount:
    """One endpoint's requests of a run; times in s, 8 bytes for each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ttft = array("d")
        self._latency = array("d")
        self._tokens = 0
        self._last = 0.0
        self.cached: int | None = None

    def add(self, done: Done, submitted: float, *, streamed: bool) -> None:
        """Count an answer."""
        self._latency.append(done.arrived - submitted)
        self._last = max(self._last, done.arrived)
        if streamed:
            self._ttft.append(done.first - submitted)
        self._tokens += len(done.token_ids)
        if done.cached_tokens is not None:
            self.cached = (self.cached or 0) + done.cached_tokens

    def figures(self, began: float) -> EndpointFigures:
        """What it came to, in a run that began then (time.monotonic, s)."""
        return EndpointFigures(
            self._url,
            len(self._latency),
            self._tokens,
            _percentiles_ms(self._ttft),
            _percentiles_ms(self._latency),
            self.cached,
            round(self._last - began, 3) if self._latency else None,
        )


@dataclass(slots=True)
class _Departure:
    count: int = 0
    example: str = ""

    def add(self, example: str) -> None:
        self.count += 1
        self.example = self.example or example


@dataclass(slots=True)
class DepartureAccount:
    """Where servers did not do what they were asked."""

    answers: int = 0
    found: dict[str, _Departure] = field(default_factory=dict)

    def add(self, done: Done, prompt_tokens: int, most: int, least: int, *, ids: bool) -> None:
        """Look at an answer. `prompt_tokens` were sent, and asked for were `least` to `most` tokens
        of an answer. `ids`: the server gives token ids, so that its count can be compared."""
        self.answers += 1
        made = len(done.token_ids)
        # Text is counted by another tokenizer than the server's: its own count, where it tells one,
        # and that to within a tenth.
        told = made if ids else (done.completion_tokens or made)
        slack = 0 if ids else max(8, most // 10)
        if done.finish_reason == "length" and told < most - slack:
            self._note("cut short by the server's own limit", f"{told} tokens of {most}")
        elif done.finish_reason not in ("stop", "length"):
            self._note("ended for another reason", str(done.finish_reason))
        if told > most + slack:
            self._note("longer than asked for", f"{told} tokens for {most}")
        if made < least and ids:
            self._note("shorter than asked for", f"{made} tokens for {least}")
        if done.other_model is not None:
            self._note("made by another model", done.other_model)
        if done.prompt_tokens not in (None, prompt_tokens):
            self._note(
                "with another prompt length in usage",
                f"{done.prompt_tokens} tokens for {prompt_tokens}",
            )
        if ids and done.completion_tokens not in (None, made):
            self._note(
                "with another token count in usage", f"{done.completion_tokens} tokens for {made}"
            )

    def _note(self, what: str, example: str) -> None:
        self.found.setdefault(what, _Departure()).add(words_of(example))

    def words(self) -> tuple[str, ...]:
        """Each kind with its number and the first example."""
        return tuple(
            f"{one.count:,} of {self.answers:,} answers {what} ({one.example})"
            for what, one in self.found.items()
        )


class ClientAccount:
    """What the client's side of a run took; times in s, 8 bytes for each."""

    def __init__(self) -> None:
        self._out = array("d")
        self._back = array("d")
        self._resent = 0
        self._connections: dict[int, int] = {}

    def opened(self, client: int, connections: int) -> None:
        """Note how many connections a client process had open at once."""
        self._connections[client] = max(connections, self._connections.get(client, 0))

    def sent(self, done: Done, handed: float) -> None:
        """Count a request that was handed to the client process then, in s of time.monotonic.

        Opening a connection is the network's time and not the client's.
        """
        self._out.append(max(0.0, done.sent - handed - done.connecting))
        self._resent += done.resent

    def told(self, delay_s: float) -> None:
        """Count the time between an arrival and LoadGen being told of it."""
        self._back.append(delay_s)

    def figures(self, cpu_s: Mapping[int, float], elapsed_s: float) -> ClientFigures:
        """`cpu_s`: of each process, what it used in these `elapsed_s`; below 0 stands the thread of
        the suite's own process that hears of answers."""
        return ClientFigures(
            sum(number >= 0 for number in cpu_s),
            round(max(cpu_s.values(), default=0.0) / elapsed_s, 4) if elapsed_s > 0 else 0.0,
            _p99_ms(self._out),
            _p99_ms(self._back),
            sum(self._connections.values()),
            self._resent,
        )
