"""Mixtral 8x7B on OpenOrca, GSM8K and MBXP.

Source of the generation settings: language/mixtral-8x7b/SUT.py of github.com/mlcommons/inference.

Scorer: ROUGE, right numbers, passing programs.
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

from mlperf_suite.benchmarks.audits import TEST06
from mlperf_suite.benchmarks.definition import (
    UNTIL_V6_0,
    Benchmark,
    ExpectedScore,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    from_a_file,
    offline,
    server,
)
from mlperf_suite.benchmarks.embedded import smoke_form
from mlperf_suite.benchmarks.model_identity import TEMPLATE, ModelIdentity, SiblingModel
from mlperf_suite.benchmarks.prompts import PublishedTokens
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading import frames
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrader, run_programs
from mlperf_suite.features.code_grading.scorers.mbxp import Mbxp
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
    number = final_number(text.split("\nQ:", maxsplit=1)[0]).replace(",", "")
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


_SAMPLES = 15_000
_REFERENCE = ReferenceAccuracy(
    (
        at_least("rouge1", 45.5989),
        at_least("rouge2", 23.3526),
        at_least("rougeL", 30.4608),
        at_least("gsm8k", 73.66),
        at_least("mbxp", 60.16),
        # The checker uses different references for its two limits: 144.84 below, 145.9 above.
        ExpectedScore("tokens_per_sample", "tokens", 144.84, 0.9, 0.9, 145.9 * 1.1),
    ),
    _SAMPLES,
)
_OFFICIAL = Workload(
    model="mistralai/Mixtral-8x7B-Instruct-v0.1",
    model_identity=ModelIdentity(
        shape={
            "model_type": "mixtral",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 14336,
            "num_local_experts": 8,
            "vocab_size": 32000,
            "num_experts_per_tok": 2,
        },
        template=r"\[INST\]",
        siblings=(
            SiblingModel("mistralai/Mixtral-8x7B-v0.1", TEMPLATE),
            SiblingModel("NousResearch/Nous-Hermes-2-Mixtral-8x7B-DPO", "vocab_size"),
        ),
    ),
    load=from_a_file("09292024_mixtral_15k_mintoken2_v1.parquet", frames.MIXTRAL_8X7B.load),
    prompt=PublishedTokens(),
    generation=Generation(
        max_new_tokens=1024,
        min_new_tokens=2,
        # The text of the ids 13 13940 28832 13, after which the reference forces an EOS.
        stops=((MBXP, "\n```\n"),),
        keeps_eos=False,
    ),
    scorer=MixtralScorer(Mbxp()),
    reference=_REFERENCE,
    mean_tokens=145,
    prompt_tokens=400,
    cleans_up_spaces=True,
    context=4096,
)
MIXTRAL_8X7B = Benchmark(
    "mixtral-8x7b",
    "datacenter",
    _SAMPLES,
    (offline("mixtral-8x7b"), server("mixtral-8x7b", 2000, 200)),
    UNTIL_V6_0,
    (2,),
    _REFERENCE,
    (TEST06,),
    required=(("Offline",), ("Server",)),
    workload=_OFFICIAL,
    smoke=smoke_form(_OFFICIAL, samples=9),
)
BENCHMARKS = (MIXTRAL_8X7B,)
