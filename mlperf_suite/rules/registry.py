"""How a function becomes a rule, which rules apply to a run, and their verdicts.

To add a rule, write one function under `@rule` in the module of its subject; nothing else changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, TypeVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import LOADGEN, Benchmark, Scenario
from mlperf_suite.feature import features
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.rules.facts import ByIdentity, Division, Facts, RunFacts, Subject
from mlperf_suite.rules.verdict import Verdict, VerdictError, verdict

AnyCheck = TypeVar("AnyCheck", bound=Callable[[Any], Verdict])
Relaxation = bool | Callable[[Any], bool]
"""Whether smoke relaxes a rule: always, never, or for the runs that the function accepts."""

SERVER = ("Server", "Interactive")
ONE_BY_ONE = (*SERVER, "SingleStream")
EVERY_SCENARIO = ("Offline", *ONE_BY_ONE)
CLOSED: tuple[Division, ...] = ("closed",)
EVERY_DIVISION: tuple[Division, ...] = ("closed", "open")
_WITHOUT_PREFIX: tuple[Subject, ...] = ("performance", "result", "benchmark")
"""The subjects whose rules have the plain names of their functions."""
_LATER_RUN = re.compile(r"run_\d+-")
"""The prefix of the rule's name in verdicts on a submission's second run and later ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The runs that a rule applies to.

    `scenarios`, `divisions`: of the runs. `session_only`: it needs what only the running session
    knows. `submitted_only`: it reads what only a submission has. `metric`: the accuracy figure that
    it gates; it applies only to benchmarks judged by that figure. `same_samples`: it applies only
    to benchmarks whose accuracy run has the same samples as the others. `of_tokens`: it applies
    only where LoadGen counts tokens, since it reads how many or how fast; if false, only where
    LoadGen does not. `run_kind`: it is of benchmarks whose runs are of this kind.
    """

    scenarios: tuple[str, ...] = EVERY_SCENARIO
    divisions: tuple[Division, ...] = EVERY_DIVISION
    session_only: bool = False
    submitted_only: bool = False
    metric: str | None = None
    same_samples: bool = False
    of_tokens: bool | None = None
    run_kind: str = LOADGEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Scope):
    """One demand on one subject, and the runs that it applies to.

    `check` returns a verdict, or raises VerdictError. `source`: where the rule comes from. `fix`:
    the usual fix, in one line. `required`: what verdicts require where the check does not say it.
    `official`: it is MLPerf's own rule, not only the suite's. `whole_log`: it compares a log with
    itself, so a damaged or truncated one is not judged: the rule on whole logs fails it.
    `shortens`: smoke relaxes it.
    """

    name: str
    subject: Subject
    check: Callable[[Any], Verdict]
    source: str
    fix: str
    required: str = ""
    official: bool = True
    whole_log: bool = False
    shortens: Relaxation = False

    @property
    def sentence(self) -> str:
        """What the rule demands, in one sentence."""
        first, _, _ = (self.check.__doc__ or "").strip().partition("\n\n")
        return " ".join(first.split())

    @property
    def owner(self) -> str:
        return "MLPerf" if self.official else "the suite's own"

    @property
    def attribution(self) -> str:
        """Whose rule it is, and its source."""
        return f"{self.owner}: {self.source}"

    def applies_to(
        self,
        benchmark: Benchmark,
        scenario: Scenario,
        division: Division,
        submitted: bool,
        in_session: bool,
    ) -> bool:
        return (
            self.run_kind == benchmark.run_kind
            and scenario.name in self.scenarios
            and division in self.divisions
            and (submitted or not self.submitted_only)
            and (in_session or not self.session_only)
            and (not self.same_samples or benchmark.accuracy_samples is None)
            and self.of_tokens in (None, scenario.counts_tokens)
            and (self.metric is None or self.metric in benchmark.metrics)
            # Logs in a folder TEST06 are judged as TEST06, whatever their benchmark.
            and (self.subject not in AUDIT_MODES[1:] or benchmark.audit(self.subject) is not None)
        )

    def judge(self, facts: Facts) -> Verdict:
        judgement = self._checked(facts)
        status, why = judgement.status, judgement.why
        if status == "failed" and self._is_relaxed(facts):
            status, why = "shortened", "shortened for smoke"
        required = judgement.required or self.required
        return Verdict(self.name, status, judgement.found, required, why)

    def _checked(self, facts: Facts) -> Verdict:
        try:
            if self.whole_log and isinstance(facts, RunFacts):
                facts.need_whole_log()
            return self.check(facts)
        except VerdictError as error:
            return error.verdict
        except facts.malformed as error:
            return verdict(False, f"damaged: {type(error).__name__}: {error}")

    def _is_relaxed(self, facts: Facts) -> bool:
        # Facts of a run have it; a submission's results are never relaxed.
        if not getattr(facts, "smoke", False):
            return False
        return self.shortens(facts) if callable(self.shortens) else self.shortens


_RULES: list[Rule] = []
_NAMED: dict[str, Rule] = {}


def rule(*subjects: Subject, **terms: Any) -> Callable[[AnyCheck], AnyCheck]:
    """Register a function as a rule of each subject; the first sentence of its docstring is the
    rule's. `terms`: fields of `Rule` and `Scope`, of which `source` and `fix` have no default.
    Raises TypeError for a term that they do not have."""

    def register(check: AnyCheck) -> AnyCheck:
        for subject in subjects:
            entry = Rule(name=rule_name(check, subject), subject=subject, check=check, **terms)
            _RULES.append(entry)
            _NAMED[entry.name] = entry
        rules_of.cache_clear()
        _rules_for.cache_clear()
        return check

    return register


def rule_name(check: Callable[..., Any], subject: str) -> str:
    """The name of a function's verdicts on a subject: the subject's prefix, then its own name."""
    name = str(check.__name__)
    return name if subject in _WITHOUT_PREFIX else f"{subject}_{name}"


def every_rule() -> Sequence[Rule]:
    """Every rule, also of features, in the order in which they are reported."""
    _import_features()
    return _RULES


@cache
def _import_features() -> None:
    # Not where this package is imported: a feature's modules import it, and one another.
    modules = [module for feature in features() for module in feature.rules]
    for module in modules:
        import_module(module)
    # They may have been imported before, in any order.
    places = {module: place for place, module in enumerate(modules)}
    _RULES.sort(key=lambda entry: places.get(entry.check.__module__, -1))


def rule_named(name: str) -> Rule | None:
    """The rule that a verdict's name stands for; None if there is none of that name."""
    run = _LATER_RUN.match(name)
    _import_features()
    return _NAMED.get(name[run.end() :] if run else name)


