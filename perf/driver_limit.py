"""Where one driver ends: LoadGen and one SUT in front of 8, 64 and 512 replicas, simulated.

    python -m perf.driver_limit [--pictures docs/pictures]

A discrete-event simulation, no measurement of a cluster. The replicas take their service times from
public results on real GPUs; the driver costs what perf/driver_costs.py measured of the real one.
What a driver adds to a request is the time from LoadGen's schedule until its frame is sent, and
from an answer's frame until LoadGen was told.
"""

from __future__ import annotations

import argparse
import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from perf.driver_costs import TOKENS, Costs

MEASURED = Costs(
    issue=5.29e-6,
    offline_issue=2.02e-6,
    route=1.35e-6,
    route_each=0.11e-6,
    send=2.43e-6,
    send_more=0.02e-6,
    receive=3.79e-6,
    receive_more=2.16e-6,
    tell=1.56e-6,
    first=2.80e-6,
    done=3.22e-6,
    done_list=7.53e-6,
    handover=1.29e-6,
)
"""By `python -m perf.driver_costs`: docs/driver-limit.md says where and when."""
_SHARES = (0.0, 0.5, 0.9, 0.95, 0.97, 0.99, 0.999, 1.0)
"""The quantiles that LoadGen's summary has: minimum, percentiles, maximum."""
HELD_SHARE, HELD_MS = 0.97, 10.0
"""A rate is held where so much of it is answered and the added p99 is at most so long."""
_WARM_S, _SECONDS = 8.0, 10.0
REPLICAS = (8, 64, 512)
_CURVE = (1, 8, 64, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536)
_MOST_QPS = 64_000.0


@dataclass(frozen=True, slots=True)
class Service:
    """One replica in Server, as a public result has it.

    `rate`: queries/s that it answers. `ttft_s` and `tpot_s`: the quantiles `_SHARES` of its times,
    of which each request draws one of each. `step_s`: how often its tokens leave it.
    """

    name: str
    rate: float
    ttft_s: Sequence[float]
    tpot_s: Sequence[float]
    step_s: float


H100 = Service(
    "H100, vLLM, FP8",
    39.56,
    (0.027311, 0.223633, 0.809289, 1.143450, 1.417726, 1.911170, 2.149997, 2.283249),
    (0.008799, 0.023644, 0.024625, 0.024758, 0.024834, 0.025129, 0.026999, 0.027740),
    0.023644,
)
"""Red Hat, v5.1, closed/RedHat/results/XE8640_4xH100_vLLM/llama3.1-8b/Server, of one GPU."""
B200 = Service(
    "B200, TensorRT-LLM, FP4",
    996.53 / 8,
    (0.040340, 0.498326, 1.126202, 1.354706, 1.506404, 1.749395, 2.159504, 2.838650),
    (0.003465, 0.029422, 0.037610, 0.039235, 0.040416, 0.042112, 0.044720, 0.053312),
    0.029422,
)
"""NVIDIA, v5.1, closed/NVIDIA/results/B200-SXM-180GBx8_TRT/llama3.1-8b/Server, an eighth of it."""
INSTANT = Service("at once", 0.0, (0.0,) * 8, (0.0,) * 8, 0.0)
SOON = Service("soon", 0.0, (0.05,) * 8, (0.0005,) * 8, H100.step_s)
"""Its first token and its answer come in frames of their own, as those of a GPU do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`asked` and `answered`: queries/s, the latter as a share of what would be answered if the
    driver took no time. `added_p50_ms`, `added_p99_ms`: what it added to TTFT. `busy`: the share of
    the time in which it worked."""

    asked: float
    answered: float
    added_p50_ms: float
    added_p99_ms: float
    busy: float

    @property
    def held(self) -> bool:
        """Whether the driver was no limit."""
        return self.answered >= HELD_SHARE * self.asked and self.added_p99_ms <= HELD_MS


