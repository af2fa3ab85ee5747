"""Whether a benchmark, its scenarios and its division are MLPerf's, and of the round.

Sources: constants.py and checks/ of the official submission checker.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlperf_suite.benchmarks.catalog import judged_in_trees
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict


@dataclass(frozen=True, slots=True)
class BenchmarkFacts(Facts):
    """One benchmark of one system. `name`: its name in a tree, as far as it is known.

    `division`, `scenarios`: the names of folders. `whole`: all scenarios are visible. Of one of
    MLPerf's that the suite does not judge, `why_not`, and `rounds` that offer it.
    """

    name: str
    benchmark: Benchmark | None
    round: Round
    scenarios: tuple[str, ...] = ()
    division: str = "closed"
    whole: bool = False
    why_not: str = ""
    rounds: tuple[str, ...] | None = None

    @property
    def subject(self) -> Subject:
        return "benchmark"


@rule(
    "benchmark",
    source="submission checker, MODEL_CONFIG: models",
    fix="Use the benchmark's official name, or map yours in model_mapping.json (open division).",
)
def benchmark_known(facts: BenchmarkFacts) -> Verdict:
    """The suite knows the benchmark; an unknown one is reported and never passes.

    MLPerf's others are not judged.
    """
    if facts.why_not:
        return not_judged(facts.name, "a benchmark of this suite", facts.why_not)
    is_known = facts.benchmark is not None
    return verdict(
        is_known,
        facts.name if is_known else f"{facts.name}, an unknown benchmark",
        f"one of {', '.join(row.id for row in judged_in_trees())}",
    )


@rule(
    "benchmark",
    source="submission checker, MODEL_CONFIG: models of the round",
    fix="Submit the benchmark to a round that offers it.",
)
def benchmark_of_round(facts: BenchmarkFacts) -> Verdict:
    """The round offers the benchmark."""
    required = f"a benchmark of {facts.round.name}"
    rounds = facts.benchmark.rounds if facts.benchmark else facts.rounds
    if rounds is None:
        return not_judged(facts.name, required, "the benchmark is not known")
    return verdict(facts.round.name in rounds, f"{facts.name}, of {', '.join(rounds)}", required)


@rule(
    "benchmark",
    source="submission checker, VALID_DIVISIONS",
    fix="Put the tree under closed/ or open/; network submissions are not judged.",
)
def division_known(facts: BenchmarkFacts) -> Verdict:
    """The division is closed or open; network is reported and never passes."""
    return verdict(facts.division in ("closed", "open"), facts.division, "closed or open")


@rule(
    "benchmark",
    source="submission checker, MODEL_CONFIG: required and optional scenarios",
    fix="Rename or remove the scenario's folder.",
)
def scenarios_known(facts: BenchmarkFacts) -> Verdict:
    """Every scenario in the tree is one of the benchmark's in that round."""
    if facts.benchmark is None:
        return not_judged(facts.name, "known scenarios", "the benchmark is not known")
    round_ = facts.round.name
    names = [s.name for s in facts.benchmark.every_scenario if not s.rounds or round_ in s.rounds]
    # The checker ends at any other case.
    unknown = set(facts.scenarios).difference(names, map(str.lower, names))
    scenarios = ", ".join(sorted(unknown) or facts.scenarios) or "none"
    return verdict(not unknown, scenarios, f"of {', '.join(names)}")


@rule(
    "benchmark",
    source="submission checker, MODEL_CONFIG: required scenarios",
    fix="Make the runs of the missing scenarios.",
)
def required_scenarios(facts: BenchmarkFacts) -> Verdict:
    """A closed submission has every scenario that the benchmark requires; an open one need not."""
    if facts.benchmark is None:
        return not_judged(facts.name, "required scenarios", "the benchmark is not known")
    groups = facts.benchmark.required
    required = " and ".join(" or ".join(group) for group in groups)
    scenarios = ", ".join(facts.scenarios) or "none"
    if facts.division == "open":
        return verdict(True, scenarios, "none in the open division")
    if not facts.whole:
        return not_judged(scenarios, required, "only a part of the benchmark was given")
    present = {name.lower() for name in facts.scenarios}
    absent = [g for g in groups if not present & {name.lower() for name in g}]
    why = "; ".join(f"no {' or '.join(group)}" for group in absent)
    return verdict(not absent, scenarios, required, why)
