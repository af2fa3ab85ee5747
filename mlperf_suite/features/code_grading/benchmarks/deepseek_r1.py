"""DeepSeek-R1 on multiple choice, mathematics and code.

Source of the generation settings: language/deepseek-r1/utils/backend_registry.py (its vLLM entry)
of github.com/mlcommons/inference.

Scorer: the share of right answers.
Source: language/deepseek-r1/eval_accuracy.py, whose exact_match is the mean over all samples and
whose tokens_per_sample is not rounded. The figures per exam are not official.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from mlperf_suite.benchmarks.audits import TEST06
from mlperf_suite.benchmarks.definition import (
    ALL_ROUNDS,
    OWN_HEAD,
    Benchmark,
    Generation,
    ReferenceAccuracy,
    Speculation,
    Workload,
    at_least,
    from_a_file,
    interactive,
    offline,
    server,
    within,
)
from mlperf_suite.benchmarks.embedded import smoke_form
from mlperf_suite.benchmarks.model_identity import TEMPLATE, ModelIdentity, SiblingModel
from mlperf_suite.benchmarks.prompts import TextPrompt
from mlperf_suite.errors import UsageError
from mlperf_suite.features.code_grading import frames
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.features.code_grading.scorers.exams import (
    LIVE_CODE_BENCH,
    ExamScorer,
    aime_integer,
    boxed,
    by_program,
    by_text,
    exam_scores,
    is_choice,
    is_integer,
    last_letter,
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


@dataclass(frozen=True, slots=True)
class DeepseekR1Scorer(ExamScorer):
    """exact_match over all answers in percent, that of each exam under its name, and lengths.

    A program is the answer's first Python block.
    """

    name: str = "deepseek_r1"

    def check(self) -> None:
        """Raise UsageError if the packages that read mathematical answers are missing."""
        missing = [name for name in ("pylatexenc", "sympy") if find_spec(name) is None]
        if missing:
            raise UsageError(f"deepseek-r1's answers need {' and '.join(missing)}: install them")

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer by its exam's rules. Raises DatasetError for an unknown kind."""
        graders = {
            "gpqa": by_text(lambda text, right: is_choice(choice(text, "D"), right, "D")),
            "mmlu_pro": by_text(lambda text, right: is_choice(choice(text, "J"), right, "J")),
            "math500": _grade_boxes,
            "aime": by_text(lambda text, right: is_integer(aime_integer(text), right)),
            LIVE_CODE_BENCH: by_program(self.code, lambda text: next(iter(programs(text)), None)),
        }
        return exam_scores(answers, graders)


def choice(text: str, last: str) -> str | None:
    """The letter from A to `last` (D or J) that an answer, already stripped, chooses."""
    text = unescaped(unquoted(text))
    letter = letter_after_answer(text, last)
    return last_letter(text) if letter is None and last == "J" else letter


def _grade_boxes(answers: Sequence[Answer]) -> CodeGrades:
    boxes = [boxed(answer.text.strip()) or "" for answer in answers]
    pairs = zip(boxes, (answer.sample.reference for answer in answers), strict=True)
    from mlperf_suite.features.code_grading.scorers.math_equality import grade_math

    return CodeGrades(tuple(grade_math(list(pairs))))


_SAMPLES = 4_388
_REFERENCE = ReferenceAccuracy(
    (at_least("exact_match", 81.3582), within("tokens_per_sample", "tokens", 3886.2274)),
    _SAMPLES,
)


def _scorer(problems: Path | None) -> DeepseekR1Scorer:
    return DeepseekR1Scorer(LiveCodeBench(problems))


_OFFICIAL = Workload(
    model="deepseek-ai/DeepSeek-R1",
    model_identity=ModelIdentity(
        shape={
            "model_type": "deepseek_v3",
            "hidden_size": 7168,
            "num_hidden_layers": 61,
            "n_routed_experts": 256,
            "vocab_size": 129280,
            "num_experts_per_tok": 8,
        },
        # It drops earlier thoughts; V3 knows no thoughts, and V3.1 has a switch for them.
        template=r"^(?!.*\bthinking\b).*</think>",
        siblings=(
            SiblingModel("deepseek-ai/DeepSeek-V3", TEMPLATE),
            SiblingModel("deepseek-ai/DeepSeek-V3-0324", TEMPLATE),
            SiblingModel("deepseek-ai/DeepSeek-V3.1", TEMPLATE),
            SiblingModel("deepseek-ai/DeepSeek-R1-Zero"),
            SiblingModel("deepseek-ai/DeepSeek-R1-0528"),
            SiblingModel("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "model_type"),
        ),
    ),
    load=from_a_file("mlperf_deepseek_r1_dataset_4388_fp8_eval.parquet", frames.DEEPSEEK_R1.load),
    prompt=TextPrompt("{input}", chat=True),
    generation=Generation(max_new_tokens=20_000),
    scorer=_scorer(None),
    reference=_REFERENCE,
    mean_tokens=3886.2274,
    prompt_tokens=800,
    # The longest prompt (3,136 tokens), its template (4) and its answer.
    context=23_140,
    scorer_option=problems_option(_scorer),
)
DEEPSEEK_R1 = Benchmark(
    "deepseek-r1",
    "datacenter",
    _SAMPLES,
    (
        offline("deepseek-r1"),
        server("deepseek-r1", 2000, 80),
        interactive("deepseek-r1-interactive", 1500, 15, ("v6.0", "v6.1")),
    ),
    ALL_ROUNDS,
    (1,),
    _REFERENCE,
    (TEST06,),
    workload=_OFFICIAL,
    smoke=replace(
        smoke_form(_OFFICIAL, samples=9),
        scorer=_scorer(frames.EMBEDDED_PROBLEMS),
    ),
    counted_as="num-samples",
    speculation=Speculation(
        ("v6.0", "v6.1"),
        # The model's MTP head: as vLLM and as SGLang call it.
        ("mtp", "deepseek_mtp", "eagle", "nextn"),
        # The last two are copies of that head alone, for SGLang.
        (
            *(OWN_HEAD, "deepseek-ai/DeepSeek-R1"),
            *("lmsys/DeepSeek-R1-NextN", "SGLang/DeepSeek-R1-NextN"),
        ),
        ("fp8",),
    ),
)
BENCHMARKS = (DEEPSEEK_R1,)
