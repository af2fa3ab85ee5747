"""The result of judging: named verdicts, for a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mlperf_suite.benchmarks.definition import Benchmark, Category, Scenario
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS, Round, round_of_seeds
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.results.performance_figures import performance_figures
from mlperf_suite.results.schema import RepeatFigures
from mlperf_suite.rules.benchmark_rules import BenchmarkFacts, benchmark_known
from mlperf_suite.rules.registry import rule_named, rule_of
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.untrusted_files import printable


@dataclass(frozen=True, slots=True)
class JudgedFigures:
    """What a judged result measured. `performance`: without its figures if it has no such run.
    `scores`: by name, in the unit of its accuracy.txt, shares in percent."""

    performance: RepeatFigures = field(default_factory=RepeatFigures)
    scores: Mapping[str, float] = field(default_factory=dict)


def judged_figures(
    scenario: Scenario, detail: DetailLog | None, scores: Mapping[str, float] | None
) -> JudgedFigures:
    """The figures of a result of LoadGen. `detail`: None without a performance run."""
    performance = performance_figures(scenario, detail, 0.0, 0) if detail else RepeatFigures()
    return JudgedFigures(performance, scores or {})


@dataclass(frozen=True, slots=True)
class VerdictGroup:
    """Verdicts that belong together.

    `benchmark` and `scenario` are None if they are unknown or the verdicts span several. `modes`
    names the run that each verdict is about, "" for none. `figures`: None if it is no result.
    """

    name: str
    round: Round
    benchmark: Benchmark | None
    scenario: str | None
    verdicts: tuple[Verdict, ...]
    modes: tuple[str, ...]
    figures: JudgedFigures | None = None

    @property
    def category(self) -> Category | None:
        return self.benchmark.category if self.benchmark else None

    def count(self, status: str) -> int:
        return sum(v.status == status for v in self.verdicts)

    @property
    def failed_rules(self) -> list[str]:
        return [v.rule for v in self.verdicts if v.status == "failed"]

    @property
    def claim(self) -> str:
        """What the run or result may be called, in words; "" if the verdicts are not of one."""
        if self.scenario is None:
            return ""
        if self.failed_rules:
            itself = any(map(_is_of_agreement, self.failed_rules))
            return "contradicts itself" if itself else "not valid"
        if self.count("shortened"):
            return "shortened, not a result"
        unjudged = {v.rule for v in self.verdicts if v.status == "not judged"}
        if "result_valid" in unjudged or (unjudged and "performance" not in self.modes):
            return "not judged in full"
        return self._claim_with_accuracy() if "performance" in self.modes else "passed"

    def _claim_with_accuracy(self) -> str:
        """Of a valid performance run."""
        verdicts = [v for v in self.verdicts if v.rule == "accuracy_passed"]
        if not all(verdict.passed for verdict in verdicts):
            # With its accuracy run, a result lacks no more than the verdict of one rule.
            return f"valid, accuracy {'not judged' if 'accuracy' in self.modes else 'missing'}"
        return ", ".join(["valid", *(verdict.found for verdict in verdicts)])


def verdict_group(
    name: str,
    round_: Round,
    groups: Iterable[tuple[str, list[Verdict]]],
    benchmark: Benchmark | None = None,
    scenario: Scenario | None = None,
    figures: JudgedFigures | None = None,
) -> VerdictGroup:
    """Collect verdicts; `groups` has them by the mode of their run, "" for none."""
    flat = [(mode, verdict) for mode, verdicts in groups for verdict in verdicts]
    modes, verdicts = tuple(mode for mode, _ in flat), tuple(v for _, v in flat)
    of_scenario = scenario.name if scenario else None
    return VerdictGroup(name, round_, benchmark, of_scenario, verdicts, modes, figures)


def refused(name: str, description: str, round_: Round | None, why_not: str = "") -> VerdictGroup:
    """One verdict, on files without a benchmark: failed, or not judged where `why_not` says why."""
    facts = BenchmarkFacts(description, None, round_ or ROUNDS[DEFAULT_ROUND], why_not=why_not)
    verdict = rule_of(benchmark_known, facts.subject).judge(facts)
    return verdict_group(name, facts.round, [("", [verdict])])


def _is_of_agreement(name: str) -> bool:
    """Whether the rule compares what logs and files say in several places."""
    rule = rule_named(name)
    return name.endswith(("_agree", "_agrees")) or bool(rule and rule.whole_log)


def round_of(detail: DetailLog) -> Round | None:
    """The round whose seeds the log has, or None."""
    names = ROUNDS[DEFAULT_ROUND].seeds
    return round_of_seeds({name: detail[f"effective_{name}"] for name in names})


def scenario_of(benchmark: Benchmark | None, name: str) -> Scenario | None:
    """The benchmark's scenario of that name; case does not matter, as in the official checker."""
    scenarios = benchmark.scenarios if benchmark else ()
    return next((s for s in scenarios if s.name.lower() == name.lower()), None)


def name_of(division: str, *parts: str) -> str:
    """The name of a run in a test id; the closed division is left out."""
    visible = parts if division in ("", "closed") else (division, *parts)
    return printable("-".join(visible))
