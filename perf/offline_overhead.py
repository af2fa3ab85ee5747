"""Compare the suite's Offline run with the bare engine and with the official reference's method.

    python -m perf.offline_overhead [--pairs 5] [--samples 84]

Alternates three ways to answer the same prompts in one process and on one engine: the suite
(LoadGen, SUT, engine), vLLM's own AsyncLLM.generate on all of them at once, and batches of 16, each
sent when the last is answered, as in the official reference script. Prints tokens/s of each and the
median of the rounds' ratios.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.vllm_engine import VllmEngine
from perf.embedded_engine import Prompts, embedded_engine, offline_rate
from perf.pairs import in_turn, middle, pairs_parser, print_header, print_row

_REFERENCE_BATCH = 16


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

    async def answer(name: str, prompt: Sequence[int]) -> int:
        tokens = 0
        async for output in llm.generate(TokensPrompt(prompt_token_ids=list(prompt)), params, name):
            tokens = len(output.outputs[0].token_ids)
        return tokens

    async def answer_all() -> int:
        tokens = 0
        for start in range(0, len(prompts), size):
            chunk = prompts[start : start + size]
            names = [f"bare-{time.monotonic_ns()}-{i}" for i in range(len(chunk))]
            tokens += sum(await asyncio.gather(*map(answer, names, chunk)))
        return tokens

    start_s = time.perf_counter()
    tokens = engine.call(answer_all(), timeout_s=600)
    return tokens / (time.perf_counter() - start_s)


def main() -> None:
    parser = pairs_parser(__doc__, pairs=5)
    parser.add_argument("--samples", type=int, default=EMBEDDED.reference.answers)
    options = parser.parse_args()
    with embedded_engine() as (engine, inputs):
        prompts = inputs.prompts(LLAMA3_1_8B)[: options.samples]
        bare_rate(engine, prompts[:8])
        sides = {
            "suite": partial(offline_rate, engine, prompts),
            "bare": partial(bare_rate, engine, prompts),
            "batches": partial(bare_rate, engine, prompts, _REFERENCE_BATCH),
        }
        over_bare, over_batches = [], []
        print(f"{len(prompts)} prompts, tokens/s\n")
        columns = "suite", "bare", "batches of 16", "suite / bare", "suite / batches"
        print_header("round", *columns)
        for pair in in_turn(sides, options.pairs):
            rates = pair.results
            over_bare.append(rates["suite"] / rates["bare"])
            over_batches.append(rates["suite"] / rates["batches"])
            cells = [f"{rates[name]:.1f}" for name in sides]
            print_row(pair.number, *cells, f"{over_bare[-1]:.3f}", f"{over_batches[-1]:.3f}")
        print_row("median", "", "", "", middle(over_bare), middle(over_batches))


if __name__ == "__main__":
    main()
