"""gpt-oss-120b on AIME 2025, GPQA and LiveCodeBench: right answers, weighted by exam repeats.

Source: language/gpt-oss-120b/eval_mlperf_accuracy.py and eval_accuracy.py. An answer is text in
OpenAI's Harmony format with its special tokens. Its final channel's message counts; like the
official script, this scorer finds it by text, so it needs texts with special tokens. The figures
per exam are not official, but TEST07 uses that of gpqa.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
