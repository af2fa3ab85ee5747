"""Plans what a session does, and in which order, before anything runs.

Pure: turns what the user selected into steps. The suite walks them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import CURVE
from mlperf_suite.client_results.client_benchmarks import ClientRunKey
from mlperf_suite.loadgen.load_plan import CACHING, COMPARED, MODES, RunKey
from mlperf_suite.rules.caching_figures import LOOKS

Place = tuple[str, str]
"""A benchmark's id and a scenario's name."""


@dataclass(frozen=True, slots=True)
class SearchKey:
    """The search for the highest valid rate of one scenario."""

    benchmark: str
    scenario: str

    @property
    def place(self) -> Place:
        return self.benchmark, self.scenario

    def __str__(self) -> str:
        return f"{self.benchmark} {self.scenario} peak search"


@dataclass(frozen=True, slots=True)
class CurveKey:
    """A benchmark's curve over fixed concurrencies."""

    benchmark: str
    scenario: str = CURVE

    @property
    def place(self) -> Place:
        return self.benchmark, self.scenario

    def __str__(self) -> str:
        return f"{self.benchmark} curve"


@dataclass(frozen=True, slots=True)
class MmluKey:
    """The MMLU score; a session makes one, which is of no benchmark's scenario."""

    place = None

    def __str__(self) -> str:
        return "MMLU"


MMLU = MmluKey()
StepKey = RunKey | ClientRunKey | SearchKey | CurveKey | MmluKey
Role = Literal["runs", "scoring"]
"""What an engine is loaded for. Scores may use a prefix cache and runs may not, so each role has
its own engine, one after the other."""
Kind = Literal[
    "load",
    "idle power",
    "probe",
    "scaling",
    "rate",
    "warm-up",
    "run",
    "client run",
    "search",
    "points",
    "blocks",
    "mmlu",
]
"""`rate`: a few prompts that measure the rate to plan a run for, if no accuracy run does.
`client run`: one of the official client. `points`: those of a curve. `blocks`: those of the caching
audit. Searches, curves and the audit decide their runs as they go."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `key`: what it is part of and tests ask for; None for what prepares the engine of
    the runs.

    `number`: which of several runs of the same key it is, counted from 1.
    """

    kind: Kind
    key: StepKey | None
    what: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Selection:
    """What the user selected, and what is known of the session.

    `scored`: the runs of the official client whose accuracy is judged as well.
    `repeat`: how often each performance run is made. `warm_up`: whether one precedes each run;
    `warm_up_once`: only the first of each scenario, since the runs keep the engine warm.
    `rates_known`: the ids of the benchmarks whose target QPS for Server is known without an Offline
    run of this session; for the others, that run is planned too. `offline_rate_given`: whether the
    user gave the rate that Offline is expected to reach. `no_rate`: the places whose accuracy run
    failed, so that it shows no rate. `profiled`: whether selected runs are made under a profiler,
    at a rate that says nothing. `remote`: whether the engine is an endpoint. `idle_power`: whether
    energy is measured. `scaling`: whether one replica is compared with all.
    `engine`: whether a test asks for the engine itself, which is then loaded without any run.
    """

    runs: Collection[RunKey] = ()
    searches: Collection[SearchKey] = ()
    curves: Collection[CurveKey] = ()
    client_runs: Collection[ClientRunKey] = ()
    scored: Collection[ClientRunKey] = ()
    mmlu: bool = False
    repeat: int = 1
    warm_up: bool = True
    warm_up_once: bool = False
    rates_known: Collection[str] = ()
    offline_rate_given: bool = False
    no_rate: Collection[Place] = ()
    profiled: bool = False
    remote: bool = False
    idle_power: bool = False
    scaling: bool = False
    engine: bool = False

    @property
    def at_engine(self) -> tuple[RunKey | ClientRunKey | SearchKey | CurveKey, ...]:
        """What is made with the engine of the runs."""
        return (*self.runs, *self.client_runs, *self.searches, *self.curves)


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a session in order.

    `steps_of`: by key, the steps that make it, those that prepare its engine included. `needs`: by
    key, the keys that are made before it. `unasked`: runs that were not selected but that another
    run needs. `selection`: what the plan follows from.
    """

    steps: tuple[Step, ...]
    steps_of: Mapping[StepKey, tuple[Step, ...]]
    needs: Mapping[StepKey, tuple[StepKey, ...]]
    unasked: frozenset[StepKey] = frozenset()
    selection: Selection = field(default_factory=Selection, compare=False)

    @property
    def keys(self) -> tuple[StepKey, ...]:
        """The keys that are made, in order."""
        return tuple(self.steps_of)

    @property
    def runs(self) -> tuple[RunKey, ...]:
        """The LoadGen runs among them."""
        return tuple(key for key in self.keys if isinstance(key, RunKey))

    def order_of(self, key: StepKey | None) -> int:
        """The position of a key among the steps, to sort tests by; unknown keys come last."""
        keys: Sequence[StepKey | None] = self.keys
        return keys.index(key) if key in keys else len(keys)

    def lines(
        self,
        seconds: Mapping[Step, float] | None = None,
        source: str = "",
        total_s: float | None = None,
    ) -> list[str]:
        """The plan as text, at most 80 columns wide.

        `seconds`: how long each step is expected to take. `source`: that of the estimate.
        `total_s`: of the session, None if it was said before.
        """
        estimates = seconds or {}
        lines = []
        for number, step in enumerate(self.steps, 1):
            estimate = clock(estimates[step]) if step in estimates else ""
            words = step.what if len(step.what) <= 62 else f"{step.what[:61]}…"
            lines.append(f"  {number:>3}. {words:<62} {estimate:>8}".rstrip())
        head, *rest = self.summary_lines(total_s, source)
        return [head, *lines, *rest]

    def summary_lines(self, total_s: float | None = None, source: str = "") -> list[str]:
        """The number of steps and the session's time, without the steps; see `lines`."""
        count = len(self.steps)
        total = "" if total_s is None else f", about {clock(total_s)}"
        head = f"plan: {count} step{'' if count == 1 else 's'}{total}"
        words = textwrap.wrap(f"({source})", 78) if source else []
        return [head, *(f"  {line}" for line in words)]