class _Simulation:
    """One run. The driver does one thing at a time, since its threads share Python's lock: a query
    that LoadGen has due, or what a frame holds; where both wait, in turn, as LoadGen's calls hand
    the lock over."""

    def __init__(
        self, replicas: int, service: Service, costs: Costs, asked: float, seconds: float, seed: int
    ) -> None:
        import numpy as np

        dice = np.random.default_rng(seed)
        count = int(asked * seconds)
        self.due: list[float] = np.cumsum(dice.exponential(1 / asked, count)).tolist()
        ttft = np.interp(dice.random(count), _SHARES, service.ttft_s)
        tpot = np.interp(dice.random(count), _SHARES, service.tpot_s)
        self.takes = ttft.tolist(), (ttft + (TOKENS - 1) * tpot).tolist()
        self._phases = (dice.random(replicas) * service.step_s).tolist()
        self._step_s, self._costs = service.step_s, costs
        self._frames: list[tuple[float, int]] = []
        """When and from which replica, a heap."""
        self._content: dict[tuple[float, int], list[tuple[int, bool]]] = {}
        self.now = self.busy = 0.0
        self.issued, self._issued_last = 0, False
        self.added = [0.0] * count
        self.told: list[float] = []

    def run(self, until: float, begin: float = 0.0, end: float = math.inf) -> None:
        """Until every query is answered, or it is so late (s). `busy` is counted from begin to
        end."""
        due, count, issuing_next, was_busy = self.due, len(self.due), True, False
        while len(self.told) < count and self.now < until:
            began = self.now
            is_due = self.issued < count and due[self.issued] <= began
            came = bool(self._frames and self._frames[0][0] <= began)
            issues = is_due and (issuing_next or not came)
            if issues or came:
                if issues is not self._issued_last and was_busy:
                    self.now += self._costs.handover
                self._issued_last = issues
                self._issue() if issues else self._hear()
                issuing_next, was_busy = not issues, True
            else:
                was_busy = False
                next_due = due[self.issued] if self.issued < count else math.inf
                self.now = min(next_due, self._frames[0][0] if self._frames else math.inf)
                continue
            if begin <= began < end:
                self.busy += self.now - began

    def _issue(self) -> None:
        costs, query = self._costs, self.issued
        self.now += costs.issue + costs.route + costs.send
        self.added[query] = self.now - self.due[query]
        self.issued += 1
        for last in (False, True):
            self._leaves(query, last)

    def _leaves(self, query: int, last: bool) -> None:
        """Put its first token, or its answer, into the frame of the step that makes it."""
        at, place = self.now + self.takes[last][query], query % len(self._phases)
        if self._step_s:
            phase = self._phases[place]
            at = max(at, phase + math.ceil((at - phase) / self._step_s) * self._step_s)
        if (at, place) not in self._content:
            self._content[at, place] = []
            heapq.heappush(self._frames, (at, place))
        self._content[at, place].append((query, last))

    def _hear(self) -> None:
        """A wake-up of the thread that reads: every frame that came by now, told in one call of
        LoadGen for first tokens and one for answers."""
        costs, woke = self._costs, self.now
        self.now += costs.receive - costs.receive_more
        firsts: list[tuple[int, float]] = []
        answers = 0
        while self._frames and self._frames[0][0] <= woke:
            key = heapq.heappop(self._frames)
            self.now += costs.receive_more
            for query, last in self._content.pop(key):
                if last:
                    answers += 1
                else:
                    firsts.append((query, key[0]))
        if firsts:
            self.now += costs.tell + len(firsts) * costs.first
            for query, came in firsts:
                self.added[query] += self.now - came
        if answers:
            self.now += costs.tell + answers * costs.done
            self.told.extend([self.now] * answers)


def simulate(
    replicas: int,
    service: Service,
    costs: Costs,
    *,
    rate: float | None = None,
    seconds: float = _SECONDS,
    warm_s: float = _WARM_S,
    seed: int = 1,
) -> Outcome:
    """Server at a rate in queries/s, by default that of so many replicas, for so many s, of which
    the first `warm_s` are not counted.

    Queries come by a Poisson process and go to the replicas in turn; first tokens and answers leave
    a replica at the end of its steps, in one frame.
    """
    import numpy as np

    asked = service.rate * replicas if rate is None else rate
    run = _Simulation(replicas, service, costs, asked, seconds, seed)
    run.run(2 * seconds, warm_s, seconds)
    counted = sum(warm_s <= at < seconds for at in run.told)
    # Of the same queries, so that a Poisson process's own ups and downs are not the driver's.
    whole = zip(run.due, run.takes[True], strict=True)
    at_once = sum(warm_s <= at + took < seconds for at, took in whole)
    late = [a for a, at in zip(run.added[: run.issued], run.due, strict=False) if at >= warm_s]
    p50, p99 = np.quantile(late, (0.5, 0.99)) * 1e3 if late else (math.nan, math.nan)
    share = run.busy / (seconds - warm_s)
    answered = asked * counted / at_once if at_once else 0.0
    return Outcome(asked, answered, float(p50), float(p99), share)


def highest_rate(replicas: int, service: Service, costs: Costs) -> float:
    """The highest rate that the driver holds over so many replicas, whatever they make, queries/s.

    `service`: one that answers soon, since each trial is of two seconds.
    """
    held, not_held = 0.0, 4 / costs.query
    while not_held - held > 0.01 * not_held:
        middle = (held + not_held) / 2
        outcome = simulate(replicas, service, costs, rate=middle, seconds=2.0, warm_s=0.5)
        held, not_held = (middle, not_held) if outcome.held else (held, middle)
    return held


