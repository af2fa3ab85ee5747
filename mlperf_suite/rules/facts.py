"""The facts that a rule may use: one run's logs, and what else is known about the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark, ReferenceAccuracy, Scenario, Workload
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.rules.caching_figures import Caching

Division = Literal["closed", "open"]


@dataclass(frozen=True, slots=True)
class SubmittedTexts:
    """The texts that a submission has beside its logs; None for a missing file.

    `verify_txt`: the verdict of an audit's official script. `accuracy_log`: the accuracy log, if it
    was truncated for submission.
    """

    accuracy_txt: str | None = None
    verify_txt: str | None = None
    accuracy_log: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """The mean number of tokens of an accuracy run's answers, and the number of answers."""

    mean: float
    answers: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> AnswerTokens | None:
        """The mean of these token counts; None if there are no answers.

        A log may contain any number: the mean is infinite if it exceeds the range of a float.
        """
        if not counts:
            return None
        try:
            return cls(sum(counts) / len(counts), len(counts))
        except OverflowError:
            return cls(math.inf, len(counts))


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All facts that a rule may use.

    `scores`: an accuracy run's figures by the names of accuracy.txt, shares in percent; None if
    there are none, and `unscored` says why if that is not a failure. `reference`: what to compare
    them with; None if unknown, and `unreferenced` says why. `figures_not_judged`: by figure, why it
    could not be computed. `accuracy_passed`: for the same system, None if there was no accuracy
    run. `smoke`: rules may be shortened. `submitted`: the run is from a submission, whose accuracy
    log is truncated and whose TEST06 may lack a detail log. `eos_token_ids`: the model's own, None
    if unknown. `departures`: how the session's generation deviates from the benchmark's; None if
    only logs are available, which do not show it. `remote`: what a remote server and its client
    reported; None if the engine is in this process. `accuracy_tokens`: those of the accuracy run of
    the same system, None if unknown. `text_alone`: see `gives_text_alone`. `cached_tokens`: prompt
    tokens that the engine took from a cache in this run; None if it does not count them, or if only
    logs are available. `caching`: the measurements of the caching audit; `logs` are then those of
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
    """What a run over the first `answers` samples must score, or None and why that is unknown.

    `model_config`: the model's config.json, which identifies a copy under another name; None if it
    cannot be read. `available`: the total number of samples in the data, if known. `whole`: the
    size of the official data of a mode that has other data than accuracy; the reference then only
    confirms that model and data are the benchmark's.
    """
    whole = whole or workload.reference.answers
    if workload.ungated:
        return None, workload.ungated
    if not workload.is_model(model, model_config):
        return None, f"no reference accuracy is known for the model {model}"
    # A local copy of the official data is identified only by its size.
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
    """How the generation of answers deviates from the workload's in a mode, a few words each.

    `engine_settings`: the engine's own description of its settings. `room`: the tokens that its
    context leaves for the answer to the longest prompt, if known.
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
    """A deviation if a draft model proposed tokens in a scenario where the benchmark forbids it."""
    said = engine_settings.get("speculative")
    if not said or scenario.name in benchmark.speculation:
        return ()
    return (f"speculative decoding ({said})",)


TEXT_ALONE = "the server returns text only: its tokens are counted with the model's tokenizer"
"""Why nothing can be said about the tokens of such a server."""


def gives_text_alone(engine_settings: Mapping[str, object]) -> bool:
    """Whether the tokens given to LoadGen were made from the engine's text instead of being its
    own.

    `engine_settings`: the engine's own description of its settings.
    """
    return engine_settings.get("tokens") == "text"
