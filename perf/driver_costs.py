"""What one request costs the driver of many replicas: LoadGen, the SUT, frames, sockets.

    python -m perf.driver_costs [--queries 20000] [--check] [--runs 3]

Processor time of the thread that does it, in us, measured where nothing else competes for it: real
LoadGen issues all queries before any is answered, and the answers are then told, 64 in a call.
Frames are MessagePack with the tokens as int32, as replicas send them. With --check the highest
rate that the whole holds, real LoadGen and real sockets to a process that answers at once, stands
beside what the model of perf/driver_limit.py makes of these costs, and beside the same driver with
a call of LoadGen for each message. None of this measures an engine.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import math
import os
import random
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import psutil

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.frames import Frames, frame
from mlperf_suite.engines.protocol import EngineDescription, Listener, Request
from mlperf_suite.engines.telling import by_listener
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened, plan_run
from perf.server_overhead import SAMPLES, highest_held, served, stolen_s

TOKENS = 128
"""An answer's length, that of llama3.1-8b."""
_AT_ONCE_QPS = 1e6
"""A rate that no Python reaches, so that LoadGen never waits."""
_QUIET_S = 0.3
_BATCH = 64
_ROUTED = (8, 64, 512)


@dataclass(frozen=True, slots=True)
class Costs:
    """Processor time of the driver in s.

    `issue`: LoadGen's query and the SUT's, to the engine. `offline_issue`: a sample of one query
    of all. `route`: choosing a replica by a heap of outstanding tokens, and taking them off again;
    `route_each`: what each further replica adds to a search through all. `send`: a frame with one
    request, `send_more` each further request in it. `receive`: a wake-up with one frame,
    `receive_more` each further frame of the same wake-up, both without the messages in it. `tell`:
    a call of LoadGen, and `first`, `done` each message in it, decoded and told. `done_list`: with
    its tokens as a list of numbers. `handover`: what is lost each time that the thread which hears
    of answers and LoadGen's take Python's lock from each other, found by what the whole holds.
    """

    issue: float = 0.0
    offline_issue: float = 0.0
    route: float = 0.0
    route_each: float = 0.0
    send: float = 0.0
    send_more: float = 0.0
    receive: float = 0.0
    receive_more: float = 0.0
    tell: float = 0.0
    first: float = 0.0
    done: float = 0.0
    done_list: float = 0.0
    handover: float = 0.0

    @property
    def query(self) -> float:
        """Of one query of Server, in frames of its own, where no thread waits for another."""
        told = 2 * self.tell + self.first + self.done
        return self.issue + self.route + self.send + 2 * self.receive + told


class Work(msgspec.Struct, array_like=True, tag=True):
    """Requests for a replica: their numbers, the samples by index, the most tokens of each."""

    numbers: list[int]
    samples: list[int]
    most: list[int]


class First(msgspec.Struct, array_like=True, tag=True):
    """A first token."""

    number: int
    token_ids: list[int]


class Done(msgspec.Struct, array_like=True, tag=True):
    """An answer, its tokens as int32."""

    number: int
    token_ids: bytes


class DoneList(msgspec.Struct, array_like=True, tag=True):
    """An answer, its tokens as numbers."""

    number: int
    token_ids: list[int]


_answers = msgspec.msgpack.Decoder(list[First | Done | DoneList])
_work = msgspec.msgpack.Decoder(Work)
_TOKEN_IDS = [(7919 * n) % 128_000 for n in range(TOKENS)]
_BYTES = np.asarray(_TOKEN_IDS, dtype=np.int32).tobytes()


def ids_of(tokens: bytes) -> Any:
    """Token ids where they lie, without a copy: what LoadGen is given in the end."""
    return np.frombuffer(tokens, np.int32)


def first_of(number: int) -> First:
    return First(number, _TOKEN_IDS[:1])


def done_of(number: int) -> Done:
    return Done(number, _BYTES)


def _timed(each: Callable[[Any], object], of: Sequence[Any]) -> float:
    """Processor time of this thread for each of them, s."""
    began = time.thread_time()
    for one in of:
        each(one)
    return (time.thread_time() - began) / len(of)


