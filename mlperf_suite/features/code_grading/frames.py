"""The published data of these benchmarks: the columns of each, and where this project's own is.

The columns are those that the official scripts read (mlcommons/inference at b66003e,
`language/*/dataset.py`, `evaluate-accuracy.py` and `eval_accuracy.py`, gpt-oss-120b's
`utils/tokenization.py`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from mlperf_suite.datasets.mlperf_frames import FrameFormat

_EMBEDDED = Path(__file__).parent / "embedded"
EMBEDDED_PROBLEMS = _EMBEDDED / "live_code_bench.jsonl"
_format = partial(FrameFormat, folder=_EMBEDDED)
MIXTRAL_8X7B = _format(
    "mixtral_8x7b",
    ("input",),
    ("tok_input",),
    ("gt_output",),
    ("dataset",),
    ("id",),
    kinds=("OpenOrca", "GSM8K", "MBXP"),
    keeps_input=True,
)
# The model's chat template turns the text into the prompt.
DEEPSEEK_R1 = _format(
    "deepseek_r1",
    ("text_input",),
    (),
    ("ground_truth", "gt_output"),
    ("dataset",),
    kinds=("gpqa", "mmlu_pro", "math500", "aime", "livecodebench"),
    loose_kinds=True,
)
# The performance file, which no grader reads, may lack references and have other kinds.
GPT_OSS_120B = _format(
    "gpt_oss_120b",
    ("input",),
    ("input_tokens", "tok_input"),
    ("ground_truth",),
    ("dataset",),
    needs_reference=False,
)
GPT_OSS_120B_GRADED = replace(
    GPT_OSS_120B,
    kinds=("aime25", "gpqa", "livecodebench"),
    loose_kinds=True,
    needs_reference=True,
)
"""gpt-oss-120b's accuracy and compliance files, whose answers are graded."""
