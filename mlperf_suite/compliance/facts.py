"""All that a rule may look at: one run's logs, and what is known of it besides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark, ReferenceAccuracy, Scenario, Workload
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.compliance.caching import Caching
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.loadgen.logs import RunLogs

Division = Literal["closed", "open"]


@dataclass(frozen=True, slots=True)
class SubmittedTexts:
    """The texts that a submission has beside its logs; None is a file that is not there.

    `verify_txt`: in which an audit's official script says what it found. `accuracy_log`: the
    accuracy log, where it was cut to what may be submitted.
    """

    accuracy_txt: str | None = None
    verify_txt: str | None = None
    accuracy_log: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """How many tokens an accuracy run's answers have: their mean, over so many of them."""

    mean: float
    answers: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> AnswerTokens | None:
        """Those of answers of so many tokens each; None of no answers.

        A log may say any number: the mean is infinite where it is more than a float holds.
        """
        if not counts:
            return None
        try:
            return cls(sum(counts) / len(counts), len(counts))
        except OverflowError:
            return cls(math.inf, len(counts))


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All that a rule may look at.

    `scores`: an accuracy run's figures by the names of accuracy.txt, shares in percent; None where
    there are none, and `unscored` says why where that is nobody's fault. `reference`: what to
    compare them with; None where nothing is known, and `unreferenced` says why.
    `figures_not_judged`: by figure, why it could not be had.
    `accuracy_passed`: of the same system, None where no accuracy run was made. `smoke`: rules may
    be shortened. `submitted`: from a submission, whose accuracy log is cut and whose TEST06 need
    not bring a detail log. `eos_token_ids`: the model's own, None where unknown. `departures`: how
    the session's generation differs from the benchmark's; None where only logs are known, which do
    not tell. `remote`: what a server elsewhere and the client to it told of the run; None where the
    engine is in this process. `accuracy_tokens`: those of the accuracy run of the same system, None
    where nothing says them. `text_alone`: see `gives_text_alone`. `cached_tokens`: prompt tokens
    that the engine took from a cache in this run, as it counts them; None where it does not, or
    where only logs are known. `caching`: what the caching audit measured; `logs` are then those of
    its last block.
    """

    benchmark: Benchmark
    scenario: Scenario
    mode: Mode
    round: Round
    logs: RunLogs
    smoke: bool = False
    scores: Mapping[str, float] | None = None
    unscored: str = ""
    figures_not_judged: Mapping[str, str] = field(default_factory=dict)
    reference: ReferenceAccuracy | None = None
    unreferenced: str = ""
    high_accuracy: bool = False
    accuracy_passed: bool | None = None
    division: Division = "closed"
    submitted: SubmittedTexts | None = None
    eos_token_ids: tuple[int, ...] | None = None
    departures: tuple[str, ...] | None = None
    remote: RemoteRun | None = None
    text_alone: bool = False
    accuracy_tokens: AnswerTokens | None = None
    cached_tokens: int | None = None
    caching: Caching | None = None


def find_reference(
    workload: Workload,
    model: str,
    dataset: str,
    answers: int,
    *,
    model_config: Mapping[str, object] | None = None,
    available: int | None = None,
    whole: int | None = None,
) -> tuple[ReferenceAccuracy | None, str]:
    """What a run over the first `answers` samples must score, or None and why nobody knows it.

    `model_config`: the model's config.json, by which a copy under another name is known; None where
    it cannot be read. `available`: the samples that the data has in all, where that is known.
    `whole`: the size of the official data of a mode that has other data than accuracy; the
    reference then says no more than that model and data are the benchmark's.
    """
    whole = whole or workload.reference.answers
    if workload.ungated:
        return None, workload.ungated
    if not workload.is_model(model, model_config):
        return None, f"no reference accuracy is known for the model {model}"
    # A local copy of the official data is known by its size, as far as that tells.
    a_copy = workload.reference_of is None and available in (None, whole)
    if dataset != workload.dataset and not a_copy:
        return None, f"no reference accuracy is known for the data {dataset}"
    if whole != workload.reference.answers:
        found = workload.reference if answers == whole else None
    else:
        found = workload.reference_for(answers) if answers > 0 else None
    if found is None:
        return None, f"{answers:,} of {whole:,} samples: the gate holds for the whole data set"
    return found, ""


def find_departures(
    workload: Workload,
    max_new_tokens: int,
    engine_settings: Mapping[str, object],
    mode: str = "performance",
    *,
    room: int | None = None,
) -> tuple[str, ...]:
    """How the generation of answers differs from the workload's in a mode, a few words each.

    `engine_settings`: the engine's own description of how it is set. `room`: the tokens that its
    context leaves to the answer of the longest prompt, where that is known.
    """
    said, found = workload.part(mode).generation.max_new_tokens, []
    if max_new_tokens != said:
        found.append(f"at most {max_new_tokens} new tokens, not {said}")
    elif room is not None and room < said:
        found.append(f"at most {room} new tokens fit the context, not {said}")
    if engine_settings.get("enable_prefix_caching"):
        found.append("a prefix cache")
    return tuple(found)


def find_speculation(
    benchmark: Benchmark, scenario: Scenario, engine_settings: Mapping[str, object]
) -> tuple[str, ...]:
    """That tokens were proposed by a draft model, where the benchmark does not allow it there."""
    said = engine_settings.get("speculative")
    if not said or scenario.name in benchmark.speculation:
        return ()
    return (f"speculative decoding ({said})",)


TEXT_ALONE = "the server returns text only: its tokens are counted with the model's tokenizer"
"""Why nothing can be said of the tokens of such a server."""


def gives_text_alone(engine_settings: Mapping[str, object]) -> bool:
    """Whether the tokens that LoadGen was given are not the engine's own, but made from its text.

    `engine_settings`: the engine's own description of how it is set.
    """
    return engine_settings.get("tokens") == "text"
