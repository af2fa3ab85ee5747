"""What a kind of run is: its keys, the steps that make one, their times, and its part of a result.

LoadGen's runs and those of features are such kinds; `kind_named` finds them. What a session does
for a key (select, plan, estimate, make, record) it does by asking the key's kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import LOADGEN, Benchmark
from mlperf_suite.feature import features
from mlperf_suite.session.companion import profile_of

if TYPE_CHECKING:
    from mlperf_suite.rules.verdict import Verdict
    from mlperf_suite.settings import Settings

BenchmarkAndScenario = tuple[str, str]
"""What a result is of: a benchmark's id and a scenario's name."""
Role = Literal["runs", "scoring"]
"""What an engine is loaded for. Scores may use a prefix cache and runs may not, so each role has
its own engine, one after the other."""


class StepKey(Protocol):
    """What tests ask a session for. `kind`: the name of its `RunKind`.

    `mode`: whose options select it; of several runs together, the mode of the runs that it makes.
    """

    kind: ClassVar[str]

    @property
    def benchmark(self) -> str: ...
    @property
    def scenario(self) -> str: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def benchmark_and_scenario(self) -> BenchmarkAndScenario: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `key`: the `StepKey` that it is part of and tests ask for; None for what prepares
    the engine of the runs. `kind`: a word for what it does, which its kind of run knows.

    `number`: which of several runs of the same key it is, counted from 1.
    """

    kind: str
    key: Any
    what: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The user's selection, and the facts of the session.

    `keys`: what tests ask for. `scored`: those of which a test judges the accuracy.
    `repeat`: how often each performance run is made. `warm_up`: whether one precedes each run;
    `warm_up_once`: only the first of each scenario, since the runs keep the engine warm.
    `rates_known`: the ids of the benchmarks whose target QPS for Server is known without an Offline
    run of this session; for the others, that run is planned too. `at_a_rate`: the ids of those of
    which something is sent at a rate; the plan fills it in. `offline_rate_given`: whether the
    user gave the rate that Offline is expected to reach. `no_rate`: the places whose accuracy run
    failed, so that it shows no rate. `profiled`: whether selected runs are made under a profiler,
    at a rate that says nothing. `remote`: whether the engine is an endpoint. `of_features`: steps
    of features before the engine's first work. `of_engine`: other measurements of the engine,
    see `EngineSource.steps`.
    `engine`: whether a test asks for the engine itself, which is then loaded without any run.
    """

    keys: Collection[StepKey] = ()
    scored: Collection[StepKey] = ()
    repeat: int = 1
    warm_up: bool = True
    warm_up_once: bool = False
    rates_known: Collection[str] = ()
    at_a_rate: Collection[str] = ()
    offline_rate_given: bool = False
    no_rate: Collection[BenchmarkAndScenario] = ()
    profiled: bool = False
    remote: bool = False
    of_features: Sequence[Step] = ()
    of_engine: tuple[Step, ...] = ()
    engine: bool = False


@dataclass(frozen=True, slots=True)
class NoCase:
    """Why a test does not run: the `kind` of test (singular, plural) and `why`."""

    kind: tuple[str, str]
    why: str


TEST = ("test", "tests")
OTHER_BENCHMARK = "a rule of another benchmark only"
"""Why a test without a case here is not even counted as left out: no option would add it."""


def why_not_ours(settings: Settings) -> NoCase | None:
    """Which option leaves out all but its own kinds of runs."""
    return NoCase(TEST, settings.own_runs) if settings.own_runs else None


class Maker(Protocol):
    """Makes the steps of a kind in one session."""

    def make(self, step: Step, result: Any) -> object:
        """Make a step of a result, and return what it measured. Raises SuiteError or OSError."""


Key = TypeVar("Key", bound=StepKey)


class RunKind(Generic[Key]):
    """A kind of run. `rank`: its place among the kinds, in the order in which runs are made.

    `role`: the engine that it needs. `is_run`: whether a key is a run with verdicts of its own.
    `is_compared`: whether the regression gate compares it with a baseline. `is_probed`: whether the
    speed of the engine is measured before runs of its benchmarks. `long_steps`: those of which a
    log tells when they begin. `session` is a `SessionParts`, `estimator` an `Estimator`, `sizing` a
    `RunSizing`, `recorder` a `Recorder`, `result` what `result` returned: none of them is imported
    here, since all of them ask kinds.
    """

    name: ClassVar[str]
    rank: ClassVar[int]
    role: ClassVar[Role] = "runs"
    is_run: ClassVar[bool] = False
    is_compared: ClassVar[bool] = True
    is_probed: ClassVar[bool] = True
    long_steps: ClassVar[Collection[str]] = ()

    # What tests ask for

    def why_not(self, key: Key, settings: Settings) -> NoCase | None:
        """Which option leaves a key out besides its benchmark's, scenario's and mode's."""
        if profile_of(settings) is not None and key.mode != "performance":
            return NoCase(TEST, "--profile-run makes performance runs")
        return why_not_ours(settings)

    def fault(
        self, own: Sequence[Key], every: Sequence[StepKey], given: Callable[[str], Any]
    ) -> str | None:
        """Why a selection cannot be made: an option that does nothing, keys that exclude others.

        `own`: the selected keys of this kind. `given`: an option's value on the command line.
        """
        return None

    def key_of(self, benchmark: Benchmark, scenario: str, mode: Mode) -> Key | None:
        """The key of a benchmark's run in a mode; None if this kind does not make it."""
        return None

    def subject(self, key: Key) -> str:
        """The subject of the rules that judge a key; see `Rule`."""
        return key.mode

    # The plan

    def order(self, key: Key) -> tuple[Any, ...]:
        """Sorts the keys of a session; keys of one rank compare the same types."""
        scenarios = [scenario.name for scenario in BENCHMARKS[key.benchmark].every_scenario]
        place = scenarios.index(key.scenario) if key.scenario in scenarios else len(scenarios)
        return self.rank, list(BENCHMARKS).index(key.benchmark), place

    def is_at_a_rate(self, key: Key) -> bool:
        """Whether the queries of a key are sent at a rate, as in Server."""
        scenario = BENCHMARKS[key.benchmark].scenario(key.scenario)
        return scenario.loadgen_scenario == "Server"

    def needs(self, key: Key, selection: Selection) -> tuple[StepKey, ...]:
        """The keys that are made before this one, also if no test asks for them."""
        return ()

    def steps(self, keys: Sequence[Key], selection: Selection) -> Mapping[Key, Sequence[Step]]:
        """The steps of each key, without the preparation of the runs' engine."""
        raise NotImplementedError

    def modes(self, key: Key, selection: Selection) -> set[Mode]:
        """The modes of its result that a key makes."""
        return set()

    # Times

    def seconds(self, step: Step, key: Key, estimator: Any) -> float | None:
        """How long a step takes; None if that is not known."""
        return None

    def knows_seconds(self, step: Step) -> bool:
        """Whether the time of a step is known before the speed of an engine is."""
        return False

    def least_s(self, key: Key) -> float:
        """How long a run of an official session lasts at least."""
        return 0.0

    def learn(self, step: Step, outcome: object, sizing: Any) -> None:
        """Take up the rates that a step measured."""

    def missed(self, key: Key, sizing: Any) -> None:
        """A key failed, so that it shows no rate."""

    # The steps

    def check_engine(self, benchmark: Benchmark, settings: Settings) -> None:
        """Raise UsageError for an engine on which this kind makes no runs of a benchmark of its
        own."""

    def engine(self, inputs: Any, request: Any) -> Any:
        """The engine of this kind's benchmarks, an `Engine`, loaded for an `EngineRequest`; None
        for the one that the settings ask for. Raises SuiteError."""
        return None

    def inputs(self, settings: Settings) -> Any:
        """What keys read besides samples; read once, on demand. Raises UsageError."""

    def meta(self, key: Key, session: Any) -> dict[str, Any]:
        """What the `meta` of a key's summary says of its data, known before it is made. `session`
        is a `Session`."""
        settings = session.settings
        return {
            "dataset": settings.dataset,
            "samples": session.samples(*key.benchmark_and_scenario),
            "max_new_tokens": settings.max_new_tokens,
        }

    def check(self, keys: Sequence[Key], session: Any) -> None:
        """Check the keys for obstacles, before anything slow begins. Raises UsageError."""

    def check_context(self, keys: Sequence[Key], inputs: Any, context: int) -> None:
        """Raise UsageError for a prompt that does not fit a server's context, in tokens."""

    def maker(self, session: Any) -> Maker:
        """The maker of the steps in a session."""
        raise NotImplementedError

    # The result

    def result(self, key: Key, recorder: Any, started: datetime) -> Any:
        """The result that a key is part of, when its first key begins."""
        return recorder.new_result(key.benchmark_and_scenario, started)

    def begin(self, key: Key, result: Any) -> None:
        """Begin the part of a key in its result."""

    def record(self, step: Step, outcome: object, result: Any) -> None:
        """Take up what a step returned."""

    def end(self, key: Key, result: Any, failure: str | None) -> None:
        """Keep why the key failed, or None."""

    def verdicts(self, key: Key, result: Any) -> list[Verdict]:
        """The verdicts on what a key made."""
        return []

    def replaces_others(self, result: Any) -> bool:
        """Whether a result that ended takes the place of earlier ones of its system."""
        return True

    def write(self, recorder: Any, result: Any) -> None:
        """Write the files of a result besides its summary. Raises OSError."""
        recorder.write_runs(result)

    def summary(self, recorder: Any, result: Any) -> Any:
        """The summary of a result so far."""
        return recorder.runs_summary(result)


