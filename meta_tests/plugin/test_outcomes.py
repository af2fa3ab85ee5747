"""What becomes of a test: by its verdict, and where the run that it is of died."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from mlperf_suite.errors import RunError
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.plugin import outcomes
from mlperf_suite.plugin.cases import MetricCase
from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.outcomes import STATUS_PROPERTY, MetricChange, SessionRun, make, or_fail
from mlperf_suite.rules import validity
from mlperf_suite.rules.registry import rule_named
from mlperf_suite.rules.verdict import Status, Verdict
from mlperf_suite.session.executor import StepOutcome
from mlperf_suite.session.plan import Plan, plan_session
from mlperf_suite.session.run_kind import Selection, StepKey

KEY = RunKey("llama3.1-8b", "Server", "performance")
ACCURACY = RunKey("llama3.1-8b", "Server", "accuracy")


@dataclass
class FakeSuite:
    """A session whose steps have these outcomes, with this verdict for each."""

    outcome: StepOutcome = field(default_factory=StepOutcome)
    verdict: Verdict = field(
        default_factory=lambda: Verdict("result_valid", "passed", "VALID", "VALID")
    )
    can_go_on: bool = True
    plan: Plan = field(default_factory=lambda: plan_session(Selection([KEY, ACCURACY])))

    def make(self, key: StepKey) -> StepOutcome:
        return self.outcome

    @property
    def recorder(self) -> Any:
        return SimpleNamespace(verdicts=lambda key: [self.verdict])


@dataclass
class Under:
    suite: FakeSuite
    session: Any = field(default_factory=lambda: SimpleNamespace(shouldfail=False))
    user_properties: list[tuple[str, object]] = field(default_factory=list)
    stash: pytest.Stash = field(default_factory=pytest.Stash)

    @property
    def config(self) -> Any:
        config = SimpleNamespace(stash=pytest.Stash())
        config.stash[SUITE] = self.suite
        config.stash[outcomes._CURRENT] = self
        return config


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "a rule": lambda config: SessionRun(config, KEY).obeys(validity.result_valid),
    "a rule by its name": lambda config: SessionRun(config, KEY).obeys("result_valid"),
    "a regression": lambda config: MetricChange(config, MetricCase(KEY, "qps")).is_no_regression(),
    "a regression of the score": lambda config: MetricChange(
        config, MetricCase(ACCURACY, "rouge1")
    ).is_no_regression(),
    "a folder": lambda config: SessionRun(config, KEY).folder,
    "a record": lambda config: make(config, KEY, "benchmark"),
}


@pytest.mark.parametrize("can_go_on", [True, False])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_test_in_which_a_run_dies_fails_with_one_line(question: str, can_go_on: bool) -> None:
    died = StepOutcome("llama3.1-8b Server performance: the engine died", now=True)
    test = Under(FakeSuite(died, can_go_on=can_go_on))
    with pytest.raises(pytest.fail.Exception) as caught:
        QUESTIONS[question](test.config)
    assert (caught.value.msg, caught.value.pytrace) == (died.failure, False)
    assert bool(test.session.shouldfail) is not can_go_on
    assert test.user_properties == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_asked_of_a_run_that_died_before_is_not_judged(question: str) -> None:
    test = Under(FakeSuite(StepOutcome("the engine died", now=False)))
    with pytest.raises(pytest.skip.Exception) as caught:
        QUESTIONS[question](test.config)
    assert (caught.value.msg or "").endswith(": not judged: the run failed: the engine died")
    assert test.user_properties == [(STATUS_PROPERTY, "not judged")]
    assert not test.session.shouldfail


def test_an_action_that_fails_fails_the_test_with_one_line() -> None:
    def dies() -> None:
        raise RunError("share 1: the engine died")

    test = Under(FakeSuite(can_go_on=False))
    with pytest.raises(pytest.fail.Exception) as caught:
        or_fail(test.config, dies)
    assert (caught.value.msg, caught.value.pytrace) == ("share 1: the engine died", False)
    assert caught.value.__context__ is None
    assert test.session.shouldfail


@pytest.mark.parametrize("word", ["failed", "shortened", "not judged", "cannot tell"])
def test_what_is_no_pass_is_told_in_the_verdicts_line(word: Any) -> None:
    """What the gate cannot tell in its own word."""
    status: Status = "not judged" if word == "cannot tell" else word
    found = "cannot tell: -9%" if word == "cannot tell" else "INVALID"
    verdict = Verdict("result_valid", status, found, "VALID", "too short")
    test = Under(FakeSuite(verdict=verdict))
    outcome = pytest.fail.Exception if status == "failed" else pytest.skip.Exception
    with pytest.raises(outcome) as caught:
        SessionRun(test.config, KEY).obeys(validity.result_valid)
    line, *explanation = str(caught.value).splitlines()
    assert line.startswith(f"result_valid: {word}: ") and line.endswith("VALID (too short)")
    rule = rule_named("result_valid")
    assert rule is not None
    assert bool(explanation) is (status == "failed")
    assert all(rule.sentence in explanation[0] for _ in explanation)
    assert test.user_properties == ([] if status == "failed" else [(STATUS_PROPERTY, word)])
    assert test.stash[outcomes.VERDICT] is verdict


def test_a_pass_is_kept_for_the_reports_and_a_rule_that_does_not_hold_is_an_error() -> None:
    test = Under(FakeSuite())
    SessionRun(test.config, KEY).obeys(validity.result_valid)
    assert test.stash[outcomes.VERDICT].passed
    assert test.user_properties == []
    with pytest.raises(LookupError, match="no rule seeds holds"):
        SessionRun(test.config, KEY).obeys(validity.seeds)
