"""An engine that perf.gpu measures bare and through the suite, its model and prompts."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.errors import EngineError
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from mlperf_suite.session.preparation import warm_up, warm_up_prompts
from perf.gpu_page import ANSWER

Prompts = Sequence[Sequence[int]]

VOCABULARY = 128_256
_SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500_000.0,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 128_000,
    "eos_token_id": 128_009,
    "torch_dtype": "bfloat16",
}
"""Llama-3.1-8B's shape, from its public configuration."""


def make_model(folder: Path) -> Path:
    """Write the configuration of the shape and a tokenizer of its vocabulary size, but no weights.

    The first 256 tokens are bytes, so that any text can be encoded; no text encodes to the others.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"<|{number}|>" for number in range(len(letters), VOCABULARY))]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 131_072,
        "bos_token": words[128_000],
        "eos_token": words[128_009],
    }
    for name, content in (("config.json", _SHAPE), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(content, indent=2))
    return folder


def make_prompts(count: int, vocabulary: int, mean: int, longest: int) -> list[list[int]]:
    """Random tokens with lengths distributed like news; no two prompts share a prefix."""
    draw = random.Random(7)  # noqa: S311 - a workload, not a secret
    lengths = [round(draw.lognormvariate(0.0, 0.5) * mean / 1.133) for _ in range(count)]
    return [
        [draw.randrange(3, vocabulary) for _ in range(max(8, min(length, longest)))]
        for length in lengths
    ]


class Subject:
    """An engine that is measured bare and through the suite.

    `folder`: where LoadGen's logs go, a folder for each run. `patience_s`: how long the bare engine
    may take for one measurement.
    """

    def __init__(
        self, engine: VllmEngine, prompts: Prompts, folder: Path, patience_s: float = 600.0
    ) -> None:
        self.engine, self.prompts = engine, prompts
        self._folder, self._patience_s, self._runs = folder, patience_s, 0
        # Every answer has the same length, so that two runs do the same work.
        self._generation = Generation(max_new_tokens=ANSWER, min_new_tokens=ANSWER, seed=None)

    def warm_up(self, count: int) -> None:
        own = warm_up_prompts(self.prompts, count)
        warm_up(self.engine, own, self._generation, LLAMA3_1_8B.scenario("Offline"))

    def bare_offline(self, count: int) -> float:
        """Tokens/s of AsyncLLM.generate, all prompts at once."""
        start_s = time.perf_counter()
        answers = self._bare([0.0] * count, stream=False)
        return sum(n for _, _, n in answers) / (time.perf_counter() - start_s)

    def bare_tokens(self, count: int) -> int:
        """The tokens of all answers to `count` prompts."""
        return sum(tokens for _, _, tokens in self._bare([0.0] * count, stream=False))

    def bare_server(self, at_s: Sequence[float]) -> tuple[float, float]:
        """TTFT and TPOT p99 in ms of queries sent at these times."""
        answers = self._bare(at_s, stream=True)
        tpot = [(end - first) / max(1, n - 1) for first, end, n in answers]
        return p99([first for first, _, _ in answers]), p99(tpot)

    def _bare(self, at_s: Sequence[float], *, stream: bool) -> list[tuple[float, float, int]]:
        """For each query, ms until its first token and until its last, and its number of tokens."""
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            temperature=0.0,
            max_tokens=ANSWER,
            min_tokens=ANSWER,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA if stream else RequestOutputKind.FINAL_ONLY,
        )
        llm: Any = self.engine.async_llm

        async def ask(number: int, start_s: float) -> tuple[float, float, int]:
            wait = start_s + at_s[number] - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            sent_s, first, tokens = time.perf_counter(), None, 0
            prompt = TokensPrompt(prompt_token_ids=list(self.prompts[number % len(self.prompts)]))
            async for output in llm.generate(prompt, params, f"bare-{number}-{sent_s}"):
                tokens += len(output.outputs[0].token_ids)
                if first is None and tokens:
                    first = time.perf_counter()
            end = time.perf_counter()
            return ((first or end) - sent_s) * 1000, (end - sent_s) * 1000, tokens

        async def all_of_them() -> list[tuple[float, float, int]]:
            start_s = time.perf_counter()
            return await asyncio.gather(*(ask(n, start_s) for n in range(len(at_s))))

        return self.engine.call(all_of_them(), timeout_s=self._patience_s)

    def suite_offline(self, count: int) -> float:
        """LoadGen's tokens/s of an Offline run of `count` prompts, each once."""
        rate = self._loadgen("Offline", 0.001, count).logs.detail.number("result_tokens_per_second")
        if not rate:
            raise EngineError("LoadGen reported no tokens/s")
        return float(rate)

    def suite_server(self, qps: float, count: int) -> tuple[float, float, list[float]]:
        """TTFT and TPOT p99 in ms of `count` queries, and when each was sent, in s."""
        timeline = self._loadgen("Server", qps, count).timeline
        if timeline is None or timeline.ttft_ms is None or timeline.tpot_ms is None:
            raise EngineError("LoadGen reported no first tokens")
        first = min(timeline.issued_ms)
        at_s = sorted((at_ms - first) / 1000 for at_ms in timeline.issued_ms)
        return p99(timeline.ttft_ms), p99(timeline.tpot_ms), at_s

    def _loadgen(self, scenario: str, qps: float, count: int) -> LoadRun:
        plan = plan_run(
            LLAMA3_1_8B,
            LLAMA3_1_8B.scenario(scenario),
            "performance",
            ROUNDS[DEFAULT_ROUND],
            count,
            target_qps=qps,
            shortened=Shortened(1, 1, latency_percent=90, latency_factor=1000),
        )
        self._runs += 1
        folder = self._folder / f"{self._runs:02}-{scenario.lower()}"
        prompts = [self.prompts[n % len(self.prompts)] for n in range(count)]
        return run_loadgen(plan, self.engine, prompts, self._generation, folder)


def p99(values: Sequence[float]) -> float:
    ascending = sorted(values)
    return ascending[min(len(ascending) - 1, int(len(ascending) * 0.99))]
