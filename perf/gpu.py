"""Measure a GPU with vLLM, and what the suite adds: at most nine minutes, without network.

    python -m perf.gpu [--minutes 9] [--out perf/gpu.md]

Creates a model of Llama-3.1-8B's shape locally: configuration and tokenizer; vLLM fills the weights
with random numbers (`load_format="dummy"`). Speed and memory are those of the real model; answers
are meaningless and always have 128 tokens. For each of bf16 and fp8 it measures, on one engine:

- TTFT of a fresh engine's first queries, and of the same queries after the suite's warm-up;
- tokens/s of the bare engine (AsyncLLM.generate on all prompts at once) and of the suite's Offline,
  alternating, and the energy per token if the GPU counts it (NVML);
- Server at a third and at two thirds of that rate: TTFT and TPOT p99 of the bare engine and of the
  suite, which sends the same prompts at the same times; the difference is what the suite adds;
- the time to load, and the GPU memory used.

Measurements for which no time is left are skipped, and the page says so. On a machine without a GPU
(vLLM's CPU build), the embedded model and a few prompts only show that the program works.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.vllm_arguments import VllmConfig
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.errors import EngineError
from mlperf_suite.hardware import describe_system, gpus
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from mlperf_suite.session.preparation import warm_up, warm_up_prompts

Prompts = Sequence[Sequence[int]]

ANSWER = 128
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
_MEAN_PROMPT, _LONGEST_PROMPT = 705, 2500
"""The benchmark's mean prompt length and about its longest, in tokens."""
ANCHORS = (
    "Published beside these, 1 x H100 with vLLM in FP8, MLPerf Inference v5.1: 5,777 tokens/s "
    "Offline and 5,104 tokens/s Server, with the real model and data."
)
_SHARES = ((1, "a third"), (2, "two thirds"))


@dataclass(frozen=True)
class Sizes:
    """How much is measured. `least`, `most`: prompts of an Offline run; `cold`: queries of a cold
    start; `pairs` of Offline runs; seconds of an Offline and a Server run; `warm_up` prompts."""

    least: int
    most: int
    cold: int
    pairs: int
    offline_s: float
    server_s: float
    warm_up: int


ON_GPU = Sizes(least=128, most=2048, cold=32, pairs=2, offline_s=12.0, server_s=15.0, warm_up=64)
ON_CPU = Sizes(least=8, most=12, cold=4, pairs=1, offline_s=8.0, server_s=8.0, warm_up=4)