def fitted(costs: Costs, rate: float, replicas: int) -> Costs:
    """The costs with the handover with which a driver that answers at once just holds a rate."""
    low, high = 0.0, 2 / rate
    for _ in range(14):
        middle = replace(costs, handover=(low + high) / 2)
        one = simulate(replicas, INSTANT, middle, rate=rate, seconds=1.5, warm_s=0.5)
        low, high = (middle.handover, high) if one.held else (low, middle.handover)
    return replace(costs, handover=low)


def searching(costs: Costs, replicas: int) -> Costs:
    """The same with a search through all replicas for each query in place of a heap."""
    return replace(costs, route=costs.route_each * replicas)


def search_limit(service: Service, costs: Costs) -> int:
    """The most replicas of a driver that looks at all of them for each query."""
    replicas = 512
    for _ in range(8):
        rate = highest_rate(replicas, SOON, searching(costs, replicas))
        # Half the way each time, since more replicas make each query dearer.
        replicas = round((replicas + rate / service.rate) / 2)
    return replicas


def offline_rate(costs: Costs) -> float:
    """Samples/s that one driver hands out and tells of: no simulation, the costs' sum."""
    alone = costs.receive + costs.tell + costs.done
    return 1 / (costs.offline_issue + costs.route + costs.send_more + alone)


def _draw(curves: dict[str, list[tuple[int, Outcome]]], axes: Any, ink: str) -> None:
    upper, lower = axes
    looks = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", ":"))
    for (name, points), (colour, marker, line) in zip(curves.items(), looks, strict=False):
        over = [count for count, _ in points]
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": line, "ms": 3.5}
        upper.plot(over, [o.answered for _, o in points], label=name, **look)
        upper.plot(over, [o.asked for _, o in points], color=colour, linewidth=0.6, alpha=0.6)
        lower.plot(over, [max(o.added_p99_ms, 1e-3) for _, o in points], **look)
    for axis in axes:
        axis.set_facecolor("none")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
    lower.axhline(HELD_MS, color=ink, linewidth=0.8, linestyle="--")
    lower.set_xticks(REPLICAS, [str(count) for count in REPLICAS])
    upper.set_ylabel("answered, queries/s\n(thin: asked)")
    lower.set_ylabel("p99 added to TTFT, ms\n(dashed: 10 ms)")
    lower.set_xlabel("replicas (simulated)")
    upper.legend(fontsize="small", loc="upper left")


def draw(curves: dict[str, list[tuple[int, Outcome]]], folder: Path) -> None:
    """Write the plot for light and for dark pages."""
    from mlperf_suite.reports.plots import Plot

    plot = Plot("driver-limit", "", partial(_draw, curves), panels=2)
    folder.mkdir(parents=True, exist_ok=True)
    for scheme, ink, page in (("light", "black", "white"), ("dark", "#e6e6e6", "#0d1117")):
        figure = plot.figure(ink, "#808080")
        figure.savefig(folder / f"driver-limit-{scheme}.png", dpi=110, facecolor=page)


def _limits() -> None:
    print("\n| driver | queries/s held | H100 replicas | B200 replicas |\n|---|---:|---:|---:|")
    lists = replace(MEASURED, done=MEASURED.done_list)
    for name, costs in (("as measured", MEASURED), ("tokens as lists of numbers", lists)):
        rate = highest_rate(512, SOON, costs)
        print(f"| {name} | {rate:,.0f} | {rate / H100.rate:,.0f} | {rate / B200.rate:,.0f} |")
    found = [search_limit(service, MEASURED) for service in (H100, B200)]
    print(f"| a search through all replicas | | {found[0]:,} | {found[1]:,} |")
    print(f"\nOffline, by sum: {offline_rate(MEASURED):,.0f} samples/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pictures", type=Path, help="write the plot into this folder")
    chosen = parser.parse_args()
    curves: dict[str, list[tuple[int, Outcome]]] = {}
    print("Server, simulated:\n")
    print(
        "| replica | replicas | asked, queries/s | answered | p50 added, ms | p99 | driver busy |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for service in (H100, B200):
        points = curves[service.name] = []
        for count in _CURVE if chosen.pictures else REPLICAS:
            if count * service.rate > _MOST_QPS:
                break
            one = simulate(count, service, MEASURED)
            points.append((count, one))
            if count in REPLICAS:
                print(
                    f"| {service.name} | {count} | {one.asked:,.0f} | {one.answered:,.0f} "
                    f"| {one.added_p50_ms:.3f} | {one.added_p99_ms:,.3f} | {one.busy:.0%} |",
                    flush=True,
                )
    _limits()
    if chosen.pictures:
        draw(curves, chosen.pictures)


if __name__ == "__main__":
    main()
