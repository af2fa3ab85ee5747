"""Measure what the suite itself adds in Server to LoadGen with a SUT that answers at once.

    python -m perf.server_overhead [--pairs 5] [--seconds 2] [--ttft-seconds 10]

LoadGen alone answers inside its callback, which no suite can beat. The suite is LoadGen, the SUT
and an engine that answers at once, on its own thread like real engines, or with --in-call within
the SUT's call, as LoadGen alone does. Each query streams a first token and an answer of 100 tokens.
Both are measured in turn, a pair within the same half minute, since other load on the machine
changes either by as much as is measured. First table: the time to first token at 200 queries/s.
Second table: the highest rate held, of which 97% is completed in each second with a latency p99 of
at most 10 ms; a rate that was not held is tried once more. Each pair shows the time that other
guests took from the machine. No engine is measured.
"""

from __future__ import annotations

import math
from contextlib import closing
from functools import partial

from perf.pairs import in_turn, middle, pairs_parser, print_header, print_row
from perf.server_load import (
    InstantEngine,
    Serve,
    is_held,
    loadgen_alone,
    print_added_ttft,
    serve_at,
)

_STEP = 1.05
_START_RATE, _MIN_RATE = 10_000.0, 100.0


def highest_held(serve: Serve, seconds: float, start: float) -> float:
    """The highest rate held among steps of 5%, in queries/s, searched from `start`; 0 for none."""
    rate, best, ceiling = start, 0.0, math.inf
    while rate > _MIN_RATE:
        # A rate may fail because of other load at that moment.
        ok = any(is_held(rate, serve(rate, round(seconds * 1000))) for _ in range(2))
        best, ceiling = (rate, ceiling) if ok else (best, rate)
        if not best or math.isinf(ceiling):
            rate = rate * _STEP**4 if ok else rate / _STEP**4
            continue
        steps = round(math.log(ceiling / best, _STEP))
        if steps <= 1:
            break
        # Halve between held and not held until they are one step apart.
        rate = best * _STEP ** (steps // 2)
    return best


def _print_rates(suite: Serve, pairs: int, seconds: float) -> None:
    print("\nhighest rate held, queries/s:\n", flush=True)
    print_header("pair", "suite", "LoadGen alone", "suite / alone", "stolen, s")
    shares = []
    start = {"suite": _START_RATE, "alone": _START_RATE}

    def highest(name: str, serve: Serve) -> float:
        # A pair begins at the rate where the previous one ended.
        start[name] = highest_held(serve, seconds, start[name]) or _START_RATE
        return start[name]

    sides = {
        "suite": partial(highest, "suite", suite),
        "alone": partial(highest, "alone", loadgen_alone),
    }
    for pair in in_turn(sides, pairs):
        suite_rate, alone = pair.results["suite"], pair.results["alone"]
        shares.append(suite_rate / alone)
        cells = (f"{suite_rate:,.0f}", f"{alone:,.0f}", f"{shares[-1]:.3f}", f"{pair.stolen_s:.2f}")
        print_row(pair.number, *cells)
    print_row("median", "", "", middle(shares, "at least 0.8"), "")


def main() -> None:
    parser = pairs_parser(__doc__, pairs=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each rate that is tried")
    parser.add_argument("--ttft-seconds", type=float, default=10.0, help="of each side of a pair")
    parser.add_argument("--only", choices=("ttft", "rates"))
    parser.add_argument("--in-call", action="store_true", help="the engine has no thread")
    options = parser.parse_args()
    with closing(InstantEngine(in_call=options.in_call)) as engine:
        suite = partial(serve_at, engine)
        if options.only != "rates":
            print_added_ttft("suite", suite, options.pairs, options.ttft_seconds, "at most 0.300")
        if options.only != "ttft":
            _print_rates(suite, options.pairs, options.seconds)


if __name__ == "__main__":
    main()
