"""Plans what a session does, and in which order, before anything runs.

Pure: turns what the user selected into steps. The suite walks them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.session.run_kind import Selection, Step, StepKey, kind_named, kind_of, run_kinds


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a session in order.

    `steps_of`: by key, the steps that make it, with the steps that prepare its engine. `needs`: by
    key, the keys that are made before it. `implicit_runs`: runs that were not selected but that
    another run needs. `selection`: what the plan follows from.
    """

    steps: tuple[Step, ...]
    steps_of: Mapping[StepKey, tuple[Step, ...]]
    needs: Mapping[StepKey, tuple[StepKey, ...]]
    implicit_runs: frozenset[StepKey] = frozenset()
    selection: Selection = field(default_factory=Selection, compare=False)

    @property
    def keys(self) -> tuple[StepKey, ...]:
        """The keys that are made, in order."""
        return tuple(self.steps_of)

    @property
    def runs(self) -> tuple[StepKey, ...]:
        """The keys of one run each, with verdicts of its own."""
        return tuple(key for key in self.keys if kind_of(key).is_run)

    @property
    def at_engine(self) -> tuple[StepKey, ...]:
        """The keys made with the engine of the runs."""
        return tuple(key for key in self.keys if kind_of(key).role == "runs")

    def family(self, key: StepKey) -> tuple[StepKey, ...]:
        """The keys whose metrics the regression gate judges together with a key's: its result's."""
        place = key.benchmark_and_scenario
        keys = (own for own in self.keys if own.benchmark_and_scenario == place)
        return tuple(own for own in keys if kind_of(own).is_compared)

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
            unknown = "not known" if estimates and step.key is not None else ""
            estimate = duration_words(estimates[step]) if step in estimates else unknown
            words = step.what if len(step.what) <= 59 else f"{step.what[:58]}…"
            lines.append(f"  {number:>3}. {words:<59} {estimate:>11}".rstrip())
        head, *rest = self.summary_lines(total_s, source, is_known=self.is_known(estimates))
        return [head, *lines, *rest]

    def is_known(self, seconds: Collection[Step]) -> bool:
        """Whether these steps are all that take long."""
        return all(step.key is None or step in seconds for step in self.steps)

    def summary_lines(
        self, total_s: float | None = None, source: str = "", *, is_known: bool = True
    ) -> list[str]:
        """The number of steps and the session's time, without the steps; see `lines`.

        `is_known`: whether that time is of all steps.
        """
        count = len(self.steps)
        about = "about" if is_known else "more than"
        total = "" if total_s is None else f", {about} {duration_words(total_s)}"
        head = f"plan: {count} step{'' if count == 1 else 's'}{total}"
        words = textwrap.wrap(f"({source})", 78) if source else []
        return [head, *(f"  {line}" for line in words)]


def duration_words(seconds: float) -> str:
    """Seconds with units: s, min and s, or h and min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def plan_session(selection: Selection) -> Plan:
    """Plan the selection."""
    at_a_rate = {key.benchmark for key in selection.keys if kind_of(key).is_at_a_rate(key)}
    selection = replace(selection, at_a_rate=tuple(sorted(at_a_rate)))
    needs = {key: kind_of(key).needs(key, selection) for key in selection.keys}
    for key in [key for before in needs.values() for key in before if key not in needs]:
        needs[key] = kind_of(key).needs(key, selection)
    implicit_runs = frozenset(needs).difference(selection.keys)
    keys = sorted(needs, key=lambda key: kind_of(key).order(key))
    preparation = _preparation(selection)
    of_kinds: dict[StepKey, Sequence[Step]] = {}
    for kind in run_kinds(key.kind for key in keys):
        of_kinds |= kind.steps([key for key in keys if key.kind == kind.name], selection)
    steps_of = {
        key: (*(preparation if kind_of(key).role == "runs" else ()), *of_kinds[key]) for key in keys
    }
    steps = dict.fromkeys(step for of_key in steps_of.values() for step in of_key)
    if selection.engine and not any(kind_of(key).role == "runs" for key in keys):
        steps = {preparation[0]: None, **steps}
    return Plan(tuple(steps), steps_of, needs, implicit_runs, selection)


def _preparation(selection: Selection) -> tuple[Step, ...]:
    """The steps before the first run: its engine, ready and measured."""
    remote = selection.remote
    steps = [Step("load", None, "connect to the endpoint" if remote else "load the engine")]
    ids = {key.benchmark for key in selection.keys} & BENCHMARKS.keys()
    if not all(kind_named(BENCHMARKS[id_].run_kind).is_probed for id_ in ids):
        return tuple(steps)
    steps += selection.of_features
    steps.append(Step("probe", None, f"probe the {'endpoint' if remote else 'engine'}'s speed"))
    return (*steps, *selection.of_engine)