def _timed_together(all_of: Callable[[Any], object], of: Sequence[Any]) -> float:
    """The same, where a call takes 64 of them."""
    batches = [of[begin : begin + _BATCH] for begin in range(0, len(of), _BATCH)]
    return _timed(all_of, batches) * len(batches) / len(of)


# LoadGen and the SUT


class _Collector:
    """An engine that keeps requests until no more come, and then hands them to `answer`."""

    description = EngineDescription("collector", "1", "collector", True, 131_072)
    alive = True

    def __init__(self, answer: Callable[[Listener, list[int]], None]) -> None:
        self._answer = answer
        self._tags: list[int] = []
        self._listener: Listener | None = None
        self._times: list[float] = []
        self._closed = threading.Event()
        self.issue_s = 0.0
        self._thread = threading.Thread(target=self._work, name="collector", daemon=True)
        self._thread.start()

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        self._listener = listener
        self._times.append(time.thread_time())
        self._tags.extend(request.tag for request in requests)

    def _work(self) -> None:
        known = -1
        while known != len(self._tags) or not known:
            known = len(self._tags)
            time.sleep(_QUIET_S)
        times, listener = self._times, self._listener
        assert listener is not None
        if len(times) > 1:
            self.issue_s = (times[-1] - times[0]) / (len(times) - 1)
        self._answer(listener, self._tags)
        self._closed.wait()

    def abort(self) -> None:
        """Nothing waits here for long."""

    def close(self) -> None:
        self._closed.set()
        self._thread.join(60)


def _plan(scenario: str, queries: int) -> LoadPlan:
    return plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario(scenario),
        "performance",
        ROUNDS[DEFAULT_ROUND],
        SAMPLES if scenario == "Server" else queries,
        target_qps=_AT_ONCE_QPS if scenario == "Server" else float(queries),
        shortened=Shortened(1, queries, latency_percent=99),
    )


def _ran(scenario: str, queries: int, answer: Callable[[Listener, list[int]], None]) -> float:
    """What issuing took of LoadGen's thread, s a query, in a run that `answer` answers."""
    plan = _plan(scenario, queries)
    engine = _Collector(answer)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(engine):
        runner.run_loadgen(plan, engine, [[1, 2, 3]] * plan.samples, Generation(), Path(folder))
    return engine.issue_s


def _sut_costs(queries: int) -> dict[str, float]:
    found: dict[str, float] = {}

    def answer(listener: Listener, tags: list[int]) -> None:
        def first(messages: Sequence[First]) -> None:
            listener.first_tokens([(one.number, one.token_ids) for one in messages])

        def done(messages: Sequence[Done]) -> None:
            listener.finished([(one.number, ids_of(one.token_ids)) for one in messages])

        def done_list(messages: Sequence[DoneList]) -> None:
            listener.finished([(one.number, one.token_ids) for one in messages])

        found["first"] = _timed_together(first, [first_of(tag) for tag in tags])
        third = len(tags) // 3
        together, alone, lists = tags[:third], tags[third : 2 * third], tags[2 * third :]
        found["done"] = _timed_together(done, [done_of(tag) for tag in together])
        found["tell"] = _timed(done, [[done_of(tag)] for tag in alone]) - found["done"]
        as_lists = [DoneList(tag, _TOKEN_IDS) for tag in lists]
        found["done_list"] = _timed_together(done_list, as_lists)

    found["issue"] = _ran("Server", queries, answer)
    return found


def _offline_issue(queries: int) -> float:
    """What one query of all samples takes of the SUT, s a sample."""
    took = [0.0]

    def answer(listener: Listener, tags: list[int]) -> None:
        listener.finished([(tag, ids_of(_BYTES)) for tag in tags])

    from mlperf_suite.loadgen.sut import Sut

    whole = Sut.issue

    def timed(self: Sut, samples: Sequence[Any]) -> None:
        began = time.thread_time()
        whole(self, samples)
        took[0] = (time.thread_time() - began) / len(samples)

    Sut.issue = timed  # type: ignore[method-assign]
    try:
        _ran("Offline", queries, answer)
    finally:
        Sut.issue = whole  # type: ignore[method-assign]
    return took[0]