class OfOneRun(RunKind[Key]):
    """A kind whose key is one run of a result, in a mode of its own."""

    is_run = True

    def modes(self, key: Key, selection: Selection) -> set[Mode]:
        return {key.mode}

    def begin(self, key: Key, result: Any) -> None:
        from mlperf_suite.results.record import RunRecord

        result.runs[key.mode] = RunRecord()

    def end(self, key: Key, result: Any, failure: str | None) -> None:
        result.runs[key.mode].failure = failure

    def verdicts(self, key: Key, result: Any) -> list[Verdict]:
        record = result.runs.get(key.mode)
        return record.verdicts if record else []


class OfOnePart(RunKind[Key]):
    """A kind whose key is a `ResultPart` of its own, under the name of the kind."""

    def part(self) -> Any:
        """The part before its first step."""
        raise NotImplementedError

    def begin(self, key: Key, result: Any) -> None:
        result.parts[self.name] = self.part()

    def end(self, key: Key, result: Any, failure: str | None) -> None:
        result.parts[self.name].failure = failure


_OF_THE_CORE = "mlperf_suite.session.loadgen_kind"
"""The module of its `KIND`. Named, not imported: it asks for kinds itself."""


@cache
def _modules() -> Mapping[str, str]:
    of_features = {name: place for of in features() for name, place in of.kinds.items()}
    return {LOADGEN: _OF_THE_CORE, **of_features}


@cache
def kind_named(name: str) -> RunKind[Any]:
    """The core's kind or that of a feature, imported when it is first asked for."""
    kind: RunKind[Any] = import_module(_modules()[name]).KIND
    return kind


def run_kinds(names: Iterable[str] | None = None) -> list[RunKind[Any]]:
    """The kinds of these names, or every kind, in the order of their runs."""
    kinds = map(kind_named, _modules() if names is None else dict.fromkeys(names))
    return sorted(kinds, key=lambda kind: kind.rank)


def kind_of(key: StepKey) -> RunKind[Any]:
    """The kind of a key."""
    return kind_named(key.kind)
