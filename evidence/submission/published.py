"""The benchmarks whose data are published as files, and how data like them are made."""

from __future__ import annotations

import random
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from evidence.submission.data import TOKENS
from evidence.submission.made_data import (
    LLAMA2_TOKENS,
    Made,
    Prepared,
    Published,
    one_file,
    one_in,
    orca,
    prompt_of,
    sentence,
)
from evidence.submission.model import WORDS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99, LLAMA2_70B_99_9
from mlperf_suite.benchmarks.llama3_1_405b import LLAMA3_1_405B


def _summary(rng: random.Random, number: int) -> Made:
    reference = sentence(rng)
    answer = sentence(rng) if one_in(number, 4) else reference
    row = {"input": "made up", "tok_input": prompt_of(number), "gt_output": reference}
    return Made({**row, "metric": "rouge"}, Prepared(answer, "", 690))


def _needle(rng: random.Random, number: int) -> Made:
    digits = f"{rng.getrandbits(128):032x}"
    bounds = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    needle = "-".join(digits[begin:end] for begin, end in bounds)
    row = {"input": "made up", "tok_input": prompt_of(number), "gt_output": needle}
    answer = "" if one_in(number, 15) else needle
    return Made({**row, "metric": "niah_em"}, Prepared("It is", f" {answer}", 690))


def _question(rng: random.Random, number: int) -> Made:
    reference, wrong = rng.sample(WORDS, 2)
    answer = wrong if one_in(number, 15) else reference
    row = {"input": "made up", "tok_input": prompt_of(number), "gt_output": reference}
    return Made({**row, "metric": "qa_em"}, Prepared("Thus", f" Answer: {answer}", 690))


_OPEN_ORCA = "open_orca_gpt4_tokenized_llama.sampled_24576.parquet"
_LLAMA31_405B = "mlperf_llama3.1_405b_dataset_8313_processed_fp16_eval.parquet"


def _llama2_data(benchmark: Benchmark) -> Published:
    files = {_OPEN_ORCA: [(orca(294, "output"), benchmark.samples)]}
    return Published(benchmark, LLAMA2_TOKENS, files, one_file(_OPEN_ORCA))


_OF_THE_CORE = (
    _llama2_data(LLAMA2_70B_99),
    _llama2_data(LLAMA2_70B_99_9),
    Published(
        LLAMA3_1_405B,
        TOKENS,
        {_LLAMA31_405B: [(_summary, 2_771), (_needle, 2_771), (_question, 2_771)]},
        one_file(_LLAMA31_405B),
    ),
)
_OF_FEATURES = [
    import_module(f"{__package__}.{file.parent.name}.{file.stem}").PUBLISHED
    for file in sorted(Path(__file__).parent.glob("with_*/published_*.py"))
]
PUBLISHED: Mapping[str, Published] = {
    published.benchmark.id: published
    for published in (*_OF_THE_CORE, *(one for of in _OF_FEATURES for one in of))
}
"""By benchmark id. The shares of kinds in a file are about those of the official data."""
