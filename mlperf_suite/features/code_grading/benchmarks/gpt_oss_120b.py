"""gpt-oss-120b on mathematics, science and code; performance runs use a separate data set.

Sources: language/gpt-oss-120b/README.md of github.com/mlcommons/inference ("Generation
Configuration", "Compliance Testing") and the audit.config of each audit. The published tokens set
the reasoning effort: low for performance, high for accuracy.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mlperf_suite.benchmarks.audits import Audit
from mlperf_suite.benchmarks.definition import (
    COUNTED_IN_A_SENTENCE,
    Benchmark,
    Generation,
    Load,
    Part,
    ReferenceAccuracy,
    Speculation,
    Workload,
    at_least,
    from_a_file,
    interactive,
    offline,
    server,
)
from mlperf_suite.benchmarks.embedded import smoke_form
from mlperf_suite.benchmarks.model_marks import ModelMarks, Sibling
from mlperf_suite.benchmarks.prompts import PublishedTokens
from mlperf_suite.datasets.samples import Samples
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading import frames
from mlperf_suite.features.code_grading.scorers.gpt_oss_120b import GptOssScorer
from mlperf_suite.features.code_grading.scorers.live_code_bench import (
    LiveCodeBench,
    problems_option,
)

_SAMPLES, _ACCURACY_SAMPLES, _GPQA_SAMPLES = 6_396, 4_395, 990
_ROUNDS = ("v6.0", "v6.1")
_REFERENCE = ReferenceAccuracy(
    # The checker's upper limit on tokens, 1.1 times 9,999, is a placeholder, not a measurement.
    (at_least("exact_match", 83.13),),
    _ACCURACY_SAMPLES,
)
# The reference sends no seed: with one, all repeats of a question would give the same answer.
_PERFORMANCE = Generation(max_new_tokens=10_240, temperature=1.0, top_k=0, seed=None)
_ACCURACY = replace(_PERFORMANCE, max_new_tokens=32_768)


def _load(file: str, load_file: Load) -> Load:
    """A loader for one of the three files, given a folder that holds them or a single file."""

    def load(source: str, token: str | None = None) -> Samples:
        folder = Path(source).expanduser()
        if not folder.is_dir():
            return load_file(source, token)
        files = sorted(folder.rglob(file))
        if not files:
            raise DatasetError(f"--dataset {source}: the folder holds no {file}")
        return load_file(str(files[0]), token)

    return from_a_file(f"the folder of {file}", load)


def _scorer(problems: Path | None) -> GptOssScorer:
    return GptOssScorer(LiveCodeBench(problems))


_OFFICIAL = Workload(
    model="openai/gpt-oss-120b",
    marks=ModelMarks(
        shape={
            "model_type": "gpt_oss",
            "hidden_size": 2880,
            "num_hidden_layers": 36,
            "num_local_experts": 128,
            "vocab_size": 201088,
            "num_experts_per_tok": 4,
        },
        siblings=(
            Sibling("openai/gpt-oss-20b", "num_hidden_layers"),
            Sibling("openai/gpt-oss-safeguard-120b"),
        ),
    ),
    load=_load("perf_eval_ref.parquet", frames.GPT_OSS_120B.load),
    prompt=PublishedTokens(),
    generation=_PERFORMANCE,
    scorer=_scorer(None),
    reference=_REFERENCE,
    mean_tokens=1278.2,
    prompt_tokens=1000,
    parts={
        # The mean length at high effort is not published.
        "accuracy": Part(
            _load("acc_eval_inputs.parquet", frames.GPT_OSS_120B_GRADED.load),
            _ACCURACY,
            mean_tokens=10_000,
        ),
        "test07": Part(
            _load("acc_eval_compliance_gpqa.parquet", frames.GPT_OSS_120B_GRADED.load),
            _PERFORMANCE,
            mean_tokens=5_000,
        ),
    },
    scorer_option=problems_option(_scorer),
)
TEST07 = Audit(
    "test07",
    queries=_GPQA_SAMPLES,
    logged=_GPQA_SAMPLES,
    unique=True,
    drawn_in=("v6.0",),
    samples=_GPQA_SAMPLES,
    least_score=("exact_match", 60.698),
)
TEST09 = Audit(
    "test09",
    queries=_SAMPLES,
    logged=10_000,
    unique=True,
    drawn_in=("v6.0",),
    mean_tokens=(1150.38, 1406.02),
    verified_in="verify_output_len.txt",
)
GPT_OSS_120B = Benchmark(
    "gpt-oss-120b",
    "datacenter",
    _SAMPLES,
    (
        # mlperf.conf does not set Offline.min_query_count for it, and LoadGen's default is 1: on a
        # slow system the query would have fewer samples than the data set.
        offline("gpt-oss-120b", min_queries=_SAMPLES),
        server("gpt-oss-120b", 3000, 80),
        interactive("gpt-oss-120b-interactive", 2000, 15),
    ),
    _ROUNDS,
    # The ids of <|return|>, <|endoftext|> and <|call|>.
    (200002, 199999, 200012),
    _REFERENCE,
    (TEST07, TEST09),
    workload=_OFFICIAL,
    smoke=replace(
        smoke_form(_OFFICIAL, samples=7),
        scorer=_scorer(frames.EMBEDDED_PROBLEMS),
    ),
    accuracy_samples=_ACCURACY_SAMPLES,
    counted_as=COUNTED_IN_A_SENTENCE,
    # In the rules since July 2026, after v6.0.
    speculation=Speculation(
        ("v6.1",), ("eagle3",), ("nvidia/gpt-oss-120b-Eagle3-long-context",), ("none",)
    ),
)
BENCHMARKS = (GPT_OSS_120B,)
