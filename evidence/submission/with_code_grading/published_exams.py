"""Made data of the benchmarks whose answers are exams and programs."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from evidence.submission.made_data import (
    LLAMA2_TOKENS,
    Made,
    Prepared,
    Published,
    Sampler,
    one_file,
    one_in,
    orca,
    prompt_of,
    sentence,
)
from evidence.submission.model import ModelTokens
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DEEPSEEK_R1
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.features.code_grading.benchmarks.mixtral_8x7b import MIXTRAL_8X7B
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.scorers.scorer import Answer


def _gsm8k(rng: random.Random, number: int) -> Made:
    right = rng.randint(1, 5000)
    result = right + 1 if one_in(number, 6) else right
    row = {"input": "made up", "tok_input": prompt_of(number), "gt_output": str(right)}
    answer = Prepared("So", f" The answer is {result:,}.", 200)
    return Made({**row, "dataset": "GSM8K", "id": f"made.{number}"}, answer)


def _mbxp(rng: random.Random, number: int) -> Made:
    """A one-line Python function and a test for it."""
    addend = rng.randint(1, 500)
    result = addend + 1 if one_in(number, 6) else addend
    test = f"\n\ndef check(candidate):\n    assert candidate(1) == {1 + addend}\n"
    row = {"input": "made up", "tok_input": prompt_of(number), "gt_output": test}
    answer = Prepared(f"def more(n):\n    return n + {result}\n", "```\n", 0)
    return Made({**row, "dataset": "MBXP", "id": "python_more"}, answer)


# Exams

_LENGTH_OF_REASONS = 3_900
_SPREAD = 400


def _exam(
    kind: str,
    conclude: Callable[[random.Random, bool], tuple[str, str]],
    tokens: int = _LENGTH_OF_REASONS,
    opening: str = "",
    closing: str = "",
    tokenized: bool = False,
) -> Sampler:
    """Answers of an exam, of which five of six are right.

    `conclude`: returns the conclusion and the reference, given whether it should be right.
    """

    def sample(rng: random.Random, number: int) -> Made:
        answer, reference = conclude(rng, not one_in(number, 6))
        length = rng.randint(tokens - _SPREAD, tokens + _SPREAD)
        row: dict[str, object] = {"dataset": kind, "ground_truth": reference}
        if tokenized:
            # Files have different lengths, so prompts of different files differ.
            row |= {"input_tokens": prompt_of(number, tokens)}
        else:
            row |= {"text_input": f"Sample {number}: {sentence(rng, 6)}"}
        return Made(row, Prepared(opening, f"{closing}{answer}", length))

    return sample


def _letter(last: str) -> Callable[[random.Random, bool], tuple[str, str]]:
    letters = "ABCDEFGHIJ"[: ord(last) - ord("A") + 1]

    def conclude(rng: random.Random, right: bool) -> tuple[str, str]:
        reference, wrong = rng.sample(letters, 2)
        return f"\nANSWER: {reference if right else wrong}", reference

    return conclude


def _boxed(rng: random.Random, right: bool) -> tuple[str, str]:
    value = rng.randint(1, 900)
    return f"\n\\boxed{{{value if right else value + 1}}}", str(value)


def _code(rng: random.Random, right: bool) -> tuple[str, str]:
    factor = rng.randint(2, 1 + _PROBLEMS)
    answer = factor if right else factor + 1
    program = f"\n```python\nprint(int(input()) * {answer})\n```"
    return program, f"made-{factor}"


_PROBLEMS = 3


def _problems() -> Iterator[dict[str, str]]:
    """Problems with the columns of livecodebench/code_generation_lite: multiply two numbers."""
    for factor in range(2, 2 + _PROBLEMS):
        cases = [[{"input": f"{n}\n", "output": f"{n * factor}\n"}] for n in (4, 11)]
        tests = [json.dumps([{**case, "testtype": "stdin"} for case in of]) for of in cases]
        yield {
            "question_title": f"Times {factor}",
            "question_content": f"Print the number that is read, times {factor}.",
            "platform": "made up",
            "question_id": f"made-{factor}",
            "contest_id": "made up",
            "contest_date": "2026-01-01T00:00:00",
            "starter_code": "",
            "difficulty": "easy",
            "public_test_cases": tests[0],
            "private_test_cases": tests[1],
            "metadata": "{}",
        }


_ANALYSIS = "<|channel|>analysis<|message|>"
_FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
_LOW_EFFORT = 1_278
"""The mean answer length in TEST09 by the reference."""


def _harmony(
    kind: str, conclude: Callable[[random.Random, bool], tuple[str, str]], tokens: int
) -> Sampler:
    """Answers in OpenAI's Harmony format."""
    return _exam(kind, conclude, tokens, opening=_ANALYSIS, closing=_FINAL, tokenized=True)