# Frames and sockets


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection over the loopback address, as between driver and replica."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    for one in (ours, theirs):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


def _frame_costs(rounds: int) -> dict[str, float]:
    """Sending and receiving frames, and the decoding of their messages."""
    driver, replica = connected()
    found: dict[str, float] = {}
    with driver, replica:
        replica.setblocking(False)

        def send(count: int) -> None:
            numbers = list(range(count))
            driver.sendall(frame(Work(numbers, numbers, [TOKENS] * count)))

        def drained(count: int) -> float:
            took = 0.0
            for _ in range(rounds):
                took += _timed(send, [count])
                with contextlib.suppress(BlockingIOError):
                    while replica.recv(1 << 20):
                        pass
            return took / rounds

        one, many = drained(1), drained(_BATCH)
        found["send"], found["send_more"] = one, (many - one) / (_BATCH - 1)

    def received(sockets: int, messages: Sequence[object], rounds: int) -> float:
        """A wake-up in which each of so many sockets has a frame of these messages, s."""
        with contextlib.ExitStack() as stack:
            pairs = [connected() for _ in range(sockets)]
            selector = stack.enter_context(selectors.DefaultSelector())
            for ours, theirs in pairs:
                stack.enter_context(ours)
                stack.enter_context(theirs)
                selector.register(ours, selectors.EVENT_READ, Frames())
            content, took = frame(messages), 0.0
            for _ in range(rounds):
                for _, theirs in pairs:
                    theirs.sendall(content)
                began = time.thread_time()
                for key, _ in selector.select(1.0):
                    for whole in key.data.feed(key.fileobj.recv(1 << 20)):  # type: ignore[union-attr]
                        for _ in _answers.decode(whole):
                            pass
                took += time.thread_time() - began
            return took / rounds

    empty, wide = received(1, [], rounds), received(_BATCH, [], rounds // _BATCH)
    found["receive"] = empty
    found["receive_more"] = (wide - empty) / (_BATCH - 1)
    for name, message in (
        ("first", first_of(1 << 40)),
        ("done", done_of(1 << 40)),
        ("done_list", DoneList(1 << 40, _TOKEN_IDS)),
    ):
        one, many = (received(1, [message] * count, rounds // 4) for count in (1, 17))
        found[name] = (many - one) / 16
    return found


# Routing


def by_search(outstanding: list[int], turn: int) -> int:
    """The replica with the fewest outstanding tokens, by looking at all of them."""
    count = len(outstanding)
    return min(range(count), key=lambda place: (outstanding[place], (place - turn) % count))


class ByHeap:
    """The replica with the fewest outstanding tokens, by a heap that skips old entries."""

    def __init__(self, count: int) -> None:
        self.outstanding = [0] * count
        self._heap = [(0, place) for place in range(count)]

    def take(self, tokens: int) -> int:
        """The replica for a request that means so many tokens."""
        while True:
            known, place = self._heap[0]
            now = self.outstanding[place]
            if known == now:
                break
            heapq.heapreplace(self._heap, (now, place))
        self.outstanding[place] += tokens
        heapq.heapreplace(self._heap, (known + tokens, place))
        return place

    def give(self, place: int, tokens: int) -> None:
        """Its request was answered."""
        self.outstanding[place] -= tokens
        heapq.heappush(self._heap, (self.outstanding[place], place))
        if len(self._heap) > 4 * len(self.outstanding):
            self._heap = [(now, at) for at, now in enumerate(self.outstanding)]
            heapq.heapify(self._heap)


def _route_costs(rounds: int) -> dict[int, tuple[float, float]]:
    """By the number of replicas, choosing one by search and by heap, s."""
    dice, found = random.Random(1), {}  # noqa: S311 - no secret
    for count in _ROUTED:
        loads = [dice.randrange(100_000) for _ in range(count)]
        search = _timed(partial(by_search, loads), range(max(200, rounds // count)))
        heap = ByHeap(count)
        waiting: list[tuple[int, int]] = []

        def turn(
            tokens: int, heap: ByHeap = heap, waiting: list[tuple[int, int]] = waiting
        ) -> None:
            waiting.append((heap.take(tokens), tokens))
            if len(waiting) > 8 * len(heap.outstanding):
                heap.give(*waiting.pop(dice.randrange(len(waiting))))

        found[count] = search, _timed(turn, [dice.randrange(100, 1200) for _ in range(rounds)])
    return found


def measure(queries: int) -> tuple[Costs, dict[int, tuple[float, float]]]:
    """All of them, and what routing takes by search and by heap for each number of replicas."""
    told, frames = _sut_costs(queries), _frame_costs(4096)
    routes = _route_costs(20_000)
    fewest, most = routes[_ROUTED[0]], routes[_ROUTED[-1]]
    return Costs(
        issue=told["issue"],
        offline_issue=_offline_issue(queries),
        route=max(heap for _, heap in routes.values()),
        route_each=(most[0] - fewest[0]) / (_ROUTED[-1] - _ROUTED[0]),
        send=frames["send"],
        send_more=frames["send_more"],
        receive=frames["receive"],
        receive_more=frames["receive_more"],
        tell=told["tell"],
        first=told["first"] + frames["first"],
        done=told["done"] + frames["done"],
        done_list=told["done_list"] + frames["done_list"],
    ), routes


# The whole, in real time


class LinkedEngine:
    """Replicas in one process that answers each frame at once, with a socket to each.

    `each_alone`: LoadGen is told of each message in a call of its own, for comparison.
    """

    description = EngineDescription("linked replicas", "1", "linked", True, 131_072)
    alive = True

    def __init__(self, replicas: int, *, each_alone: bool = False) -> None:
        self._each_alone = each_alone
        pairs = [connected() for _ in range(replicas)]
        self._sockets = [ours for ours, _ in pairs]
        numbers = [theirs.fileno() for _, theirs in pairs]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "perf.driver_costs", "--replicas", *map(str, numbers)],
            pass_fds=numbers,
        )
        for _, theirs in pairs:
            theirs.close()
        self.pid = self._process.pid
        self._routes = ByHeap(replicas)
        self._waiting: dict[int, tuple[Listener, int, int]] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._hear, name="replicas", daemon=True)
        self._thread.start()

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        for request in requests:
            tokens = len(request.prompt_token_ids) + TOKENS
            with self._lock:
                place = self._routes.take(tokens)
            self._waiting[request.tag] = listener, place, tokens
            self._sockets[place].sendall(frame(Work([request.tag], [0], [TOKENS])))

    def _hear(self) -> None:
        with selectors.DefaultSelector() as selector:
            for ours in self._sockets:
                selector.register(ours, selectors.EVENT_READ, Frames())
            while selector.get_map():
                came: list[First | Done | DoneList] = []
                for key, _ in selector.select():
                    with contextlib.suppress(OSError):
                        data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
                        if data:
                            for content in key.data.feed(data):
                                came += _answers.decode(content)
                            continue
                    selector.unregister(key.fileobj)
                self._tell(came)

    def _tell(self, came: Sequence[First | Done | DoneList]) -> None:
        for some in [[one] for one in came] if self._each_alone else [came]:
            firsts = [
                (self._waiting[one.number][0], one.number, one.token_ids)
                for one in some
                if isinstance(one, First)
            ]
            for listener, told in by_listener(firsts):
                listener.first_tokens(told)
            answers = []
            for one in some:
                if isinstance(one, Done):
                    listener, place, load = self._waiting.pop(one.number)
                    with self._lock:
                        self._routes.give(place, load)
                    answers.append((listener, one.number, ids_of(one.token_ids)))
            for listener, told in by_listener(answers):
                listener.finished(told)

    def abort(self) -> None:
        self._waiting.clear()

    def close(self) -> None:
        for ours in self._sockets:
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._process.wait(5)


def _replicas(numbers: Sequence[int]) -> None:
    """The other process: each frame of requests has its answers in one frame, at once."""
    with selectors.DefaultSelector() as selector:
        for number in numbers:
            selector.register(socket.socket(fileno=number), selectors.EVENT_READ, Frames())
        while selector.get_map():
            for key, _ in selector.select():
                data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                asked = [
                    n for content in key.data.feed(data) for n in _work.decode(content).numbers
                ]
                answers = [made for n in asked for made in (first_of(n), done_of(n))]
                if answers:
                    key.fileobj.sendall(frame(answers))  # type: ignore[union-attr]


def check(costs: Costs, runs: int, replicas: int = 8) -> None:
    """Print the highest rate that the real driver held beside the model's, and what explains it."""
    from perf.driver_limit import INSTANT, fitted, highest_rate

    said = highest_rate(replicas, INSTANT, costs)
    print(f"\nhighest rate held over {replicas} links, queries/s; the model says {said:,.0f}:\n")
    print("| run | calls of LoadGen | held | processor time, us a query | the links' | stolen, s |")
    print("|---|---|---:|---:|---:|---:|", flush=True)
    held: dict[bool, list[float]] = {False: [], True: []}
    for number in range(1, runs + 1):
        for each_alone in (False, True) if number % 2 else (True, False):
            stolen = stolen_s()
            rate, mine, theirs = _held(replicas, said, each_alone=each_alone)
            held[each_alone].append(rate)
            calls = "one a message" if each_alone else "one for all that came"
            print(
                f"| {number} | {calls} | {rate:,.0f} | {mine * 1e6:.1f} | {theirs * 1e6:.1f} "
                f"| {stolen_s() - stolen:.2f} |",
                flush=True,
            )
    together, alone = median(held[False]), median(held[True])
    ratios = [one / other for one, other in zip(held[False], held[True], strict=True)]
    print(
        f"\nmedian: {together:,.0f}, and {alone:,.0f} with a call for each message; of each pair "
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    print(f"handover: {fitted(costs, together, replicas).handover * 1e6:.2f} us")


def _held(replicas: int, said: float, *, each_alone: bool) -> tuple[float, float, float]:
    """The highest rate held, and at it the processor time of this process and of the links' other
    end, s a query."""
    with contextlib.closing(LinkedEngine(replicas, each_alone=each_alone)) as engine:
        rate = highest_held(partial(served, engine), 2.0, said / 2)
        mine, theirs = (_cpu_s(one) for one in (os.getpid(), engine.pid))
        detail = served(engine, rate, 2000)
        queries = (detail.number("result_completed_samples_per_sec") or math.nan) * 2
        return (
            rate,
            (_cpu_s(os.getpid()) - mine) / queries,
            (_cpu_s(engine.pid) - theirs) / queries,
        )


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--check", action="store_true", help="the whole, in real time, as well")
    parser.add_argument("--runs", type=int, default=3, help="of --check")
    parser.add_argument("--replicas", type=int, nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.replicas:
        _replicas(chosen.replicas)
        return
    stolen = stolen_s()
    found = [measure(chosen.queries) for _ in range(3)]
    costs = Costs(
        **{f.name: median(getattr(one, f.name) for one, _ in found) for f in fields(Costs)}
    )
    print("| part | us, median of three | lowest to highest |\n|---|---:|---:|")
    for name, value in asdict(costs).items():
        seen = [getattr(one, name) * 1e6 for one, _ in found]
        print(f"| {name} | {value * 1e6:.3f} | {min(seen):.3f} to {max(seen):.3f} |")
    print(f"| a query of Server, alone | {costs.query * 1e6:.1f} | |")
    for count, (search, heap) in found[0][1].items():
        took = f"{search * 1e6:.2f}, {heap * 1e6:.2f}"
        print(f"| one of {count} replicas: by search, by heap | {took} | |")
    print(f"\nstolen: {stolen_s() - stolen:.2f} s; {costs}")
    if chosen.check:
        check(costs, chosen.runs)


if __name__ == "__main__":
    main()
