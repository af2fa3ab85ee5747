"""Compare the suite's Offline run with the bare engine and with the official reference's way.

    python -m perf.offline_overhead [--pairs 5] [--samples 84]

Alternates three ways to answer the same prompts in one process and on one engine: the suite
(LoadGen, SUT, engine), vLLM's own AsyncLLM.generate on all of them at once, and batches of 16, each
sent when the last is answered, as in the official reference script. Prints tokens/s of each and the
median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from perf.embedded_engine import embedded_engine

_REFERENCE_BATCH = 16
Prompts = Sequence[Sequence[int]]


def suite_rate(engine: Engine, prompts: Prompts) -> float:
    """LoadGen's own tokens/s of an Offline performance run over these prompts, each once."""
    plan = plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Offline"),
        "performance",
        ROUNDS[DEFAULT_ROUND],
        len(prompts),
        target_qps=0.001,
        shortened=Shortened(min_duration_ms=1, min_query_count=1),
    )
    with tempfile.TemporaryDirectory() as folder:
        run = run_loadgen(plan, engine, prompts, EMBEDDED.generation, Path(folder))
    rate = run.logs.detail.number("result_tokens_per_second")
    if rate is None:
        raise SystemExit("LoadGen reported no tokens/s")
    return float(rate)


def bare_rate(engine: VllmEngine, prompts: Prompts, batch: int | None = None) -> float:
    """Tokens/s of AsyncLLM.generate on all prompts at once, or in batches one after another."""
    from vllm import SamplingParams, TokensPrompt

    generation = EMBEDDED.generation
    # A direct caller's defaults: final outputs, detokenized.
    params = SamplingParams(
        temperature=0.0,
        max_tokens=generation.max_new_tokens,
        min_tokens=generation.min_new_tokens,
        seed=generation.seed,
    )
    llm: Any = engine.async_llm
    size = batch or len(prompts)

    async def one(name: str, prompt: Sequence[int]) -> int:
        made = 0
        async for output in llm.generate(TokensPrompt(prompt_token_ids=list(prompt)), params, name):
            made = len(output.outputs[0].token_ids)
        return made

    async def all_of_them() -> int:
        made = 0
        for start in range(0, len(prompts), size):
            chosen = prompts[start : start + size]
            names = [f"bare-{time.monotonic_ns()}-{i}" for i in range(len(chosen))]
            made += sum(await asyncio.gather(*map(one, names, chosen)))
        return made

    started = time.perf_counter()
    tokens = engine.call(all_of_them(), timeout_s=600)
    return tokens / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=EMBEDDED.reference.answers)
    arguments = parser.parse_args()
    with embedded_engine() as (engine, inputs):
        prompts = inputs.prompts(LLAMA3_1_8B)[: arguments.samples]
        bare_rate(engine, prompts[:8])
        over_bare, over_reference = [], []
        print(f"{len(prompts)} prompts, tokens/s")
        print("round    suite     bare  batches of 16  suite/bare  suite/batches")
        for number in range(1, arguments.pairs + 1):
            ways = [
                lambda: suite_rate(engine, prompts),
                lambda: bare_rate(engine, prompts),
                lambda: bare_rate(engine, prompts, _REFERENCE_BATCH),
            ]
            # Every other round is reversed, so that a drift of the machine favours no side.
            order = range(3) if number % 2 else range(2, -1, -1)
            rates = {way: ways[way]() for way in order}
            over_bare.append(rates[0] / rates[1])
            over_reference.append(rates[0] / rates[2])
            print(
                f"{number:5} {rates[0]:8.1f} {rates[1]:8.1f} {rates[2]:14.1f} "
                f"{over_bare[-1]:11.3f} {over_reference[-1]:14.3f}",
                flush=True,
            )
        print(
            f"median{'':31}{statistics.median(over_bare):11.3f} "
            f"{statistics.median(over_reference):14.3f}"
        )


if __name__ == "__main__":
    main()