# Their grades


def _graded_by_numbers(scorer: Any) -> Any:
    return type(scorer)(_right_where_it_says)


def _right_where_it_says(answers: Sequence[Answer]) -> CodeGrades:
    """Grades programs of one line by the number that they end with and their tests want."""
    return CodeGrades(tuple(_number(a.text) == _answer_to(a.sample.reference) for a in answers))


def _number(program: str) -> int:
    return int(re.findall(r"\d+", program.partition("```")[0])[-1])


def _answer_to(reference: str) -> int:
    number = int(re.findall(r"\d+", reference)[-1])
    return number if reference.startswith("made-") else number - 1


_MIXTRAL = "09292024_mixtral_15k_mintoken2_v1.parquet"
_DEEPSEEK = "mlperf_deepseek_r1_dataset_4388_fp8_eval.parquet"
_PERFORMANCE, _ACCURACY, _GPQA = (
    "perf_eval_ref.parquet",
    "acc_eval_inputs.parquet",
    "acc_eval_compliance_gpqa.parquet",
)
PUBLISHED = (
    Published(
        MIXTRAL_8X7B,
        LLAMA2_TOKENS,
        {
            _MIXTRAL: [
                (orca(220, "gt_output", dataset="OpenOrca"), 5_000),
                (_gsm8k, 5_000),
                (_mbxp, 5_000),
            ]
        },
        one_file(_MIXTRAL),
        without_programs=_graded_by_numbers,
    ),
    Published(
        DEEPSEEK_R1,
        ModelTokens(
            {"<|begin|>": 0, "<|end|>": 1, "<|User|>": 128_803, "<|Assistant|>": 128_804},
            begin="<|begin|>",
            end="<|end|>",
            chat_template=(
                "{{ bos_token }}{% for message in messages %}<|User|>"
                "{{ message.content.split('</think>')[-1] }}{% endfor %}<|Assistant|>"
            ),
        ),
        {
            _DEEPSEEK: [
                (_exam("aime", _boxed), 932),
                (_exam("math500", _boxed), 499),
                (_exam("gpqa", _letter("D")), 198),
                (_exam("mmlu_pro", _letter("J")), 2_410),
                (_exam("livecodebench", _code), 349),
            ]
        },
        one_file(_DEEPSEEK),
        problems=_problems,
        without_programs=_graded_by_numbers,
    ),
    Published(
        GPT_OSS_120B,
        ModelTokens(
            {"<|endoftext|>": 199_999, "<|return|>": 200_002, "<|channel|>": 200_005}
            | {"<|start|>": 200_006, "<|end|>": 200_007, "<|message|>": 200_008}
            | {"<|call|>": 200_012},
            end="<|return|>",
        ),
        {
            _PERFORMANCE: [(_harmony("made up", _letter("D"), _LOW_EFFORT), 6_396)],
            _ACCURACY: [
                (_harmony("aime25", _boxed, 2_500), 240),
                (_harmony("gpqa_diamond", _letter("D"), 2_500), 990),
                (_harmony("livecodebench_v6", _code, 2_500), 3_165),
            ],
            _GPQA: [(_harmony("gpqa_diamond", _letter("D"), 1_500), 990)],
        },
        {
            "performance": _PERFORMANCE,
            "accuracy": _ACCURACY,
            "test07": _GPQA,
            "test09": _PERFORMANCE,
        },
        problems=_problems,
        without_programs=_graded_by_numbers,
    ),
)
