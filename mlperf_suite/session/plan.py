"""Plans what a session does, and in which order, before anything runs.

Pure: turns what the user selected into steps. The executor carries them out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.loadgen.load_plan import CACHING, MODES
from mlperf_suite.results.record import RunKey
from mlperf_suite.rules.caching_figures import LOOKS


@dataclass(frozen=True, slots=True)
class SearchKey:
    """The search for the highest valid rate of one scenario."""

    benchmark: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.benchmark} {self.scenario} peak search"


@dataclass(frozen=True, slots=True)
class MmluKey:
    """The MMLU score; a session makes one."""

    def __str__(self) -> str:
        return "MMLU"


MMLU = MmluKey()
StepKey = RunKey | SearchKey | MmluKey
Role = Literal["runs", "scoring"]
"""What an engine is loaded for. Scores may use a prefix cache and runs may not, so each role has
its own engine, one after the other."""
Kind = Literal["load", "rate", "warm-up", "run", "search", "mmlu"]
"""`rate`: a few prompts that measure the rate to plan a run for, if no accuracy run does."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `key`: what it is part of and tests ask for; None for loading an engine.

    `number`: which of several runs of the same key it is, counted from 1.
    """

    kind: Kind
    key: StepKey | None
    what: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a session in order.

    `needs`: by key, the keys that are made before it. `unasked`: runs that were not selected but
    that another run needs.
    """

    steps: tuple[Step, ...]
    needs: Mapping[StepKey, tuple[StepKey, ...]]
    unasked: frozenset[StepKey] = frozenset()

    @property
    def keys(self) -> tuple[StepKey, ...]:
        """The keys that are made, in order."""
        return tuple(dict.fromkeys(step.key for step in self.steps if step.key is not None))

    @property
    def runs(self) -> tuple[RunKey, ...]:
        """The LoadGen runs among them."""
        return tuple(key for key in self.keys if isinstance(key, RunKey))

    def order_of(self, key: StepKey | None) -> int:
        """The position of a key among the steps, to sort tests by; unknown keys come last."""
        keys: Sequence[StepKey | None] = self.keys
        return keys.index(key) if key in keys else len(keys)

    def lines(self, seconds: Mapping[Step, float] | None = None, said: str = "") -> list[str]:
        """The plan as text, at most 80 columns wide.

        `seconds`: how long each step is expected to take. `said`: the source of the estimate.
        """
        found = seconds or {}
        lines = []
        for number, step in enumerate(self.steps, 1):
            expected = clock(found[step]) if step in found else ""
            words = step.what if len(step.what) <= 62 else f"{step.what[:61]}…"
            lines.append(f"  {number:>3}. {words:<62} {expected:>8}".rstrip())
        head, *rest = self.summary_lines(seconds, said)
        return [head, *lines, *rest]

    def summary_lines(
        self, seconds: Mapping[Step, float] | None = None, said: str = ""
    ) -> list[str]:
        """The number of steps and their total time, without the steps; see `lines`."""
        count = len(self.steps)
        total = f", about {clock(sum(seconds.values()))}" if seconds else ""
        head = f"plan: {count} step{'' if count == 1 else 's'}{total}"
        words = textwrap.wrap(f"({said})", 78) if said else []
        return [head, *(f"  {line}" for line in words)]


