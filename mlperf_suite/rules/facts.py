"""The facts that a rule may use: those of a run and its logs, and the base of all others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import (
    LOADGEN,
    Benchmark,
    ReferenceAccuracy,
    Scenario,
    Workload,
)
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.engines.protocol import MODEL_CHANGES, SERVER_MODEL, SPECULATIVE, RemoteRun
from mlperf_suite.loadgen.load_plan import ACCURACY_ONLY
from mlperf_suite.loadgen.logs import DETAIL, AccuracyLog, DetailLog, RunLogs
from mlperf_suite.rules.verdict import Verdict, VerdictError, failure, not_judged

Division = Literal["closed", "open"]
Subject = str
"""What a rule judges: a run of a mode, a part of a kept run's folder (`kept_run`), a `benchmark`
in a tree or a log, or what a feature makes or judges."""
_LAST_RATE = {
    "Offline": "result_tokens_per_second",
    "Server": "result_completed_tokens_per_second",
    "SingleStream": "result_completed_tokens_per_second",
}
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?\b")
_HUB_ID = re.compile(r"[\w-][\w.-]{0,99}/[\w.-]+")
_NO_ERROR_COUNT = (5, 0, 15)
"""The last LoadGen that may end a log without num_errors (mlcommons/inference pull request 2164):
it wrote 36 logs of 18 public v5.1 results."""


class Facts:
    """What a rule may know of its subject. `malformed`: the errors that damaged content causes in a
    rule of these facts, which they fail. `run_kind`: as of a rule."""

    __slots__ = ()
    malformed: ClassVar[tuple[type[Exception], ...]] = ()
    run_kind: ClassVar[str] = LOADGEN

    @property
    def subject(self) -> Subject:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SubmittedTexts:
    """The texts that a submission has beside its logs; None for a missing file.

    `verify_txt`: the verdict of an audit's official script, `verify_others`: other files of
    verdicts beside it. `accuracy_log`: that of the run, if it is as short as a truncated one.
    `accuracy_txts`: those of an audit whose answers differ, and of the accuracy run's same samples.
    """

    accuracy_txt: str | None = None
    verify_txt: str | None = None
    accuracy_log: str | None = None
    verify_others: tuple[str, ...] = ()
    accuracy_txts: tuple[str, ...] = ()


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
class ComparedRuns:
    """The runs of the same result that an audit is compared with: the answers of the accuracy run,
    its `scores` as in `RunFacts`, and the samples/s of the performance run. None if missing or
    unreadable."""

    answers: AccuracyLog | None = None
    scores: Mapping[str, float] | None = None
    samples_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Facts that only the session that made a run knows, and no log shows.

    `deviations`: how its generation deviates from the benchmark's. `undisclosed`: what the engine
    does not say of its generation. A few words each. `possible_models`: what else the model may be,
    empty if that is not a question. `remote`: what a remote server and its client reported; None if
    the engine is in this process. `cached_tokens`: prompt tokens that the engine took from a cache
    in this run; None if it does not count them.
    """

    deviations: tuple[str, ...] = ()
    undisclosed: tuple[str, ...] = ()
    possible_models: str = ""
    remote: RemoteRun | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RunFacts(Facts):
    """All that a rule may know of a run, and its way to read the run's detail log. Each is equal to
    itself alone, so that what several rules read of a run is kept for the next one (`of_run`).

    The readings raise VerdictError if a key is missing or has an unsuitable value.

    `scores`: an accuracy run's figures by the names of accuracy.txt, shares in percent; None if
    there are none, and `no_score_reason` says why if that is not a failure. `reference`: what to
    compare them with; None if unknown, and `no_reference_reason` says why. With both, the run's own
    words on its model and data leave the reference open: see `unless_unreferenced`.
    `figures_not_judged`: by figure, why it could not be computed. `accuracy_passed`: for the same
    system, None if there was no accuracy run. `accuracy_note`: in which run of the folder it did,
    or why that is not known. `smoke`: rules may be shortened. `submitted`: the run is from a
    submission, whose accuracy log is truncated and whose TEST06 may lack a detail log.
    `eos_token_ids`: the model's own, None if unknown. `vocabulary`: the number of the model's
    tokens, None if unknown. `session`: None if only logs are available. `accuracy_tokens`: those of
    the accuracy run of the same system, None if unknown. `text_alone`: see `gives_text_alone`.
    `hashes`: the log's in accuracy.txt beside a loose accuracy log, and the log's own; None if one
    is unknown. `compared`: see `ComparedRuns`; None if there are none. `blocks`: the logs of
    several LoadGen runs that are judged as one; `logs` are then those of the last.
    """

    benchmark: Benchmark
    scenario: Scenario
    mode: Mode
    round: Round
    logs: RunLogs
    smoke: bool = False
    scores: Mapping[str, float] | None = None
    no_score_reason: str = ""
    figures_not_judged: Mapping[str, str] = field(default_factory=dict)
    reference: ReferenceAccuracy | None = None
    no_reference_reason: str = ""
    high_accuracy: bool = False
    accuracy_passed: bool | None = None
    accuracy_note: str = ""
    division: Division = "closed"
    submitted: SubmittedTexts | None = None
    eos_token_ids: tuple[int, ...] | None = None
    vocabulary: int | None = None
    session: SessionFacts | None = None
    text_alone: bool = False
    accuracy_tokens: AnswerTokens | None = None
    hashes: tuple[str, str] | None = None
    compared: ComparedRuns | None = None
    blocks: tuple[RunLogs, ...] = ()

    @property
    def subject(self) -> Subject:
        return self.mode

    @property
    def in_session(self) -> SessionFacts:
        """Of a rule that is `session_only`. Raises VerdictError, not judged, if there was none."""
        if self.session is None:
            raise VerdictError(not_judged("logs alone", why="no session knows more of the run"))
        return self.session

    @property
    def detail(self) -> DetailLog:
        return self.logs.detail

    def unless_unreferenced(self, judgement: Verdict) -> Verdict:
        """A verdict by the reference of model and data; not judged if it passed and that is not
        known to be theirs, or if there is no reference."""
        if self.no_reference_reason and (judgement.passed or self.reference is None):
            return not_judged(judgement.found, judgement.required, self.no_reference_reason)
        return judgement

    @property
    def is_accuracy(self) -> bool:
        """Whether the log says it is an accuracy run's; the rule on test modes judges that."""
        return bool(self.detail["effective_test_mode"] == ACCURACY_ONLY)

    @property
    def has_its_end(self) -> bool:
        """Whether the log has what LoadGen writes at the very end of a run of its mode."""
        if self.mode == "accuracy":
            return self.detail["power_end"] is not None
        if self.detail["num_errors"] is not None:
            return True
        version = version_numbers(str(self.detail["loadgen_version"]))
        old = version is not None and version <= _NO_ERROR_COUNT
        return old and self.detail[_LAST_RATE[self.scenario.loadgen_scenario]] is not None

    @property
    def log_is_whole(self) -> bool:
        return self.has_its_end and not self.detail.damage

    def need_whole_log(self) -> None:
        """Raises VerdictError, not judged, if the detail log is damaged or truncated."""
        if not self.log_is_whole:
            raise VerdictError(not_judged("a log that is not whole", why="the log is not whole"))

    def need_detail(self, required: str = "") -> None:
        """Raises VerdictError, not judged, if there is no detail log: the rule on whole logs fails
        that."""
        if DETAIL not in self.logs.files and not self.detail.values:
            path = "/".join((*self.logs.folder.parts[-2:], DETAIL))
            raise VerdictError(not_judged("nothing", required, f"no {path} that can be read"))

    def number(self, key: str, required: str = "") -> float:
        """A number. `required`: what the verdict requires if there is none."""
        number = self.detail.number(key)
        if number is None:
            raise failure(self.present(key, required), required, f"{key} is not a number")
        return number

    def present(self, key: str, required: str = "") -> object:
        """Any value."""
        value = self.detail[key]
        self.need_detail(required)
        if value is None:
            raise absent(key, required)
        return value

    def amount(self, key: str) -> float:
        """A finite number of at least 0."""
        number = self.number(key)
        if not 0 <= number < math.inf:
            raise failure(f"{key} {number}")
        return number

    def whole(self, key: str, least: int = 0) -> int:
        """An integer of at least `least`."""
        number = self.amount(key)
        if not isinstance(number, int) or number < least:
            raise failure(f"{key} {number}", why=f"no whole number of {least} or more")
        return number

    def flag(self, key: str) -> bool:
        value = self.present(key)
        if not isinstance(value, bool):
            raise failure(f"{key} {value}", why="neither true nor false")
        return value

    def stamp(self, key: str) -> float:
        """The time of the key's last entry, in ms since the log began."""
        moment = self.detail.stamp(key)
        if moment is None:
            raise absent(f"a timestamp of {key}")
        return moment


