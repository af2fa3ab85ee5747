"""The rules by name: how a function becomes a rule, which rules apply to a run, and their verdicts.

To add a rule, write one function under `@rule` in the module of its subject; nothing else changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.rules.facts import Division, RunFacts
from mlperf_suite.rules.verdict import Verdict

Check = Callable[[RunFacts], Verdict]
Shortens = bool | Callable[[RunFacts], bool]
"""Whether smoke relaxes a rule: always, never, or for the runs that the function accepts."""

SERVER = ("Server", "Interactive")
ONE_BY_ONE = (*SERVER, "SingleStream")
EVERY_SCENARIO = ("Offline", *ONE_BY_ONE)
CLOSED: tuple[Division, ...] = ("closed",)
EVERY_DIVISION: tuple[Division, ...] = ("closed", "open")


@dataclass(frozen=True, slots=True)
class Rule:
    """A named check, and the runs that it applies to.

    `shortens`: smoke relaxes it. `metric`: the accuracy figure that it gates; it applies only to
    benchmarks judged by that figure. `submitted_only`: it reads what only a submission has.
    `session_only`: it needs what only the running session knows. `same_samples`: it compares
    answers with those of the accuracy run, so it applies only to benchmarks whose accuracy run has
    the same samples as the others.
    """

    name: str
    mode: Mode | None
    check: Callable[..., Any]
    scenarios: tuple[str, ...]
    divisions: tuple[Division, ...]
    shortens: Shortens
    metric: str | None
    submitted_only: bool
    session_only: bool
    same_samples: bool
    source: str = ""
    official: bool = True
    fix: str = ""

    @property
    def sentence(self) -> str:
        """What the rule demands, in one sentence."""
        first, _, _ = (self.check.__doc__ or "").strip().partition("\n\n")
        return " ".join(first.split())

    def holds_for(
        self,
        benchmark: Benchmark,
        scenario: Scenario,
        division: Division,
        submitted: bool,
        in_session: bool,
    ) -> bool:
        return (
            scenario.name in self.scenarios
            and division in self.divisions
            and (submitted or not self.submitted_only)
            and (in_session or not self.session_only)
            and (not self.same_samples or benchmark.accuracy_samples is None)
            and (self.metric is None or self.metric in benchmark.metrics)
            # Logs in a folder TEST06 are judged as TEST06, whatever their benchmark.
            and (self.mode not in AUDIT_MODES[1:] or benchmark.audit(self.mode) is not None)
        )

    def judge(self, run: RunFacts) -> Verdict:
        found: Verdict = replace(self.check(run), rule=self.name)
        if found.status == "failed" and self._may_be_shortened(run):
            return replace(found, status="shortened", why="shortened for smoke")
        return found

    def _may_be_shortened(self, run: RunFacts) -> bool:
        return run.smoke and (self.shortens(run) if callable(self.shortens) else self.shortens)


RULES: list[Rule] = []
"""The rules of runs, in the order in which they are reported."""
_NAMED: dict[str, Rule] = {}
"""Every rule by the name that its verdicts have."""
_LATER_RUN = re.compile(r"run_\d+-")
"""What stands before the rule's name in verdicts on a submission's second run and later ones."""


def rule(
    mode: Mode,
    scenarios: tuple[str, ...] = EVERY_SCENARIO,
    *,
    divisions: tuple[Division, ...] = EVERY_DIVISION,
    shortens: Shortens = False,
    metric: str | None = None,
    submitted_only: bool = False,
    session_only: bool = False,
    same_samples: bool = False,
) -> Callable[[Check], Check]:
    """Register a function as the rule of its name."""

    def register(check: Check) -> Check:
        one = Rule(
            check.__name__,
            mode,
            check,
            scenarios,
            divisions,
            shortens,
            metric,
            submitted_only,
            session_only,
            same_samples,
        )
        RULES.append(one)
        _NAMED[one.name] = one
        return check

    return register


def rule_named(name: str) -> Rule | None:
    """The rule that a verdict's name stands for; None if there is none of that name."""
    run = _LATER_RUN.match(name)
    return _NAMED.get(name[run.end() :] if run else name)


def rule_name(check: Callable[..., Any], mode: str) -> str:
    """The name of a function's verdicts on runs of a mode: the mode's prefix, then its own name."""
    prefix = "" if mode == "performance" else f"{mode}_"
    name = str(check.__name__)
    return name if name.startswith(prefix) else prefix + name


def register_elsewhere(name: str, check: Callable[..., Any]) -> None:
    """Make a rule known by its name that is not a rule of a run's log."""
    _NAMED[name] = Rule(name, None, check, (), (), False, None, False, False, False)


def rule_of(check: Check) -> Rule:
    """The rule that a function implements. Raises KeyError if there is none."""
    for one in RULES:
        if one.name == check.__name__:
            return one
    raise KeyError(f"{check.__name__} is no rule")


def rules_for(
    benchmark: Benchmark,
    scenario: Scenario,
    mode: Mode,
    division: Division = "closed",
    *,
    submitted: bool = False,
    in_session: bool = True,
) -> list[Rule]:
    """The rules of a run, in the order in which they are reported."""
    return [
        r
        for r in RULES
        if r.mode == mode and r.holds_for(benchmark, scenario, division, submitted, in_session)
    ]


def judge(run: RunFacts) -> list[Verdict]:
    """Apply every rule that applies to the run."""
    rules = rules_for(
        run.benchmark,
        run.scenario,
        run.mode,
        run.division,
        submitted=run.submitted is not None,
        in_session=run.departures is not None,
    )
    return [r.judge(run) for r in rules]


def accuracy_verdict(verdicts: Sequence[Verdict]) -> bool | None:
    """Whether an accuracy run's verdicts amount to a pass; None if a rule was not judged."""
    if any(v.status == "failed" for v in verdicts):
        return False
    return None if any(v.status == "not judged" for v in verdicts) else True
