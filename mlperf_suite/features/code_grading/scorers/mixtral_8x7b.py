"""Mixtral 8x7B on OpenOrca, GSM8K and MBXP: ROUGE, right numbers, passing programs.

Source: language/mixtral-8x7b/evaluate-accuracy.py and evaluate_mbxp.py. Intended differences: if a
run has no GSM8K samples, the official script divides by zero, and if it has no MBXP samples, it
reports an mbxp of 0; here a figure without samples is not judged. The official script treats an
unknown kind as MBXP; here that is an error. It counts an answer that is logged twice as two in
gen_num; here the caller passes each sample's answer once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrader, run_programs
from mlperf_suite.scorers.rouge import ROUGE_NAMES, check_punkt, score_rouge
from mlperf_suite.scorers.scorer import (
    GEN_LEN,
    GEN_NUM,
    Answer,
    Score,
    Scores,
    among_all,
    obstacle_of,
    percentages,
    token_figures,
)

OPEN_ORCA, GSM8K, MBXP = "OpenOrca", "GSM8K", "MBXP"
MBXP_LANGUAGES = ("cpp", "python", "php", "javascript", "ruby", "typescript")
"""The official script leaves programs in other languages out of the figure."""
_ANSWER = "The answer is"
_NEXT_QUESTION = "\nQ:"
_NUMBER = re.compile(r"(-?(?:[\d,]*+\.\d+|(?:,*+\d++)++))|,++")
"""A number, possibly negative, with commas for thousands and decimals; or commas without one.

The official pattern, -?[\\d,]*\\.?\\d+, takes time quadratic in the length of a run of commas. This
one finds the same numbers: it reads such a run once and skips it.
"""


@dataclass(frozen=True, slots=True)
class MixtralScorer:
    """ROUGE of OpenOrca, gsm8k and mbxp in percent; lengths. `code` runs the MBXP programs.

    `code` gets whole answers, only in MBXP_LANGUAGES.
    """

    code: CodeGrader
    name: str = "mixtral"

    def check(self) -> None:
        """Raise UsageError if NLTK's sentence splitter is missing."""
        check_punkt()

    def obstacle(self, samples: Sequence[Sample]) -> str:
        """What this machine lacks to judge the programs; "" if nothing."""
        of = [s for s in samples if s.kind == MBXP and _language(s) in MBXP_LANGUAGES]
        return obstacle_of(self.code, of)

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer by the rules of its part. Raises DatasetError for an unknown part."""
        places: dict[str, list[int]] = {OPEN_ORCA: [], GSM8K: [], MBXP: []}
        for place, answer in enumerate(answers):
            if answer.sample.kind not in places:
                kinds = ", ".join(places)
                raise DatasetError(
                    f"sample {place}: kind {answer.sample.kind!r} is not known; allowed: {kinds}"
                )
            places[answer.sample.kind].append(place)
        programs = [
            place for place in places[MBXP] if _language(answers[place].sample) in MBXP_LANGUAGES
        ]
        scores: list[Score] = []
        per_answer: dict[str, tuple[float | None, ...]] = {}
        not_judged: dict[str, str] = {}

        def keep(name: str, of: Sequence[int], values: Sequence[float], mean: float) -> None:
            scores.append(Score(name, mean, "%"))
            per_answer[name] = among_all(of, values, len(answers))

        characters: float = 0
        if orca := [answers[place] for place in places[OPEN_ORCA]]:
            rouge = score_rouge([a.text for a in orca], [a.sample.reference for a in orca])
            for name in ROUGE_NAMES:
                values = [value for value in rouge.per_answer[name] if value is not None]
                keep(name, places[OPEN_ORCA], values, rouge.values[name])
            characters = rouge.values[GEN_LEN]
        else:
            not_judged.update(dict.fromkeys(ROUGE_NAMES, _none_of(OPEN_ORCA)))
        if of := places[GSM8K]:
            right = [is_right_number(answers[p].text, answers[p].sample.reference) for p in of]
            keep("gsm8k", of, percentages(right), 100.0 * sum(right) / len(of))
        else:
            not_judged["gsm8k"] = _none_of(GSM8K)
        grades = run_programs(self.code, [answers[place] for place in programs])
        if programs and not grades.not_judged:
            passed = [bool(is_right) for is_right in grades.passed]
            keep("mbxp", programs, percentages(passed), 100 * sum(passed) / len(programs))
        else:
            not_judged["mbxp"] = grades.not_judged or _none_of(MBXP)
        lengths = Score(GEN_LEN, characters, "characters"), Score(GEN_NUM, len(answers), "answers")
        return Scores((*scores, *lengths, *token_figures(answers, 1)), per_answer, not_judged)


def is_right_number(text: str, reference: str) -> bool:
    """Whether the final number of a GSM8K answer equals the reference, as floats.

    Ignores text after a next question that the model made up.
    """
    number = final_number(text.split(_NEXT_QUESTION, maxsplit=1)[0]).replace(",", "")
    try:
        return float(number) == float(reference)
    except ValueError:
        return False


def final_number(text: str) -> str:
    """The first number after the last "The answer is", or else the last number; "" if there is
    none."""
    if _ANSWER in text and (after := _numbers(text.rsplit(_ANSWER, maxsplit=1)[-1])):
        return after[0]
    numbers = _numbers(text)
    return numbers[-1] if numbers else ""


def _numbers(text: str) -> list[str]:
    return [number for number in _NUMBER.findall(text) if number]


def _none_of(kind: str) -> str:
    return f"no sample of {kind} in this run"


def _language(sample: Sample) -> str:
    language, separator, _ = sample.id.partition("_")
    if not separator:
        raise DatasetError(f"{MBXP}: a sample's id is {sample.id!r}, expected <language>_<name>")
    return language
