"""Mixtral 8x7B on OpenOrca, GSM8K and MBXP: ROUGE, right numbers, programs that pass.

Source: language/mixtral-8x7b/evaluate-accuracy.py and evaluate_mbxp.py. What differs, on purpose:
the official script divides by zero where a run holds no GSM8K, and calls mbxp 0 where it holds no
MBXP; here a figure without samples is not judged. It takes a kind that it does not know for MBXP;
here that is an error. It counts an answer that is logged twice twice in gen_num; whoever gives
answers to a scorer gives each sample's once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError
from mlperf_suite.scorers.code_grading import CodeGrader, obstacle, run_programs
from mlperf_suite.scorers.figures import among_all, percentages, token_figures
from mlperf_suite.scorers.protocol import Answer, Score, Scores
from mlperf_suite.scorers.rouge import GEN_LEN, GEN_NUM, ROUGE_NAMES, check_punkt, score_rouge

OPEN_ORCA, GSM8K, MBXP = "OpenOrca", "GSM8K", "MBXP"
MBXP_LANGUAGES = ("cpp", "python", "php", "javascript", "ruby", "typescript")
"""The official script leaves programs of other languages out of the figure."""
_ANSWER = "The answer is"
_NEXT_QUESTION = "\nQ:"
_NUMBER = re.compile(r"(-?(?:[\d,]*+\.\d+|(?:,*+\d++)++))|,++")
"""A number, maybe negative, with commas for thousands and decimals; or commas without one.

The official pattern, -?[\\d,]*\\.?\\d+, takes a time that is quadratic in the length of a run of
commas. This one finds the same numbers: such a run is read once and skipped.
"""


@dataclass(frozen=True, slots=True)
class MixtralScorer:
    """ROUGE of OpenOrca, gsm8k and mbxp in percent; lengths. `code` runs the programs of MBXP.

    `code` is given whole answers, of MBXP_LANGUAGES only.
    """

    code: CodeGrader
    name: str = "mixtral"

    def check(self) -> None:
        """Raise UsageError where NLTK's sentence splitter is missing."""
        check_punkt()

    def obstacle(self, samples: Sequence[Sample]) -> str:
        """What judging the programs lacks on this machine; "" for nothing."""
        of = [s for s in samples if s.kind == MBXP and _language(s) in MBXP_LANGUAGES]
        return obstacle(self.code, of)

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer by the rules of its part. Raises DatasetError for an unknown part."""
        places: dict[str, list[int]] = {OPEN_ORCA: [], GSM8K: [], MBXP: []}
        for place, answer in enumerate(answers):
            if answer.sample.kind not in places:
                allowed = ", ".join(places)
                raise DatasetError(
                    f"sample {place}: kind {answer.sample.kind!r} is not known; allowed: {allowed}"
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
            passed = [bool(one) for one in grades.passed]
            keep("mbxp", programs, percentages(passed), 100 * sum(passed) / len(programs))
        else:
            not_judged["mbxp"] = grades.not_judged or _none_of(MBXP)
        lengths = Score(GEN_LEN, characters, "characters"), Score(GEN_NUM, len(answers), "answers")
        return Scores((*scores, *lengths, *token_figures(answers, 1)), per_answer, not_judged)


def is_right_number(text: str, reference: str) -> bool:
    """Whether the number that an answer of GSM8K ends with is the reference's, as floats.

    What follows a next question of the model's own making is left out.
    """
    found = final_number(text.split(_NEXT_QUESTION, maxsplit=1)[0]).replace(",", "")
    try:
        return float(found) == float(reference)
    except ValueError:
        return False


def final_number(text: str) -> str:
    """The first number after the last "The answer is", else the last one; empty without any."""
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