def clock(seconds: float) -> str:
    """Seconds as m:ss, or h:mm:ss."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def plan_session(
    wanted: Iterable[RunKey],
    searches: Iterable[SearchKey] = (),
    *,
    mmlu: bool = False,
    repeat: int = 1,
    warm_up: bool = True,
    rate_known: Mapping[str, bool] | None = None,
    offline_rate_given: bool = False,
    remote: bool = False,
    engine: bool = False,
) -> Plan:
    """Plan what was selected.

    `repeat`: how often each performance run is made. `warm_up`: whether one precedes each run.
    `rate_known`: by benchmark id, whether Server's target QPS is known without an Offline run of
    this session; if not, that run is planned too. `offline_rate_given`: whether the user gave the
    rate that Offline is expected to reach. `remote`: whether the engine is an endpoint.
    `engine`: whether a test asks for the engine itself, which is then loaded without any run.
    """
    asked, known = set(wanted), rate_known or {}
    found = list(searches)
    needs: dict[StepKey, tuple[StepKey, ...]] = {}
    keys: set[RunKey] = set(asked)
    selected: list[RunKey | SearchKey] = [*asked, *found]
    for key in selected:
        before: list[StepKey] = []
        if isinstance(key, RunKey) and key.mode == "performance":
            accuracy = RunKey(key.benchmark, key.scenario, "accuracy")
            before += [accuracy] if accuracy in asked else []
        if _is_at_a_rate(key.benchmark, key.scenario) and not known.get(key.benchmark, False):
            offline = RunKey(key.benchmark, "Offline", "performance")
            before.append(offline)
            keys.add(offline)
        needs[key] = tuple(before)
    for unasked in keys - asked:
        accuracy = RunKey(unasked.benchmark, unasked.scenario, "accuracy")
        needs[unasked] = (accuracy,) if accuracy in asked else ()
    steps: list[Step] = []
    if keys or found or engine:
        what = "connect to the endpoint" if remote else "load the engine"
        steps.append(Step("load", None, what))
    rated: set[tuple[str, str]] = set()
    for run in sorted(keys, key=_order):
        why = "" if run in asked else " (for Server's rate)"
        place = (run.benchmark, run.scenario)
        if sized_by_rate(run, offline_rate_given=offline_rate_given) and place not in rated:
            rated.add(place)
            shown = RunKey(*place, "accuracy") in keys
            if not shown or BENCHMARKS[run.benchmark].accuracy_samples is not None:
                steps.append(Step("rate", run, f"{run}: rate to plan for"))
        steps += _steps_of_run(run, repeat, warm_up, why)
    for search in sorted(found, key=lambda s: (_benchmark_order(s.benchmark), s.scenario)):
        steps.append(Step("search", search, f"{search}: at most 16 runs"))
    if mmlu:
        what = "load the engine for MMLU, with a prefix cache"
        what = "connect to the endpoint for MMLU" if remote else what
        steps.append(Step("load", None, what, 2))
        steps.append(Step("mmlu", MMLU, "MMLU through lm-eval"))
        needs[MMLU] = ()
    return Plan(tuple(steps), needs, frozenset(keys - asked))


def _steps_of_run(key: RunKey, repeat: int, warm_up: bool, why: str) -> list[Step]:
    if key.mode == CACHING:
        # The audit's first pair of blocks is its warm-up.
        what = f"{key.benchmark} caching audit: {LOOKS[0]} to {LOOKS[-1]} pairs of blocks"
        return [Step("run", key, what)]
    steps = []
    for number in range(1, (repeat if key.mode == "performance" else 1) + 1):
        again = f", run {number} of {repeat}" if repeat > 1 and key.mode == "performance" else ""
        if warm_up:
            steps.append(Step("warm-up", key, f"{key}{again}: warm-up", number))
        steps.append(Step("run", key, f"{key}{again}{why}", number))
    return steps


def sized_by_rate(key: RunKey, *, offline_rate_given: bool) -> bool:
    """Whether LoadGen derives the length of a run from the expected rate of the engine."""
    kind = BENCHMARKS[key.benchmark].scenario(key.scenario).loadgen_scenario
    if key.mode in ("accuracy", CACHING) or (kind == "Offline" and offline_rate_given):
        return False
    return kind in ("Offline", "SingleStream")


def _is_at_a_rate(benchmark: str, scenario: str) -> bool:
    return BENCHMARKS[benchmark].scenario(scenario).loadgen_scenario == "Server"


def _benchmark_order(benchmark: str) -> int:
    return list(BENCHMARKS).index(benchmark)


def _order(key: RunKey) -> tuple[int, int, int]:
    """Sort by benchmark, then scenario: Offline first, since Server needs its rate."""
    names = [scenario.name for scenario in BENCHMARKS[key.benchmark].scenarios]
    return (
        _benchmark_order(key.benchmark),
        names.index(key.scenario),
        MODES.index(key.mode),
    )