class Clock:
    """The remaining time. `now` returns seconds."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._end = now() + seconds

    @property
    def left_s(self) -> float:
        return self._end - self._now()

    def has(self, seconds: float) -> bool:
        """Whether this many seconds are left."""
        return self.left_s >= seconds


@dataclass
class Latency:
    """The 99th percentiles in ms, each of the bare engine and of the suite."""

    share: str
    qps: float
    ttft: tuple[float, float]
    tpot: tuple[float, float]


@dataclass
class PrecisionFigures:
    """What was measured in one precision. Rates in tokens/s, as pairs of bare and suite. `cold` and
    `warm`: TTFT p99 of the first queries in ms. `left_out`: what was not measured, and why."""

    precision: str
    load_s: float = 0.0
    memory_gib: float | None = None
    prompts: int = 0
    offline: list[tuple[float, float]] = field(default_factory=list)
    joules: float | None = None
    cold: float | None = None
    warm: float | None = None
    server: list[Latency] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


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
    """An engine that is measured bare and through the suite."""

    def __init__(self, engine: VllmEngine, prompts: Prompts) -> None:
        self.engine, self.prompts = engine, prompts
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

    def bare_server(self, at_s: Sequence[float]) -> tuple[float, float]:
        """TTFT and TPOT p99 in ms of queries sent at these times."""
        answers = self._bare(at_s, stream=True)
        tpot = [(end - first) / max(1, n - 1) for first, end, n in answers]
        return _p99([first for first, _, _ in answers]), _p99(tpot)

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

        return self.engine.call(all_of_them(), timeout_s=600)

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
        return _p99(timeline.ttft_ms), _p99(timeline.tpot_ms), at_s

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
        with tempfile.TemporaryDirectory() as folder:
            prompts = [self.prompts[n % len(self.prompts)] for n in range(count)]
            return run_loadgen(plan, self.engine, prompts, self._generation, Path(folder))


def _p99(values: Sequence[float]) -> float:
    ascending = sorted(values)
    return ascending[min(len(ascending) - 1, int(len(ascending) * 0.99))]


def prompts_for(seconds: float, tokens_per_s: float, sizes: Sizes) -> int:
    """How many prompts an Offline run of this duration answers at this rate."""
    return max(sizes.least, min(sizes.most, round(seconds * tokens_per_s / ANSWER)))


def measure(
    config: VllmConfig, precision: str, prompts: Prompts, sizes: Sizes, clock: Clock
) -> PrecisionFigures:
    """Measure everything in one precision that the clock allows. Raises EngineError."""
    figures = PrecisionFigures(precision)
    with loaded(config, figures) as engine:
        subject = Subject(engine, prompts)
        if _is_over(clock, figures, "all but the time to load"):
            return figures
        # First, since only a fresh engine is cold. The queries come one by one.
        rate = 4.0 if sizes is ON_GPU else 1.0
        figures.cold = subject.suite_server(rate, sizes.cold)[0]
        if _is_over(clock, figures, "the warm-up, Offline and Server"):
            return figures
        subject.warm_up(sizes.warm_up)
        figures.warm = subject.suite_server(rate, sizes.cold)[0]
        if _is_over(clock, figures, "Offline and Server"):
            return figures
        speed = subject.bare_offline(sizes.least)
        figures.prompts = prompts_for(sizes.offline_s, speed, sizes)
        once_s = figures.prompts * ANSWER / speed
        used_j, tokens = 0.0, 0
        for number in range(sizes.pairs):
            if number and not clock.has(2 * once_s + 2 * 2 * sizes.server_s):
                figures.left_out.append(
                    f"Offline: {number} of {sizes.pairs} pairs, no time was left"
                )
                break
            if number % 2:
                bare = subject.bare_offline(figures.prompts)
            before = _energy_j()
            suite = subject.suite_offline(figures.prompts)
            after = _energy_j()
            if not number % 2:
                bare = subject.bare_offline(figures.prompts)
            figures.offline.append((bare, suite))
            if before is not None and after is not None:
                used_j, tokens = used_j + after - before, tokens + figures.prompts * ANSWER
        figures.joules = used_j / tokens if tokens and used_j else None
        peak = statistics.median(suite for _, suite in figures.offline) / ANSWER
        for thirds, words in _SHARES:
            qps = peak * thirds / 3
            count = max(sizes.cold, round(qps * sizes.server_s))
            # The last answers arrive after the last query is sent.
            if not clock.has(3 * count / qps):
                figures.left_out.append(f"Server at {words} of the peak: no time was left")
                continue
            ttft, tpot, at_s = subject.suite_server(qps, count)
            bare_ttft, bare_tpot = subject.bare_server(at_s)
            figures.server.append(Latency(words, qps, (bare_ttft, ttft), (bare_tpot, tpot)))
    return figures


def _is_over(clock: Clock, figures: PrecisionFigures, rest: str) -> bool:
    """Whether no time is left for the rest, which is then recorded as left out."""
    if clock.has(0.0):
        return False
    figures.left_out.append(f"{rest}: no time was left")
    return True


@contextmanager
def loaded(config: VllmConfig, figures: PrecisionFigures) -> Iterator[VllmEngine]:
    """Load the engine; records how long it took and the GPU memory that it uses."""
    before = _used_gib()
    start_s = time.monotonic()
    engine = VllmEngine.load(config)
    try:
        figures.load_s = time.monotonic() - start_s
        after = _used_gib()
        figures.memory_gib = None if before is None or after is None else after - before
        yield engine
    finally:
        engine.close()


def _used_gib() -> float | None:
    return _nvml(lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used / 2**30)


def _energy_j() -> float | None:
    """Joules since the driver was loaded, on GPUs that count them (Volta and later)."""
    return _nvml(lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000)


def _nvml(ask: Callable[[Any, Any], float]) -> float | None:
    """Query the first GPU; None if there is none or its driver does not answer."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            return float(ask(pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)))
        finally:
            pynvml.nvmlShutdown()
    # Any error of the library or its driver only loses this figure.
    except Exception:
        return None


