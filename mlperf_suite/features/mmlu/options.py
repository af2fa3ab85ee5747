"""MMLU's options."""

from functools import partial

from mlperf_suite.features.mmlu.mmlu_questions import HUB_REPOSITORY, STANDARD_SHOTS, SUBSETS
from mlperf_suite.option_specs import (
    COUNT_OR_AUTO,
    OptionSpec,
    Values,
    checked,
    choice,
    name_or_path,
    switch,
)

_SHOTS = checked(
    int,
    lambda shots: 0 <= shots <= STANDARD_SHOTS,
    f"must be a whole number from 0 to {STANDARD_SHOTS}",
)
_SCORE = checked(float, lambda score: 0 <= score <= 100, "must be a number from 0 to 100")
_option = partial(OptionSpec, section="MMLU")
_switch = partial(switch, section="MMLU", identifies=None)

OPTIONS = {
    "mmlu_data": _option(
        "MMLU's questions: embedded, cais/mmlu (from the Hugging Face hub), or a folder of CSV or "
        "parquet files",
        Values(name_or_path, "must be a name or a folder"),
        identifies="mmlu",
        reported_as="data sha256",
        by_profile={"smoke": "embedded", "official": HUB_REPOSITORY},
        data_of="MMLU",
    ),
    "mmlu_limit": _option(
        "total number of MMLU questions, chosen as --mmlu-subset says; auto uses all",
        COUNT_OR_AUTO,
        "auto",
        identifies="mmlu",
        reported_as="questions",
        legacy_flags=("--total-limit",),
    ),
    "mmlu_subset": _option(
        "the questions that --mmlu-limit leaves: spread evenly over the subjects, or the first in "
        "the order of the subjects' names, as mmlu.py took them",
        choice(*SUBSETS),
        "spread",
        identifies="mmlu",
        reported_as="choice of questions",
    ),
    "mmlu_shots": _option(
        f"number of worked examples before each MMLU question; {STANDARD_SHOTS} by default, 1 with "
        "the embedded questions",
        _SHOTS,
        identifies="mmlu",
        reported_as="shots",
    ),
    "mmlu_min_accuracy": _option(
        "minimum MMLU score that passes, in percent", _SCORE, identifies=None
    ),
    "mmlu_details": _switch(
        "keep each MMLU question's text, choices and log-probabilities in details.jsonl",
        legacy_flags=("--details",),
    ),
    "mmlu_resume": _switch("continue the most recent interrupted MMLU run"),
}