def rule_of(check: Callable[..., Any], subject: Subject = "performance") -> Rule:
    """The rule that a function is of a subject. Raises KeyError if there is none."""
    _import_features()
    return _NAMED[rule_name(check, subject)]


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
    of_run = ByIdentity(benchmark), ByIdentity(scenario)
    return _rules_for(*of_run, mode, division, submitted, in_session)


@lru_cache(maxsize=64)
def _rules_for(benchmark: ByIdentity, scenario: ByIdentity, mode: Mode, *terms: Any) -> list[Rule]:
    of_run = benchmark.value, scenario.value
    return [entry for entry in rules_of(mode) if entry.applies_to(*of_run, *terms)]


@cache
def rules_of(subject: Subject) -> tuple[Rule, ...]:
    """The rules of a subject, in the order in which they are reported."""
    return tuple(entry for entry in every_rule() if entry.subject == subject)


def judge(facts: Facts) -> list[Verdict]:
    """Apply every rule that applies to these facts."""
    if not isinstance(facts, RunFacts):
        run_kind = facts.run_kind
        rules = [entry for entry in rules_of(facts.subject) if entry.run_kind == run_kind]
        return [entry.judge(facts) for entry in rules]
    rules = rules_for(
        facts.benchmark,
        facts.scenario,
        facts.mode,
        facts.division,
        submitted=facts.submitted is not None,
        in_session=facts.session is not None,
    )
    return [entry.judge(facts) for entry in rules]


def accuracy_verdict(verdicts: Sequence[Verdict]) -> bool | None:
    """Whether an accuracy run's verdicts amount to a pass; None if a rule was not judged."""
    if any(v.status == "failed" for v in verdicts):
        return False
    return None if any(v.status == "not judged" for v in verdicts) else True