def clock(seconds: float) -> str:
    """Seconds as m:ss, or h:mm:ss."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plan_session(selection: Selection) -> Plan:
    """Plan what was selected."""
    needs = _needs(selection)
    searches = sorted(selection.searches, key=lambda s: (_benchmark_order(s.benchmark), s.scenario))
    keys = sorted((key for key in needs if isinstance(key, RunKey)), key=_order)
    preparation, rates = _preparation(selection), _rate_steps(selection, needs)
    first = {key.place: key for key in reversed(keys) if key.mode != CACHING}
    steps_of: dict[StepKey, tuple[Step, ...]] = {}
    for key in keys:
        rate = rates.get(key.place)
        at_rate = rate is not None and (rate.key == key or sized_by_rate(key, selection))
        before = [rate] if rate is not None and at_rate else []
        is_first = first.get(key.place) == key
        steps_of[key] = (*preparation, *before, *_steps_of_run(key, selection, is_first))
    by_client = (key for key in needs if isinstance(key, ClientRunKey))
    for client_run in sorted(by_client, key=_client_order):
        why = "" if client_run in selection.client_runs else " (for Server's rate)"
        step = Step("client run", client_run, f"{client_run}{why}")
        steps_of[client_run] = (*preparation, step)
    for search in searches:
        steps_of[search] = (*preparation, Step("search", search, f"{search}: at most 16 runs"))
    for curve in selection.curves:
        steps_of[curve] = (*preparation, Step("points", curve, f"{curve}: points, one by one"))
    if selection.mmlu:
        steps_of[MMLU] = _steps_of_mmlu(selection)
        needs[MMLU] = ()
    steps = dict.fromkeys(step for of_key in steps_of.values() for step in of_key)
    if selection.engine and not selection.at_engine:
        steps = {preparation[0]: None, **steps}
    selected = (*selection.runs, *selection.client_runs)
    unasked = frozenset(k for k in needs if isinstance(k, RunKey | ClientRunKey)).difference(
        selected
    )
    return Plan(tuple(steps), steps_of, needs, unasked, selection)


def _needs(selection: Selection) -> dict[StepKey, tuple[StepKey, ...]]:
    """The runs and searches to make, the unasked ones last, each with the runs before it."""
    runs = set(selection.runs)
    needs: dict[StepKey, tuple[StepKey, ...]] = {}
    unasked: dict[RunKey | ClientRunKey, None] = {}
    for key in selection.at_engine:
        before = _accuracy_before(key, runs) if isinstance(key, RunKey) else ()
        if is_at_a_rate(key) and key.benchmark not in selection.rates_known:
            before = (*before, _offline_of(key))
        if isinstance(key, RunKey):
            before = (*before, *_compared_with(key))
        unasked |= dict.fromkeys(run for run in before if isinstance(run, RunKey | ClientRunKey))
        needs[key] = before
    for run in unasked:
        needs.setdefault(run, _accuracy_before(run, runs) if isinstance(run, RunKey) else ())
    return needs


def _compared_with(key: RunKey) -> tuple[RunKey, ...]:
    """The runs whose answers and rate an audit is compared with, if it is such an audit."""
    audit = BENCHMARKS[key.benchmark].audit(key.mode)
    if audit is None or not audit.compares:
        return ()
    accuracy, performance = (replace(key, mode=mode) for mode in COMPARED)
    return accuracy, performance


def _offline_of(key: RunKey | ClientRunKey | SearchKey | CurveKey) -> RunKey | ClientRunKey:
    """The Offline run whose rate a run at a rate takes."""
    if isinstance(key, ClientRunKey):
        return ClientRunKey(key.benchmark, "Offline")
    return RunKey(key.benchmark, "Offline", "performance")


def _accuracy_before(key: RunKey, runs: Collection[RunKey]) -> tuple[StepKey, ...]:
    """The accuracy run that a performance run follows, if it was selected."""
    accuracy = RunKey(key.benchmark, key.scenario, "accuracy")
    return (accuracy,) if key.mode == "performance" and accuracy in runs else ()


def _preparation(selection: Selection) -> tuple[Step, ...]:
    """What comes before the first run: its engine, ready and measured."""
    remote = selection.remote
    steps = [Step("load", None, "connect to the endpoint" if remote else "load the engine")]
    if any(BENCHMARKS[key.benchmark].chats for key in selection.at_engine):
        return tuple(steps)
    if selection.idle_power:
        steps.append(Step("idle power", None, "idle power, before any work"))
    steps.append(Step("probe", None, f"probe the {'endpoint' if remote else 'engine'}'s speed"))
    if selection.scaling:
        steps.append(Step("scaling", None, "pairs of one replica alone and all of them"))
    return tuple(steps)


def _rate_steps(selection: Selection, needs: Collection[StepKey]) -> dict[Place, Step]:
    """By place, the step that measures the rate which no accuracy run shows."""
    runs = sorted((key for key in needs if isinstance(key, RunKey)), key=_order)
    steps: dict[Place, Step] = {}
    for key in runs:
        place = key.place
        has_rate = (
            RunKey(*place, "accuracy") in runs
            and BENCHMARKS[key.benchmark].accuracy_samples is None
            and place not in selection.no_rate
        )
        sized = sized_by_rate(key, selection) and not has_rate
        if place not in steps and (sized or _gives_server_no_rate(key, selection)):
            steps[place] = Step("rate", key, f"{key}: rate to plan for")
    return steps


def _gives_server_no_rate(key: RunKey, selection: Selection) -> bool:
    """Whether a run is the Offline run that Server needs, but made under the profiler, which slows
    it down."""
    offline = key == RunKey(key.benchmark, "Offline", "performance")
    if not (selection.profiled and offline and key in selection.runs):
        return False
    keys = (k for k in selection.at_engine if k.benchmark == key.benchmark)
    at_a_rate = any(is_at_a_rate(k) for k in keys)
    return at_a_rate and key.benchmark not in selection.rates_known


_OF_CHATS = {"performance": "recorded conversations", "accuracy": "function calls"}


def _steps_of_run(key: RunKey, selection: Selection, is_first: bool) -> list[Step]:
    if key.mode == CACHING:
        # The audit's first pair of blocks is its warm-up.
        words = f"{key.benchmark} caching audit: {LOOKS[0]} to {LOOKS[-1]} pairs of blocks"
        return [Step("blocks", key, words)]
    if BENCHMARKS[key.benchmark].chats:
        # Nothing is sent before the first turn: every request counts.
        return [Step("run", key, f"{key}: {_OF_CHATS[key.mode]}")]
    repeat = selection.repeat if key.mode == "performance" else 1
    compared = any(key in _compared_with(run) for run in selection.runs)
    why = " (to compare an audit with)" if compared else " (for Server's rate)"
    why = "" if key in selection.runs else why
    steps = []
    for number in range(1, repeat + 1):
        again = f", run {number} of {repeat}" if repeat > 1 else ""
        if selection.warm_up and ((is_first and number == 1) or not selection.warm_up_once):
            steps.append(Step("warm-up", key, f"{key}{again}: warm-up", number))
        steps.append(Step("run", key, f"{key}{again}{why}", number))
    return steps


def _steps_of_mmlu(selection: Selection) -> tuple[Step, ...]:
    engine = "load the engine for MMLU, with a prefix cache"
    words = "connect to the endpoint for MMLU" if selection.remote else engine
    return Step("load", MMLU, words), Step("mmlu", MMLU, "MMLU through lm-eval")


def sized_by_rate(key: RunKey, selection: Selection) -> bool:
    """Whether LoadGen derives the length of a run from the expected rate of the engine."""
    benchmark = BENCHMARKS[key.benchmark]
    kind = benchmark.scenario(key.scenario).loadgen_scenario
    if benchmark.chats or key.mode in ("accuracy", CACHING):
        return False
    if kind == "Offline" and selection.offline_rate_given:
        return False
    return kind in ("Offline", "SingleStream")


def is_at_a_rate(key: RunKey | ClientRunKey | SearchKey | CurveKey) -> bool:
    """Whether the queries of such a run are sent at a rate, as in Server."""
    if isinstance(key, CurveKey):
        return False
    return BENCHMARKS[key.benchmark].scenario(key.scenario).loadgen_scenario == "Server"


def _benchmark_order(benchmark: str) -> int:
    return list(BENCHMARKS).index(benchmark)


def _client_order(key: ClientRunKey) -> tuple[int, int]:
    names = [scenario.name for scenario in BENCHMARKS[key.benchmark].every_scenario]
    return _benchmark_order(key.benchmark), names.index(key.scenario)


def _order(key: RunKey) -> tuple[int, int, int]:
    """Sort by benchmark, then scenario: Offline first, since Server needs its rate."""
    names = [scenario.name for scenario in BENCHMARKS[key.benchmark].every_scenario]
    return (_benchmark_order(key.benchmark), names.index(key.scenario), MODES.index(key.mode))
