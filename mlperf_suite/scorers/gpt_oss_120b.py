"""gpt-oss-120b on AIME 2025, GPQA and LiveCodeBench: right answers, each exam by its repeats.

Source: language/gpt-oss-120b/eval_mlperf_accuracy.py and eval_accuracy.py. An answer is text of
OpenAI's Harmony format with its special tokens: what counts is the message of the final channel,
found by text as the official script finds it, so that this scorer must be given texts with special
tokens. The figures of each exam are not official, but that of gpqa is what TEST07 asks for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.scorers.code_grading import CodeGrader
from mlperf_suite.scorers.exams import LIVE_CODE_BENCH, Results, by_program, by_text, programs_lack
from mlperf_suite.scorers.figures import EXACT_MATCH, token_figures
from mlperf_suite.scorers.final_answers import (
    aime_integer,
    blocks,
    is_choice,
    is_integer,
    letter_after_answer,
    programs,
    unescaped,
    unquoted,
)
from mlperf_suite.scorers.protocol import Answer, Score, Scores
from mlperf_suite.scorers.rouge import GEN_NUM

REPEATS: Mapping[str, int] = {"aime25": 8, "gpqa_diamond": 5, "livecodebench_v6": 3}
"""How often each exam's questions are in the accuracy data, by the kind of its samples."""
_FINAL = re.compile(r"<\|channel\|>final[^<]*<\|message\|>(.*?)(?:<\|return\|>|\Z)", re.S)
"""Something that is no mark may stand after "final": the official script lets it pass too."""
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_FIRST_LETTER = re.compile(r"[^a-z]*([A-D])(?![a-z])", re.I)
_ANSWERED_LETTER = re.compile(r"\bAnswer\s*+(?:[:.]\s*+)?+([A-D])\b", re.I)


@dataclass(frozen=True, slots=True)
class GptOssScorer:
    """exact_match in percent, the share of right answers of each exam, and lengths.

    `code` runs the programs of LiveCodeBench and is given the programs alone.
    """

    code: CodeGrader
    name: str = "gpt_oss"
    reads_special_tokens: bool = True

    def check(self) -> None:
        """Nothing is missing: what this scorer needs is installed with the suite."""

    def obstacle(self, samples: Sequence[Sample]) -> str:
        """What judging the programs lacks on this machine; "" for nothing."""
        return programs_lack(self.code, samples)

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer by its exam's rules. Raises DatasetError for an unknown kind."""
        results = Results(
            answers,
            {
                "aime25": by_text(lambda text, right: is_integer(aime_integer(text), right)),
                "gpqa": by_text(lambda text, right: is_choice(choice(text), right, "D")),
                LIVE_CODE_BENCH: by_program(self.code, program),
            },
        )
        not_judged = dict(results.not_judged)
        scores: list[Score] = []
        if not_judged:
            exam, why = next(iter(not_judged.items()))
            not_judged[EXACT_MATCH] = f"{exam}: {why}"
        else:
            kinds = [answer.sample.kind.lower() for answer in answers]
            scores.append(Score(EXACT_MATCH, final_score(kinds, results.right), "%"))
        number = Score(GEN_NUM, len(answers), "answers")
        lengths = (number, *token_figures(answers, None))
        return Scores((*scores, *results.shares, *lengths), results.per_answer, not_judged)


def final_score(kinds: Sequence[str], right: Sequence[bool]) -> float:
    """The score in percent, to three decimals as the official script prints it.

    Each exam counts for its questions: right answers and answers are both divided by its repeats
    before they are added. `kinds`: of each answer, in small letters.
    """
    answers = Counter(kinds)
    found = Counter(kind for kind, one in zip(kinds, right, strict=True) if one)
    # In this order, as the official script adds them: the last digit depends on it.
    exams = [(kind, REPEATS.get(kind, 1)) for kind in sorted(answers)]
    score = sum(found[kind] / repeats for kind, repeats in exams)
    most = sum(answers[kind] / repeats for kind, repeats in exams)
    return round(score / most * 100, 3)


def final_message(text: str) -> str:
    """The final channel's message of a whole answer; the answer itself where it has none."""
    match = _FINAL.search(text)
    return match[1].strip() if match else text


def choice(text: str) -> str | None:
    """The letter that an answer without spaces around it chooses, of A to D.

    The first that holds of: the final message begins with it, it stands after the first "answer"
    of the final message, or after the last "answer" of the whole text.
    """
    final = unescaped(unquoted(_BOLD.sub(r"\1", final_message(text)))).strip()
    if match := _FIRST_LETTER.match(final) or _ANSWERED_LETTER.search(final):
        return match[1].upper()
    return letter_after_answer(unescaped(text), "D")


def program(text: str) -> str | None:
    """The program of an answer: the last block of Python, else the last block.

    Both are looked for in the final message first, then in the whole text.
    """
    for part in dict.fromkeys((final_message(text), text)):
        if found := programs(part) or blocks(part):
            return found[-1]
    return None