def render(
    device: str | None, system: dict[str, object], all_figures: Sequence[PrecisionFigures]
) -> str:
    """The page. `device`: the GPU's name and driver; None if there is none."""
    lines = ["# What a GPU does with vLLM, and what the suite adds", ""]
    if device is None:
        lines += [
            "**This has not run on a GPU.** The figures below are of vLLM's CPU build with the",
            "embedded model and a few prompts: they show that the program works, and nothing of a",
            "GPU. On a machine with one, `python -m perf.gpu` writes this page anew.",
        ]
    else:
        lines += [
            f"{device}, with a model of Llama-3.1-8B's shape and random weights, prompts of "
            f"{_MEAN_PROMPT} tokens on average, answers of {ANSWER}.",
            "",
            ANCHORS,
        ]
    lines += [
        "",
        f"`python -m perf.gpu`: vLLM {system['vllm_version']}, torch {system['torch_version']}, "
        f"LoadGen {system['loadgen_version']}, {system['cpu']}.",
        "",
        "## Offline",
        "",
        'Tokens/s, alternating on one engine; "bare" is AsyncLLM.generate on all prompts at once.',
        "",
        "| precision | prompts | bare | suite | suite / bare | J per token | load, s | GiB used |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for figures in all_figures:
        for bare, suite in figures.offline:
            cells = [
                figures.precision,
                str(figures.prompts),
                f"{bare:,.0f}",
                f"{suite:,.0f}",
                f"{suite / bare:.3f}",
                _cell(figures.joules, 3),
                f"{figures.load_s:.0f}",
                _cell(figures.memory_gib, 1),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "## Server",
        "",
        "The same prompts at the same times, in ms; p99 of TTFT and TPOT.",
        "",
        "| precision | rate | queries/s "
        "| TTFT bare | TTFT suite | added | TPOT bare | TPOT suite | added |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for figures in all_figures:
        for latency in figures.server:
            cells = [figures.precision, f"{latency.share} of the peak", f"{latency.qps:.2f}"]
            for bare, suite in (latency.ttft, latency.tpot):
                cells += [f"{bare:.1f}", f"{suite:.1f}", f"{suite - bare:+.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "## Warm-up",
        "",
        "TTFT p99 in ms of a fresh engine's first queries, and of the same after a warm-up.",
        "",
        "| precision | cold | warmed up |",
        "|---|---:|---:|",
        *(
            f"| {figures.precision} | {_cell(figures.cold, 1)} | {_cell(figures.warm, 1)} |"
            for figures in all_figures
        ),
    ]
    left_out = [
        f"- {figures.precision}: {words}" for figures in all_figures for words in figures.left_out
    ]
    if left_out:
        lines += ["", "## Not measured", "", *left_out]
    return "\n".join(lines) + "\n"


def _cell(value: float | None, digits: int) -> str:
    return "not known" if value is None else f"{value:,.{digits}f}"


def _figures_of(
    configs: Sequence[tuple[str, VllmConfig]], prompts: Prompts, sizes: Sizes, clock: Clock
) -> list[PrecisionFigures]:
    """Give each precision its part of the remaining time; report one that fails and continue."""
    all_figures = []
    for number, (precision, config) in enumerate(configs):
        share = clock.left_s / (len(configs) - number)
        if share < 60.0 and number:
            all_figures.append(
                PrecisionFigures(precision, left_out=["all of it: no time was left"])
            )
            continue
        try:
            figures = measure(config, precision, prompts, sizes, Clock(share))
        except EngineError as error:
            figures = PrecisionFigures(precision, left_out=[str(error)])
        all_figures.append(figures)
        print(f"{precision}: {figures}", flush=True)
    return all_figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--out", type=Path, default=Path("perf/gpu.md"))
    arguments = parser.parse_args()
    # Writing the page and stopping the engines take some of the time.
    clock = Clock(arguments.minutes * 60 - 30)
    found_gpus = gpus()
    with tempfile.TemporaryDirectory() as name:
        if found_gpus:
            folder, sizes = make_model(Path(name) / "shape-8b"), ON_GPU
            prompts = make_prompts(sizes.most, 128_000, _MEAN_PROMPT, _LONGEST_PROMPT)
            common = {"load_format": "dummy"}
            extras: list[tuple[str, dict[str, object]]] = [
                ("bf16", {**common}),
                ("fp8", {**common, "quantization": "fp8"}),
            ]
        else:
            folder, sizes = embedded_model_dir(), ON_CPU
            prompts = make_prompts(sizes.most, 40_000, 128, 400)
            extras = [("auto", {})]
        configs = [
            (
                precision,
                VllmConfig(
                    str(folder),
                    "bf16" if found_gpus else "auto",
                    max_model_len=_LONGEST_PROMPT + ANSWER + 64,
                    max_new_tokens=ANSWER,
                    load_timeout_s=max(60.0, clock.left_s / 2),
                    log_file=Path(name) / f"{precision}.log",
                    extra=extra,
                ),
            )
            for precision, extra in extras
        ]
        all_figures = _figures_of(configs, prompts, sizes, clock)
    device = f"{found_gpus[0].name} (driver {found_gpus[0].driver})" if found_gpus else None
    arguments.out.write_text(render(device, describe_system(), all_figures))
    print(arguments.out)


if __name__ == "__main__":
    main()
