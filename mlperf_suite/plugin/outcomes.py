"""Turns a run's verdicts into test outcomes, and decides the outcome of tests whose run failed.

Tests ask a `SessionRun`, or a `MetricChange` since the run that --baseline names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

from mlperf_suite.errors import SuiteError
from mlperf_suite.plugin.baseline_gate import CANNOT_TELL, regression_verdict
from mlperf_suite.plugin.lifecycle import session_of
from mlperf_suite.rules.registry import rule_name, rule_named
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session.run_kind import kind_of

if TYPE_CHECKING:
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.plugin.cases import MetricCase
    from mlperf_suite.results.schema import Summary
    from mlperf_suite.session.recorder import SessionResult
    from mlperf_suite.session.run_kind import StepKey

Product = TypeVar("Product")
STATUS_PROPERTY = "mlperf_status"
"""The user property that says why a test was skipped: shortened, not judged or cannot tell."""
VERDICT = pytest.StashKey[Verdict]()
"""The verdict that decided a test's outcome."""
_CURRENT = pytest.StashKey[pytest.Item]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[_CURRENT] = item


# Steps that fail


def make(config: pytest.Config, step: StepKey, purpose: str) -> None:
    """Make a step now unless it was made already.

    If it fails now, the current test fails with one line; if it failed before, the test is skipped
    as not judged. No other place decides the outcome of a test whose run failed. `purpose`: what
    the test asks of the step, for that line.
    """
    item, suite = config.stash[_CURRENT], session_of(config)
    outcome = suite.make(step)
    if outcome.ok:
        return
    if not outcome.now:
        _skip(item, "not judged", f"{purpose}: not judged: the run failed: {outcome.failure}")
    _fail(config, outcome.failure)


def loaded_engine(config: pytest.Config) -> Engine:
    """The engine of the runs; if it cannot be loaded, the current test fails with one line."""
    return or_fail(config, lambda: session_of(config).engine)


def or_fail(config: pytest.Config, action: Callable[[], Product]) -> Product:
    """What an action of the session returns; if it fails, so does the current test, with one
    line."""
    try:
        return action()
    except SuiteError as error:
        failure = str(error)
    # Outside the handler, so that pytest does not show an exception chain.
    _fail(config, failure)


def _fail(config: pytest.Config, failure: str | None) -> NoReturn:
    """Fail the current test with one line; end the session if the engine is unusable."""
    if not session_of(config).can_go_on:
        config.stash[_CURRENT].session.shouldfail = "the engine is unusable"
    pytest.fail(failure or "", pytrace=False)


def summary_of(config: pytest.Config, step: StepKey, purpose: str) -> Summary:
    """The summary of a step's result so far; the step is made now unless it was made already."""
    make(config, step, purpose)
    suite = session_of(config)
    return suite.recorder.summary(suite.recorder.result_of(step))


# Verdicts


def conclude(config: pytest.Config, verdict: Verdict) -> None:
    """Let the current test pass, fail with the verdict's line, or skip if it is neither."""
    item = config.stash[_CURRENT]
    item.stash[VERDICT] = verdict
    if verdict.status == "failed":
        pytest.fail("\n".join([verdict.line, *_rule_lines(verdict)]), pytrace=False)
    if verdict.passed:
        return
    # What the gate found begins with its verdict.
    if verdict.found.startswith(f"{CANNOT_TELL}: "):
        _skip(item, CANNOT_TELL, verdict.line.replace(f"{verdict.status}: found ", "", 1))
    _skip(item, verdict.status, verdict.line)


def _rule_lines(verdict: Verdict) -> list[str]:
    """What the rule of a verdict demands, by which source, and the usual fix."""
    rule = rule_named(verdict.rule)
    if rule is None:
        return []
    return [f"  {rule.sentence} ({rule.attribution})", f"  usual fix: {rule.fix}"]


def _skip(item: pytest.Item, status: str, line: str) -> NoReturn:
    item.user_properties.append((STATUS_PROPERTY, status))
    pytest.skip(line)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, object] | None:
    # Reports of failed collections have no user properties.
    status = dict(getattr(report, "user_properties", ())).get(STATUS_PROPERTY)
    if not report.skipped or status is None:
        return None
    return (
        str(status),
        "s" if status == "shortened" else "n",
        (str(status).upper(), {"yellow": True}),
    )


class MetricChange:
    """A metric of a run and its baseline; the run is made when the change is asked for."""

    def __init__(self, config: pytest.Config, case: MetricCase) -> None:
        self._config = config
        self._step = case.key
        self._metric = case.metric

    def __repr__(self) -> str:
        return f"{self._step} {self._metric}"

    def is_no_regression(self) -> None:
        """Judge whether the loss is within --max-regression or the noise.

        Together with the other metrics of its result, whose number decides on each interval.
        """
        suite = session_of(self._config)
        for step in suite.plan.family(self._step):
            outcome = suite.make(step)
            if outcome.now and not outcome.ok:
                _fail(self._config, outcome.failure)
        summary = summary_of(self._config, self._step, f"regression_{self._metric}")
        conclude(self._config, regression_verdict(summary, self._metric, suite.settings))


class SessionRun:
    """A run of the session, made when a test first asks for something of it."""

    def __init__(self, config: pytest.Config, step: StepKey) -> None:
        self._config = config
        self.step = step

    def __repr__(self) -> str:
        return str(self.step)

    def obeys(self, rule: Callable[..., Any] | str) -> None:
        """Judge the run by a rule, given as its function or by its verdict's full name.

        Raises LookupError if the rule does not apply to such a run.
        """
        subject = kind_of(self.step).subject(self.step)
        name = rule if isinstance(rule, str) else rule_name(rule, subject)
        verdict = next((v for v in self._verdicts(name) if v.rule == name), None)
        if verdict is None:
            raise LookupError(f"{self.step}: no rule {name} holds for it")
        conclude(self._config, verdict)

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdict of every rule that applies to the run."""
        return self._verdicts("verdicts")

    @property
    def summary(self) -> Summary:
        """The summary of the run's result so far, with the figures of its other runs too."""
        return summary_of(self._config, self.step, "summary")

    @property
    def folder(self) -> Path:
        """The folder of the run's result: logs, answers, reports."""
        make(self._config, self.step, "folder")
        result: SessionResult = session_of(self._config).recorder.result_of(self.step)
        return result.folder.path

    def _verdicts(self, purpose: str) -> list[Verdict]:
        make(self._config, self.step, purpose)
        return session_of(self._config).recorder.verdicts(self.step)
