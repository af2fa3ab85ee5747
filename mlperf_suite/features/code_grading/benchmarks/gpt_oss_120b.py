"""gpt-oss-120b on mathematics, science and code; performance runs use a separate data set.

Sources: language/gpt-oss-120b/README.md of github.com/mlcommons/inference ("Generation
Configuration", "Compliance Testing") and the audit.config of each audit. The published tokens set
the reasoning effort: low for performance, high for accuracy.

Scorer: right answers, weighted by exam repeats.
Source: language/gpt-oss-120b/eval_mlperf_accuracy.py and eval_accuracy.py. An answer is text in
OpenAI's Harmony format with its special tokens. Its final channel's message counts; like the
official script, this scorer finds it by text, so it needs texts with special tokens. The figures
per exam are not official, but TEST07 uses that of gpqa.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from mlperf_suite.benchmarks.model_identity import ModelIdentity, SiblingModel
from mlperf_suite.benchmarks.prompts import PublishedTokens
from mlperf_suite.datasets.samples import Samples
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading import frames
from mlperf_suite.features.code_grading.scorers.exams import (
    LIVE_CODE_BENCH,
    ExamScorer,
    aime_integer,
    blocks,
    by_program,
    by_text,
    exam_scores,
    is_choice,
    is_integer,
    letter_after_answer,
    programs,
    unescaped,
    unquoted,
)
from mlperf_suite.features.code_grading.scorers.live_code_bench import (
    LiveCodeBench,
    problems_option,
)
from mlperf_suite.scorers.scorer import Answer, Scores

REPEATS: Mapping[str, int] = {"aime25": 8, "gpqa_diamond": 5, "livecodebench_v6": 3}
"""How often the accuracy data repeats each exam's questions, by sample kind."""
_FINAL = re.compile(r"<\|channel\|>final[^<]*<\|message\|>(.*?)(?:<\|return\|>|\Z)", re.S)
"""Allows plain text after "final", as the official script does."""
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_FIRST_LETTER = re.compile(r"[^a-z]*([A-D])(?![a-z])", re.I)
_ANSWERED_LETTER = re.compile(r"\bAnswer\s*+(?:[:.]\s*+)?+([A-D])\b", re.I)


@dataclass(frozen=True, slots=True)
class GptOssScorer(ExamScorer):
    """exact_match in percent, each exam's share of right answers, and lengths."""

    name: str = "gpt_oss"
    reads_special_tokens: bool = True

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer by its exam's rules. Raises DatasetError for an unknown kind."""
        graders = {
            "aime25": by_text(lambda text, right: is_integer(aime_integer(text), right)),
            "gpqa": by_text(lambda text, right: is_choice(choice(text), right, "D")),
            LIVE_CODE_BENCH: by_program(self.code, program),
        }
        kinds = [answer.sample.kind.lower() for answer in answers]
        return exam_scores(answers, graders, lambda right: final_score(kinds, right))


def final_score(kinds: Sequence[str], right: Sequence[bool]) -> float:
    """The score in percent, to three decimals as the official script prints it.

    Each exam is weighted by its questions: right answers and answers are both divided by its
    repeats before they are added. `kinds`: each answer's kind, in lower case.
    """
    answers = Counter(kinds)
    rights = Counter(kind for kind, is_right in zip(kinds, right, strict=True) if is_right)
    # In this order, as in the official script: the last digit depends on it.
    exams = [(kind, REPEATS.get(kind, 1)) for kind in sorted(answers)]
    score = sum(rights[kind] / repeats for kind, repeats in exams)
    most = sum(answers[kind] / repeats for kind, repeats in exams)
    return round(score / most * 100, 3)


def final_message(text: str) -> str:
    """The message in an answer's final channel, or the whole answer if it has none."""
    match = _FINAL.search(text)
    return match[1].strip() if match else text


def choice(text: str) -> str | None:
    """The letter from A to D that an answer, already stripped, chooses.

    The first match of: the start of the final message, after the first "answer" in the final
    message, after the last "answer" in the whole text.
    """
    final = unescaped(unquoted(_BOLD.sub(r"\1", final_message(text)))).strip()
    if match := _FIRST_LETTER.match(final) or _ANSWERED_LETTER.search(final):
        return match[1].upper()
    return letter_after_answer(unescaped(text), "D")


def program(text: str) -> str | None:
    """The program in an answer: the last Python block, or else the last block.

    Searches the final message first, then the whole text.
    """
    for part in dict.fromkeys((final_message(text), text)):
        if candidates := programs(part) or blocks(part):
            return candidates[-1]
    return None


_SAMPLES, _ACCURACY_SAMPLES, _GPQA_SAMPLES = 6_396, 4_395, 990
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
    model_identity=ModelIdentity(
        shape={
            "model_type": "gpt_oss",
            "hidden_size": 2880,
            "num_hidden_layers": 36,
            "num_local_experts": 128,
            "vocab_size": 201088,
            "num_experts_per_tok": 4,
        },
        siblings=(
            SiblingModel("openai/gpt-oss-20b", "num_hidden_layers"),
            SiblingModel("openai/gpt-oss-safeguard-120b"),
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
    ("v6.0", "v6.1"),
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
