"""A valid run passes every rule, and a break of one rule is seen by that rule alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.made_details import of_features
from meta_tests.made_runs import MadeRun, every_scenario, made_classes, remote_run
from meta_tests.tampering import rule_breaks
from meta_tests.tampering.rule_breaks import AGREEMENT, MODES, Break, not_passed
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import LOADGEN, Benchmark, Scenario
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.loadgen.load_plan import MODES as EVERY_MODE
from mlperf_suite.rules import judge
from mlperf_suite.rules.registry import every_rule

BREAKS: dict[str, Break] = dict(rule_breaks.BREAKS)
FOLLOWING = dict(rule_breaks.FOLLOWING)
for module in of_features("rule_breaks"):
    BREAKS |= module.BREAKS
    FOLLOWING |= getattr(module, "FOLLOWING", {})
OWN = made_classes()
"""Of features' own modes, which are in no submission."""


def test_every_rule_has_a_break() -> None:
    assert set(BREAKS) == {
        rule.name
        for rule in every_rule()
        if rule.subject in (*EVERY_MODE, *OWN) and rule.run_kind == LOADGEN
    }


NEWEST = list(ROUNDS.values())[-1]
EVERY_RUN = [
    (benchmark, scenario, mode, NEWEST)
    for benchmark, scenario in every_scenario()
    for mode in dict.fromkeys([*MODES, *OWN, *(audit.mode for audit in benchmark.audits)])
] + [
    (LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), mode, round_)
    for mode in MODES
    for round_ in ROUNDS.values()
    if round_ is not NEWEST
]


@pytest.mark.parametrize(
    ("row", "scenario", "mode", "round_"),
    EVERY_RUN,
    ids=[f"{b.id}-{s.name}-{mode}-{round_.name}" for b, s, mode, round_ in EVERY_RUN],
)
def test_a_valid_run_passes(row: Benchmark, scenario: Scenario, mode: Mode, round_: Round) -> None:
    # A submission does not tell of a server.
    for submitted, remote in ((False, remote_run()), (True, None)):
        if submitted and mode in OWN:
            continue
        made = OWN.get(mode, MadeRun)
        run = made(row, scenario, mode, round_, submitted=submitted, remote=remote)
        verdicts = judge(run.facts())
        assert verdicts
        assert not_passed(verdicts) == {}


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_of_one_rule_is_seen_by_that_rule_alone(name: str) -> None:
    # TEST09's rules are TEST07's, of logs of eight million tokens.
    examples = settings(max_examples=1 if name.startswith("test09_") else 5)
    examples(given(st.data())(lambda data: break_one_rule(name, data)))()


SMALLEST_LAST = sorted(every_scenario(), key=lambda where: -where[0].samples)


def break_one_rule(name: str, data: st.DataObject) -> None:
    (rule,) = [r for r in every_rule() if r.name == name]
    fitting = {
        (s.name, b.answers_as_text): (b, s)
        for b, s in SMALLEST_LAST
        if rule.applies_to(b, s, "closed", submitted=True, in_session=True)
    }
    if not fitting:
        pytest.skip("of an audit that no benchmark here has")
    benchmark, scenario = data.draw(st.sampled_from(list(fitting.values())))
    submitted = rule.submitted_only or (not rule.session_only and data.draw(st.booleans()))
    made = OWN.get(rule.subject, MadeRun)
    run = made(benchmark, scenario, rule.subject, submitted=submitted)
    BREAKS[name](run, data)
    failures = set(not_passed(judge(run.facts())))
    assert name in failures
    assert failures - AGREEMENT <= {name, *FOLLOWING.get(name, ())}
