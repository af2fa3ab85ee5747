"""Turns a run's verdicts into test outcomes, and decides the outcome of tests whose run failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from mlperf_suite.errors import SuiteError
from mlperf_suite.plugin.lifecycle import suite_of
from mlperf_suite.results.record import RunKey
from mlperf_suite.rules.registry import rule_name
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session.mmlu_run import Share
from mlperf_suite.session.plan import StepKey

STATUS_PROPERTY = "mlperf_status"
"""The user property that says why a skipped rule was skipped: shortened, or not judged."""
VERDICT = pytest.StashKey[Verdict]()
"""The verdict that decided a test's outcome."""
_CURRENT = pytest.StashKey[pytest.Item]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[_CURRENT] = item


def made(config: pytest.Config, step: StepKey, asked_for: str) -> None:
    """Make a step now unless it was made already.

    If it fails now, the current test fails with one line; if it failed before, the test is skipped
    as not judged. No other place decides the outcome of a test whose run failed.
    """
    item, suite = config.stash[_CURRENT], suite_of(config)
    outcome = suite.made(step)
    if outcome.ok:
        return
    if not outcome.now:
        _skip(item, "not judged", f"{asked_for}: not judged: the run failed: {outcome.failure}")
    _fail(config, outcome.failure)


def scored_share(config: pytest.Config, index: int) -> Share:
    """Score a share of MMLU's subjects now on this worker's engine."""
    try:
        return suite_of(config).mmlu.score_share(index)
    except SuiteError as error:
        failure = str(error)
    # Outside the handler, so that pytest does not show an exception chain.
    _fail(config, failure)


def _fail(config: pytest.Config, failure: str | None) -> NoReturn:
    """Fail the current test with one line; end the session if no other run can be made."""
    if not suite_of(config).can_go_on:
        config.stash[_CURRENT].session.shouldfail = "no other run can be made in this session"
    pytest.fail(failure or "", pytrace=False)


def conclude(config: pytest.Config, verdict: Verdict) -> None:
    """Let the current test pass, fail with the verdict's line, or skip if it is neither."""
    item = config.stash[_CURRENT]
    item.stash[VERDICT] = verdict
    if verdict.status == "failed":
        pytest.fail(verdict.line, pytrace=False)
    if not verdict.passed:
        _skip(item, verdict.status, verdict.line)


def _skip(item: pytest.Item, status: str, line: str) -> NoReturn:
    item.user_properties.append((STATUS_PROPERTY, status))
    pytest.skip(line)


class MadeRun:
    """A run of the session, made when its first rule is asked for."""

    def __init__(self, config: pytest.Config, step: StepKey) -> None:
        self._config = config
        self.step = step

    def __repr__(self) -> str:
        return str(self.step)

    def obeys(self, rule: Callable[..., Any] | str) -> None:
        """Judge the run by a rule, given as its function or by its name.

        Raises LookupError if the rule does not apply to such a run.
        """
        name = rule if isinstance(rule, str) else rule_name(rule, self._mode)
        made(self._config, self.step, name)
        verdicts = suite_of(self._config).verdicts(self.step)
        names = (name, f"{self._mode}_{name}")
        verdict = next((verdict for verdict in verdicts if verdict.rule in names), None)
        if verdict is None:
            raise LookupError(f"{self.step}: no rule {name} holds for it")
        conclude(self._config, verdict)

    @property
    def _mode(self) -> str:
        return self.step.mode if isinstance(self.step, RunKey) else "mmlu"


@pytest.fixture
def expect(pytestconfig: pytest.Config) -> Callable[[Verdict], None]:
    """Call it with a verdict: the test passes, fails with its line, or skips if it is neither."""
    return lambda verdict: conclude(pytestconfig, verdict)


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
