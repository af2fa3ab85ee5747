"""Typed summary.json and config.json: read only here, and written from the same types.

A field that a file lacks, or has with another type, is None or empty: a summary may be from an
older suite or another program, or damaged. Rates are per second, times in ms if the name says so
and otherwise in s, shares and changes relative (0.05 is 5%), scores in their own unit.

A summary.json of another version than SCHEMA_VERSION is not read; no release wrote one. To add a
field, add it to its type with a default, which applies to files without it. If a field moves or
changes its meaning, increase SCHEMA_VERSION.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from math import inf
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Literal, get_args

from mlperf_suite.assets import EMBEDDED_MODEL
from mlperf_suite.engines.protocol import SERVER_SETTINGS, RemoteRun
from mlperf_suite.feature import features
from mlperf_suite.loadgen.timeline import EngineLoad
from mlperf_suite.results.typed_json import read, to_json, written_fields
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.verdict import Status, Verdict, figure_words, in_words

SCHEMA_VERSION = 6
CLIENT_BOUND = "client-bound: not a result"
"""The mark of a run whose client, not its server, may have determined the figures."""
PROFILED = "profiled: not a result"
"""The mark of every run of a session whose engine was loaded with a profiler."""
STAND_IN_LABEL = "made with a stand-in engine: not a measurement of any system"
"""The mark on every output of a run with a stand-in engine."""
TOO_NOISY = "too noisy to say"
"""In place of a change's interval in which half of the figure could be lost."""
CONFIDENCE = 0.95
"""The confidence of a scaling efficiency's interval."""
UNKNOWN = "unknown"
"""The status of a run that does not have one."""
Answer = Literal["valid", "not valid", "not a result", "not finished", "failed"]
"""Of a summary: "not a result" may have passed every rule that it was held to."""
ChangeOutcome = Literal["regressed", "improved", "unchanged", "cannot tell"]
Percentiles = dict[str, float]
"""Times in ms by percentile name (p50, p99.9), and their mean."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What was run. `status`: running, complete, invalid (a rule failed) or failed (an error
    stopped the run).

    `started`, `ended`: ISO 8601 with the time zone; `ended` is missing during the run. `samples`:
    the number of samples per run; `samples_why`: the reason for that number, a sentence.
    `questions`, `shots`: only of scores. `engine`: name, version and precision, None until the
    engine is loaded. `profiler`: the profiler that the engine was loaded with, None without one.
    `reason`: why the run failed. `load_generator`: the client that sent the requests, with its
    version; None for LoadGen. `run_name`: that of --label. `gpus`: how many of each name the engine
    computed on, None if that is not known. `cpus_of`: the names of the machines whose CPUs it
    computed on, if that is not this machine alone. `not_submittable`: why the result cannot be
    submitted even if every rule passes, in one line. `command`: as it was typed, quoted for a
    shell, without secrets. `suite_commit`: of the clone that the suite ran from, followed by
    "-dirty" if its files were changed; None if it was installed.
    """

    category: str | None = None
    scenario: str | None = None
    benchmark: str | None = None
    model: str | None = None
    engine: str | None = None
    dataset: str | None = None
    samples: int | None = None
    samples_why: str | None = None
    max_new_tokens: int | None = None
    questions: int | None = None
    shots: int | None = None
    round: str | None = None
    profile: str | None = None
    label: str | None = None
    started: str | None = None
    ended: str | None = None
    node_name: str | None = None
    profiler: str | None = None
    status: str = UNKNOWN
    reason: str | None = None
    load_generator: str | None = None
    run_name: str | None = None
    gpus: dict[str, int] | None = None
    cpus_of: tuple[str, ...] = ()
    not_submittable: str | None = None
    command: str | None = None
    suite_version: str | None = None
    suite_commit: str | None = None

    @property
    def kind(self) -> tuple[str, str]:
        """Benchmark and scenario: runs of different kinds are never compared."""
        return self.benchmark or "", self.scenario or ""

    @property
    def title(self) -> str:
        """The kind in words: "llama3.1-8b Offline"; of one that is of no benchmark, its name."""
        return " ".join(filter(None, self.kind))

    @property
    def rules(self) -> str:
        """The label on every output of a run, or a statement that it has none."""
        return in_words(self.label) if self.label else "not said under which rules"


@dataclass(frozen=True, slots=True)
class ScoreFigures:
    """One score of the answers. `low` and `high`: the passing range, None if that end is open.

    `reference`: the reference accuracy. `standard_error`: only for a score that is a mean.
    """

    name: str
    value: float
    unit: str = ""
    low: float | None = None
    high: float | None = None
    reference: float | None = None
    standard_error: float | None = None

    @property
    def is_percentage(self) -> bool:
        """Whether it is a quality, where higher is better, rather than a length or a count."""
        return self.unit == "%"


