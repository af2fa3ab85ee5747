"""Measure the cost of the always-on part: each request's times and the engine's statistics.

    python -m perf.always_on [--pairs 10] [--engine instant|vllm]

Alternates the same run with and without that part; which of the two goes first changes from pair to
pair. "instant": Server at a rate, on an engine that answers at once; processor time of the suite's
process per query, including LoadGen's own. "vllm": Offline on one loaded engine; tokens/s, and the
processor time of the suite's and vLLM's processes per token. Other load on the machine changes
processor time less than tokens/s, and that of the suite's own process least. Processor time is
measured until LoadGen's end, since later work on the times is not part of a run. Without the part,
the SUT records no times and vLLM's front end makes no statistics. Each pair shows the time that
other guests took from the machine.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.loadgen.load_plan import LoadPlan
from mlperf_suite.loadgen.logs import RunLogs, read_logs
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from perf.embedded_engine import Prompts, embedded_engine, offline_plan
from perf.pairs import cpu_s, in_turn, pairs_parser, print_header, print_row
from perf.server_load import SAMPLES, InstantEngine, server_plan

_AIM = 0.005
_SET_S = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    """One run's processor time of all processes in µs per query or token, `own_us` of it in the
    suite's own process, and its tokens/s."""

    cpu_us: float
    own_us: float
    tokens_per_s: float


def run_once(
    plan: LoadPlan, engine: Engine, prompts: Prompts, generation: Generation, *, with_times: bool
) -> tuple[LoadRun, float, float]:
    """Make a run; return it and its processor time in this process and in all, in s."""
    cpu_at_end: list[tuple[float, float]] = []

    def read(folder: Path) -> RunLogs:
        # This is called first after LoadGen's end.
        cpu_at_end.append(cpu_s())
        return read_logs(folder)

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("mlperf_suite.loadgen.runner.read_logs", read),
    ):
        began = cpu_s()
        run = run_loadgen(plan, engine, prompts, generation, Path(folder), with_times=with_times)
    own, total = (end - start for start, end in zip(began, cpu_at_end[0], strict=True))
    return run, own, total


@contextmanager
def statistics_set(engine: VllmEngine, on: bool) -> Iterator[None]:
    """Switch the statistics of vLLM's front end for each step and request on or off."""
    llm = engine.async_llm
    before = llm.log_stats, llm.logger_manager

    async def set_to(stats: bool, loggers: object) -> None:
        llm.log_stats = llm.output_processor.log_stats = stats
        llm.logger_manager = loggers
        # The output handler reads both once, at its start; the next request restarts it.
        if llm.output_handler is not None:
            llm.output_handler.cancel()
            llm.output_handler = None

    engine.call(set_to(on, before[1] if on else None), _SET_S)
    try:
        yield
    finally:
        engine.call(set_to(*before), _SET_S)


def instant(rate: float, seconds: float) -> Callable[[bool], Cost]:
    """Return a function that makes a run on an instant engine, with or without the part."""
    engine, plan = InstantEngine(), server_plan(rate, round(seconds * 1000))
    prompts = [(1, 2, 3)] * SAMPLES

    def make(on: bool) -> Cost:
        run, own, total_s = run_once(plan, engine, prompts, Generation(), with_times=on)
        us_per_query = 1e6 / run.samples
        return Cost(total_s * us_per_query, own * us_per_query, run.tokens / run.elapsed_s)

    return make


def vllm(engine: VllmEngine, prompts: Prompts) -> Callable[[bool], Cost]:
    """Return a function that makes an Offline run on a loaded engine, with or without the part."""
    plan = offline_plan(len(prompts))

    def make(on: bool) -> Cost:
        with statistics_set(engine, on):
            run, own, total_s = run_once(plan, engine, prompts, EMBEDDED.generation, with_times=on)
        rate = run.logs.detail.number("result_tokens_per_second") or math.nan
        return Cost(total_s / run.tokens * 1e6, own / run.tokens * 1e6, rate)

    return make


def compare(make: Callable[[bool], Cost], pairs: int, unit: str) -> None:
    """Make the pairs and print them. `unit`: what processor time is given per."""
    make(True)  # the first run also pays for what later ones find done
    columns = f"µs a {unit}, with", "without", "ratio", "the suite's process, with", "without"
    print_header("pair", *columns, "tokens/s, with", "without", "ratio", "stolen, s")
    spent: list[float] = []
    more: list[float] = []
    reached: list[float] = []
    for pair in in_turn({"on": partial(make, True), "off": partial(make, False)}, pairs):
        on, off = pair.results["on"], pair.results["off"]
        spent.append(on.cpu_us / off.cpu_us)
        more.append((on.own_us - off.own_us) / off.cpu_us)
        reached.append(on.tokens_per_s / off.tokens_per_s)
        print_row(
            pair.number,
            *(f"{on.cpu_us:,.2f}", f"{off.cpu_us:,.2f}", f"{spent[-1]:.4f}"),
            *(f"{on.own_us:,.2f}", f"{off.own_us:,.2f}"),
            *(f"{on.tokens_per_s:,.1f}", f"{off.tokens_per_s:,.1f}", f"{reached[-1]:.4f}"),
            f"{pair.stolen_s:.2f}",
        )
    print(f"\nprocessor time, with / without: {_interval(spent)}")
    mean, error = statistics.fmean(more), math.nan
    if len(more) > 1:
        error = 2 * statistics.stdev(more) / math.sqrt(len(more))
    low, high = mean - error, mean + error
    print(f"increase in the suite's process, of the total: {mean:.3%} ({low:.3%} to {high:.3%})")
    print(f"tokens/s, with / without: {_interval(reached)} (aim: within {_AIM:.1%})")


def _interval(ratios: Sequence[float]) -> str:
    """The median, and the mean with an interval of two standard errors."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    low, high = math.exp(mean - 2 * error), math.exp(mean + 2 * error)
    middle = statistics.median(ratios)
    return f"median {middle:.4f}, mean {math.exp(mean):.4f} ({low:.4f} to {high:.4f})"


def main() -> None:
    parser = pairs_parser(__doc__, pairs=10)
    parser.add_argument("--engine", choices=("instant", "vllm"), default="instant")
    parser.add_argument("--rate", type=float, default=1_000.0, help="instant: queries/s")
    parser.add_argument("--seconds", type=float, default=5.0, help="instant: of each run")
    parser.add_argument("--samples", type=int, default=16, help="vllm: of each run")
    options = parser.parse_args()
    if options.engine == "instant":
        compare(instant(options.rate, options.seconds), options.pairs, "query")
        return
    with embedded_engine() as (engine, inputs):
        prompts = inputs.prompts(LLAMA3_1_8B)[: options.samples]
        compare(vllm(engine, prompts), options.pairs, "token")


if __name__ == "__main__":
    main()