of_run = lru_cache(maxsize=4)
"""For what several rules read of a run, one after the other."""


class ByIdentity:
    """A value as the key of a cache: the same object alone, which the key keeps alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def version_numbers(version: str) -> tuple[int, int, int] | None:
    """The numbers in a `loadgen_version`, None if it has none."""
    numbers = _VERSION.match(version)
    return (int(numbers[1]), int(numbers[2]), int(numbers[3] or 0)) if numbers else None


def absent(key: str, required: str = "") -> VerdictError:
    """To be raised: the detail log lacks a key."""
    return failure("nothing", required, f"{key} is not in the detail log")


def find_reference(
    workload: Workload,
    model: str,
    dataset: str,
    answers: int,
    *,
    is_model: bool,
    available: int | None = None,
    whole: int | None = None,
) -> tuple[ReferenceAccuracy | None, str]:
    """What a run over the first `answers` samples must score, or None and why that is unknown.

    `is_model`: whether the model is the workload's (`Workload.is_model`). `available`: the total
    number of samples in the data, if known. `whole`: the size of the official data of a mode that
    has other data than accuracy; the reference then only confirms that model and data are the
    benchmark's.
    """
    whole = whole or workload.reference.answers
    if workload.ungated:
        return None, workload.ungated
    if not is_model:
        return None, f"no reference accuracy is known for the model {model}"
    # A local copy of the official data is identified only by its size.
    a_copy = workload.reference_of is None and available in (None, whole)
    if dataset != workload.dataset and not a_copy:
        return None, f"no reference accuracy is known for the data {dataset}"
    if whole != workload.reference.answers:
        reference = workload.reference if answers == whole else None
    else:
        reference = workload.reference_for(answers) if answers > 0 else None
    if reference is None:
        return None, f"{answers:,} of {whole:,} samples: the gate holds for the whole data set"
    return reference, ""


def find_deviations(
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
    limit, deviations = workload.part(mode).generation.max_new_tokens, []
    if max_new_tokens != limit:
        deviations.append(f"at most {max_new_tokens} new tokens, not {limit}")
    elif room is not None and room < limit:
        deviations.append(f"at most {room} new tokens fit the context, not {limit}")
    if engine_settings.get("enable_prefix_caching"):
        deviations.append("a prefix cache")
    if changes := engine_settings.get(MODEL_CHANGES):
        deviations.append(f"a model that is changed by {changes}")
    server_model = str(engine_settings.get(SERVER_MODEL)).casefold()
    for sibling in workload.model_identity.siblings:
        if server_model == sibling.name.casefold():
            deviations.append(f"the server runs {sibling.name}")
    return tuple(deviations)


def besides_length(deviations: Iterable[str]) -> list[str]:
    """The deviations other than that of the answer length limit, which a smoke run may have."""
    return [words for words in deviations if not words.startswith("at most")]


@dataclass(frozen=True, slots=True)
class SpeculationFaults:
    """`deviations`: how an engine's speculative decoding differs from what the round allows.
    `undisclosed`: what it does not say of it. A few words each.
    """

    deviations: tuple[str, ...] = ()
    undisclosed: tuple[str, ...] = ()


def find_speculation(
    benchmark: Benchmark, scenario: Scenario, round_: Round, engine_settings: Mapping[str, object]
) -> SpeculationFaults:
    """Compare an engine's `SPECULATIVE` setting with what the benchmark allows in a round."""
    setting = engine_settings.get(SPECULATIVE, {})
    allowed = benchmark.speculation
    if allowed and (scenario.name != allowed.scenario or round_.name not in allowed.rounds):
        allowed = None
    deviations, undisclosed = [], []
    for entry in setting if isinstance(setting, list) else [setting]:
        if entry == {}:
            undisclosed.append("whether it decodes speculatively")
        elif entry is not None:
            # Runs of earlier versions of the suite kept the method alone.
            facts = entry if isinstance(entry, Mapping) else {"method": entry}
            words = f"speculative decoding ({facts.get('method', 'by a method not named')})"
            if allowed is None or "acceptance" in facts:
                how = f" with {facts['acceptance']}" if "acceptance" in facts else ""
                deviations.append(words + how)
                continue
            for name in ("method", "steps", "topk", "head", "quantization"):
                value, values = facts.get(name), getattr(allowed, name)
                if value is None or (value not in values and not _is_telling(name, value)):
                    undisclosed.append(f"the {name} of its speculative decoding")
                elif value not in values:
                    either = " or ".join(map(str, values))
                    deviations.append(f"{words} with {name} {value}, not {either}")
    return SpeculationFaults(tuple(dict.fromkeys(deviations)), tuple(dict.fromkeys(undisclosed)))


def _is_telling(name: str, value: object) -> bool:
    """Whether a value that is not the rules' own shows a deviation: a folder can hold any head, and
    a model's quantization often leaves out its head."""
    return name != "quantization" and (name != "head" or bool(_HUB_ID.fullmatch(str(value))))


TEXT_ALONE = "the server returns text only: its tokens are counted with the model's tokenizer"
"""Why nothing can be said about the tokens of such a server."""


def gives_text_alone(engine_settings: Mapping[str, object]) -> bool:
    """Whether the tokens given to LoadGen were made from the engine's text instead of being its
    own.

    `engine_settings`: the engine's own description of its settings.
    """
    return engine_settings.get("tokens") == "text"