@dataclass(frozen=True, slots=True)
class AccuracyFigures:
    """An accuracy run. `total_samples`: the number of samples in the data set; `passed`: the
    verdict of the accuracy rules."""

    total_samples: int | None = None
    passed: bool | None = None
    scores: tuple[ScoreFigures, ...] = ()

    def score(self, name: str) -> ScoreFigures | None:
        return next((score for score in self.scores if score.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """The fields, and ROUGE also under the names that users parse."""
        rouge = {s.name: s.value for s in self.scores if s.name.startswith("rouge")}
        lengths = {f"run_{name}": self.score(name) for name in ("gen_len", "gen_num")}
        return {
            **written_fields(self),
            **({"rouge": rouge} if rouge else {}),
            **{
                name: int(score.value) if float(score.value).is_integer() else score.value
                for name, score in lengths.items()
                if score
            },
        }


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """LoadGen's early stopping report. The names are latency, ttft and tpot.

    `met`: the verdict. `percentile`: the percentile that early stopping decides on, in percent;
    `estimates_ms`: its estimates. `more_queries`: the number of additional queries within the limit
    that a Server run would have needed. `says`: LoadGen's own text.
    """

    met: bool | None = None
    percentile: float | None = None
    estimates_ms: dict[str, float | None] = field(default_factory=dict)
    more_queries: dict[str, int | None] = field(default_factory=dict)
    says: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricFigure:
    """The scenario's result metric, named by its key in the detail log."""

    name: str | None = None
    value: float | None = None
    unit: str | None = None


GOODPUT = 0.99
"""The share of requests within their limits that a rate by goodput demands."""


@dataclass(frozen=True, slots=True)
class Goodput:
    """The requests that are within every latency limit of the scenario.

    MLPerf's limits apply to the 99th percentile of TTFT and of TPOT, or of the latency; goodput
    applies them to each request. `within`: the number of `requests` within the limits.
    `samples_per_sec`: the rate of these requests. `beyond_ttft`, `beyond_tpot`, `beyond_latency`:
    the number beyond each limit; a request may be beyond several. An answer of one token has no
    TPOT. A limit that the scenario does not have is None.
    """

    requests: int
    within: int
    beyond_ttft: int = 0
    beyond_tpot: int = 0
    ttft_limit_ms: float | None = None
    tpot_limit_ms: float | None = None
    beyond_latency: int = 0
    latency_limit_ms: float | None = None
    samples_per_sec: float | None = None

    @property
    def share(self) -> float:
        """Of the requests, 0 to 1; 0 if a file's numbers cannot be."""
        possible = 0 <= self.within <= self.requests and self.requests > 0
        return self.within / self.requests if possible else 0.0


@dataclass(frozen=True, slots=True)
class RepeatFigures:
    """The figures of one of several performance runs that were made to measure the noise.

    Times by percentile, None if LoadGen reports none in the scenario.
    """

    valid: bool | None = None
    tokens_per_sec: float | None = None
    samples_per_sec: float | None = None
    qps: float | None = None
    latency_ms: Percentiles | None = None
    ttft_ms: Percentiles | None = None
    tpot_ms: Percentiles | None = None


@dataclass(frozen=True, slots=True)
class PartFigures:
    """One part of the time of all requests. `share`: of their total time."""

    name: str
    share: float = 0.0
    mean_ms: float = 0.0
    p50_ms: float = 0.0
    p90_ms: float = 0.0
    p99_ms: float = 0.0
    most_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """One of the slowest requests. `sample`: its index in the QSL. `issued_s`: when it was issued,
    from the first request on. `parts_ms`: by part. `cause`: what made it slow, with figures."""

    sample: int
    issued_s: float = 0.0
    latency_ms: float = 0.0
    parts_ms: dict[str, float] = field(default_factory=dict)
    prompt_tokens: int = 0
    tokens: int = 0
    preempted: int = 0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class TimeBreakdown:
    """The time of the requests, part by part.

    `from_loadgen`: whether a request's time starts when LoadGen starts its clock. `differs_ms`: the
    largest difference between a latency that LoadGen reports (minimum, mean, percentiles, maximum)
    and the same figure of the parts' sums; None if LoadGen reports none. `drain`: the share of the
    run after the engine started its last request. `slowest`: the slowest requests, slowest first.
    """

    requests: int = 0
    from_loadgen: bool = False
    differs_ms: float | None = None
    drain: float | None = None
    parts: tuple[PartFigures, ...] = ()
    slowest: tuple[SlowRequest, ...] = ()

    def part(self, *names: str) -> float:
        """The share of total time that these parts took."""
        return sum(part.share for part in self.parts if part.name in names)


@dataclass(frozen=True, slots=True)
class PerformanceFigures(RepeatFigures):
    """A performance run. `duration_s`: LoadGen's run time; `total_new_tokens`: the output tokens
    that the SUT counted.

    `invalid_reason`: LoadGen's own recommendation for an INVALID run. `target_qps`: the rate in
    queries/s that LoadGen issued or planned for. `blocks`: figures over equal parts of the run.
    `life`: the time of the requests, part by part; `load`: the load of the engine; None if unknown.
    `goodput`: None without limits or times. `suite_times_ms`: ttft and tpot by the suite's own
    timeline, from the engine's first tokens, if LoadGen reports none. `untimed`: why the requests'
    times are unknown, empty if they are known. `made_again`: why a run before this one did not
    count, empty if there was none.
    """

    scenario: str | None = None
    invalid_reason: str | None = None
    duration_s: float | None = None
    total_new_tokens: int | None = None
    metric: MetricFigure | None = None
    early_stopping: EarlyStopping | None = None
    target_qps: float | None = None
    blocks: dict[str, tuple[float, ...]] = field(default_factory=dict)
    repeats: tuple[RepeatFigures, ...] = ()
    life: TimeBreakdown | None = None
    load: EngineLoad | None = None
    goodput: Goodput | None = None
    suite_times_ms: dict[str, Percentiles] = field(default_factory=dict)
    untimed: str = ""
    made_again: str = ""

    def each(self, rate: str) -> list[float]:
        """A rate of this run and of its repeats, by name; empty if this run has none."""
        values = [getattr(run, rate) for run in (self, *self.repeats)]
        known = [value for value in values if value and 0 < value < inf]
        return known if values[0] in known else []

    def mean(self, rate: str) -> float | None:
        """The geometric mean of a rate over the repeats, as the regression gate compares it."""
        values = self.each(rate)
        value: float | None = geometric_mean(values) if len(values) > 1 else getattr(self, rate)
        return value


@dataclass(frozen=True, slots=True)
class WarmUpFigures:
    """The warm-up before a run, which is not timed. `tokens`: tokens of the answers; `what`: which
    requests were sent, and how."""

    requests: int = 0
    tokens: int = 0
    elapsed_s: float = 0.0
    what: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of each run; None if the run was not made or has no figures.

    `warm_up`: by mode. `remote`: by
    mode, what servers and the suite's client reported; empty if the engine ran in the suite's own
    process.
    """

    accuracy: AccuracyFigures | None = None
    performance: PerformanceFigures | None = None
    warm_up: dict[str, WarmUpFigures] = field(default_factory=dict)
    remote: dict[str, RemoteRun] = field(default_factory=dict)

    def has(self, mode: str) -> bool:
        """Whether there are figures of a mode: accuracy or performance."""
        return mode in ("accuracy", "performance") and getattr(self, mode) is not None

    @property
    def is_empty(self) -> bool:
        return not any(map(self.has, ("accuracy", "performance")))

    @property
    def accuracy_passed(self) -> bool | None:
        """The accuracy rules' verdict on the accuracy run; None if there is none."""
        return None if self.accuracy is None else self.accuracy.passed


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A step of the session: its estimate and the time it took; None if unknown."""

    what: str
    estimated_s: float | None = None
    took_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeFigures:
    """The change of one metric since the baseline: `change`, with its interval from `low` to
    `high`; above 0 is better.

    `words`: the rise or fall of the metric itself. `noise_from`: what the interval is computed
    from.
    """

    metric: str
    label: str = ""
    unit: str = ""
    higher_is_better: bool = True
    baseline: float | None = None
    current: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    outcome: ChangeOutcome = "cannot tell"
    words: str = ""
    noise_from: str = ""

    @property
    def line(self) -> str:
        """The verdict with both sides' figures."""
        sides = (figure_words(side or 0.0, 6) for side in (self.baseline, self.current))
        unit = self.unit if self.unit == "%" else f" {self.unit}"
        figures = "baseline {1}{0}, candidate {2}{0}".format(unit, *sides)
        return f"{self.outcome}: {self.label} {self.words}, {figures}"


@dataclass(frozen=True, slots=True)
class RegressionFigures:
    """The verdict of the regression gate. `baseline`: its name as the user gave it. `refused`: why
    nothing was compared.

    `different`: the differences between the runs that did not prevent the comparison.
    """

    baseline: str | None = None
    baseline_started: str | None = None
    max_regression: float | None = None
    refused: str | None = None
    different: tuple[str, ...] = ()
    metrics: tuple[ChangeFigures, ...] = ()

    def of(self, metric: str) -> ChangeFigures | None:
        return next((change for change in self.metrics if change.metric == metric), None)

    @property
    def regressed(self) -> str:
        """The metrics that regressed, with their changes; empty if none did."""
        return "; ".join(f"{c.label} {c.words}" for c in self.metrics if c.outcome == "regressed")


@cache
def figures_of_features() -> dict[str, str]:
    """The figures that features add to summary.json: by their name there, the name of their type,
    which is imported when they are read."""
    return {name: place for feature in features() for name, place in feature.figures.items()}


def figures_type(place: str) -> type:
    """The type of a feature's figures, by its name in `figures_of_features`."""
    module, _, name = place.rpartition(".")
    kind: type = getattr(import_module(module), name)
    return kind


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of summary.json. `system`: the machine. `logs` and `plots`: paths in the run's
    folder.

    `plan`: the steps of the session, with their estimates and times. `parts`: the figures that
    features add; in the file each is a member of its own. One may say with `no_result` why it makes
    the summary no result, with `costs` what the run took, by name with unit; lower is better.
    """

    schema_version: int = SCHEMA_VERSION
    meta: Meta = field(default_factory=Meta)
    system: dict[str, Any] = field(default_factory=dict)
    run: Run = field(default_factory=Run)
    parts: dict[str, Any] = field(default_factory=dict)
    plan: tuple[PlanRow, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    regression: RegressionFigures | None = None
    logs: tuple[str, ...] = ()
    plots: tuple[str, ...] = ()

    @property
    def client_bound(self) -> bool:
        """Whether the client_bound rule failed: the figures are not a result."""
        return any(
            v.rule == "client_bound" and v.status in ("failed", "shortened") for v in self.verdicts
        )

    @property
    def spoiled(self) -> str:
        """Why its figures say nothing about the system, in words; empty if there is no reason."""
        reasons = {CLIENT_BOUND: self.client_bound, PROFILED: self.meta.profiler is not None}
        return "; ".join(words for words, holds in reasons.items() if holds)

    @property
    def no_result(self) -> str:
        """Why its figures are not a result, in words; empty if there is no reason. Curves of
        the suite's own client are compared with each other all the same."""
        of_parts = [getattr(part, "no_result", "") for part in self.parts.values()]
        return "; ".join(filter(None, (self.spoiled, *of_parts)))

    @property
    def machines(self) -> list[str]:
        """The GPUs that computed, or else the CPU; of remote servers their URLs and of other
        machines' CPUs the machines' names, as their hardware is unknown."""
        remote = self.run.remote.values()
        if urls := {endpoint.url for run in remote for endpoint in run.endpoints}:
            return sorted(urls)
        found = self.system.get("gpus")
        of_machine = Counter(map(str, found)) if isinstance(found, list) else Counter[str]()
        gpus = of_machine if self.meta.gpus is None else self.meta.gpus
        if gpus:
            return [name if number == 1 else f"{number} x {name}" for name, number in gpus.items()]
        if self.meta.cpus_of:
            return [f"CPU of {host}" for host in self.meta.cpus_of]
        return [f"{self.system.get('cpu', '?')}, {self.system.get('cpu_count') or '?'} cores"]

    @property
    def model(self) -> str:
        """The model's name, without the folder that it is in."""
        name = Path(self.meta.model or "an unknown model").name
        return in_words(f"{EMBEDDED_MODEL} (embedded)" if name == "embedded" else name)

    @property
    def measured(self) -> str:
        """Name, model, samples, engine and machine in words: what the figures are of."""
        meta = self.meta
        parts = [": ".join(filter(None, (meta.run_name, self.model)))]
        parts += [f"{meta.samples:,} samples"] if meta.samples is not None else []
        parts += [meta.engine] if meta.engine else []
        parts += self.machines
        parts += [f"sent by {meta.load_generator}"] if meta.load_generator else []
        return in_words(", ".join(parts))

    @classmethod
    def read(cls, content: object) -> Summary:
        """Parse the content of a summary.json; never raises. `version_fault` judges its version."""
        members = _with_whole_verdicts(content)
        summary = read(cls, {**members, "parts": {}}) or cls()
        places = figures_of_features()
        found = [name for name in places if _member(members, name) is not None]
        parts = {name: read(figures_type(places[name]), _member(members, name)) for name in found}
        return replace(summary, parts={n: part for n, part in parts.items() if part is not None})

    @property
    def regressed(self) -> str:
        """The metrics that regressed against the baseline, with their changes; empty if none."""
        return self.regression.regressed if self.regression else ""

    @property
    def counts(self) -> dict[Status, int]:
        """How many rules ended with each status."""
        return {s: sum(v.status == s for v in self.verdicts) for s in get_args(Status)}

    @property
    def verdict(self) -> Answer:
        """The answer in a word."""
        meta, counts = self.meta, self.counts
        if meta.status not in ("complete", "invalid"):
            return "failed" if meta.status == "failed" else "not finished"
        if counts["failed"]:
            return "not valid"
        is_result = meta.profile != "smoke" and not self.no_result and meta.label != STAND_IN_LABEL
        is_whole = counts["passed"] == len(self.verdicts) > 0
        return "valid" if is_result and is_whole else "not a result"

    def as_json(self) -> dict[str, Any]:
        """The content for summary.json; what is unknown or empty is left out."""
        return {
            "schema_version": self.schema_version,
            "verdict": self.verdict,
            "counts": self.counts,
            **self._figures(),
            "verdicts": [_with_origin(verdict) for verdict in self.verdicts],
        }

    def _figures(self) -> dict[str, Any]:
        """The members with figures, those of features in their places."""
        content = written_fields(replace(self, parts={}))
        for name, part in self.parts.items():
            *parents, last = name.split(".")
            place = content
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = to_json(part)
        return content


def _member(content: Mapping[str, Any], name: str) -> object:
    """What a file has under a name such as run.caching; None if nothing."""
    value: object = content
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _with_origin(verdict: Verdict) -> dict[str, Any]:
    """A verdict with the run that its rule judges, and the rule's source."""
    rule = rule_named(verdict.rule)
    origin = {} if rule is None else {"run": rule.subject, "source": rule.attribution}
    return {name: value for name, value in (verdict.as_json() | origin).items() if value}


def version_fault(content: Mapping[str, Any]) -> str:
    """Why the format of a summary.json's content cannot be read, in words; empty if it can."""
    version = content.get("schema_version", SCHEMA_VERSION)
    if version == SCHEMA_VERSION:
        return ""
    return f"format version {in_words(version)}, and this suite reads version {SCHEMA_VERSION}"


def _with_whole_verdicts(content: object) -> dict[str, Any]:
    """A summary's content in which each verdict can be read."""
    if not isinstance(content, dict):
        return {}
    verdicts = content.get("verdicts")
    rows = [row for row in verdicts if isinstance(row, dict)] if isinstance(verdicts, list) else []
    return {**content, "verdicts": [_whole_verdict(row) for row in rows]}


def _whole_verdict(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a verdict whatever it lacks; without a known status it counts as not judged."""
    names = ("rule", "found", "required", "why")
    texts = {name: "" if verdict.get(name) is None else str(verdict[name]) for name in names}
    status = verdict.get("status")
    valid = isinstance(status, str) and status in get_args(Status)
    return {**texts, "status": status if valid else "not judged"}


# config.json


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine's description of itself; `settings`: the actual settings, in its own words."""

    name: str | None = None
    version: str | None = None
    model: str | None = None
    stand_in: bool = False
    max_model_len: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def server_settings(self) -> dict[str, Any]:
        """What servers say of theirs; empty for an engine in the suite's own process."""
        reported = self.settings.get(SERVER_SETTINGS)
        return reported if isinstance(reported, dict) else {}

    @property
    def machines(self) -> list[dict[str, Any]]:
        """The machines that its engines ran on; empty for one engine in the suite's own process."""
        machines = self.settings.get("machines")
        rows = machines if isinstance(machines, list) else []
        return [machine for machine in rows if isinstance(machine, dict)]


@dataclass(frozen=True, slots=True)
class DataFacts:
    """The data: its name, its size in samples, and a fingerprint of its content.

    `parts`: by mode, the same for separate data of that mode, if it was read.
    """

    name: str | None = None
    samples: int | None = None
    sha256: str | None = None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """The parts of config.json that are read: the settings as used, the engine, the data, the
    system."""

    suite_version: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    engine: EngineFacts | None = None
    dataset: DataFacts = field(default_factory=DataFacts)
    prompts_sha256: str | None = None
    system: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, content: object) -> Config:
        """Parse the content of a config.json; never raises."""
        return read(cls, content) or cls()
