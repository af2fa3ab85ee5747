"""From a run's verdicts to the tests' outcomes, and what becomes of a test whose run died."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.errors import SuiteError
from mlperf_suite.plugin.lifecycle import suite_of
from mlperf_suite.session.mmlu_run import Share
from mlperf_suite.session.plan import StepKey

STATUS_PROPERTY = "mlperf_status"
"""The user property that says why a skipped rule was skipped: shortened, or not judged."""
VERDICT = pytest.StashKey[Verdict]()
"""Of a test, the verdict that decided it."""
_CURRENT = pytest.StashKey[pytest.Item]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[_CURRENT] = item


def made(config: pytest.Config, step: StepKey, asked_for: str) -> None:
    """Make a step now unless it was made already.

    Where it dies now, the test under way fails with one line; where it died before, what the test
    asks for is not judged. This is the only place that decides what becomes of a test then.
    """
    item, suite = config.stash[_CURRENT], suite_of(config)
    outcome = suite.made(step)
    if outcome.ok:
        return
    if not outcome.now:
        _skip(item, "not judged", f"{asked_for}: not judged: the run failed: {outcome.failure}")
    _fail(config, outcome.failure)


def scored_share(config: pytest.Config, index: int) -> Share:
    """A share of MMLU's subjects, scored now on this worker's engine."""
    try:
        return suite_of(config).mmlu.score_share(index)
    except SuiteError as error:
        failure = str(error)
    # Outside the handler, so that pytest shows no chain of exceptions.
    _fail(config, failure)


def _fail(config: pytest.Config, failure: str | None) -> NoReturn:
    """Fail the test under way with one line; where no other run can be made, end the session."""
    if not suite_of(config).can_go_on:
        config.stash[_CURRENT].session.shouldfail = "no other run can be made in this session"
    pytest.fail(failure or "", pytrace=False)


def conclude(config: pytest.Config, verdict: Verdict) -> None:
    """Let the test under way pass, fail with the verdict's line, or skip what is not a pass."""
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
    """A run of the session, made when the first rule is asked for."""

    def __init__(self, config: pytest.Config, step: StepKey) -> None:
        self._config = config
        self.step = step

    def __repr__(self) -> str:
        return str(self.step)

    def obeys(self, rule: Callable[..., Any] | str) -> None:
        """Judge the run by a rule, given as its function or by its name.

        Raises LookupError where the rule does not hold for such a run.
        """
        name = rule if isinstance(rule, str) else rule.__name__
        made(self._config, self.step, name)
        verdicts = suite_of(self._config).verdicts(self.step)
        found = [verdict for verdict in verdicts if verdict.rule == name]
        if not found:
            raise LookupError(f"{self.step}: no rule {name} holds for it")
        conclude(self._config, found[0])


@pytest.fixture
def expect(pytestconfig: pytest.Config) -> Callable[[Verdict], None]:
    """Call it with a verdict: passes, fails with its line, or skips what is not a pass."""
    return lambda verdict: conclude(pytestconfig, verdict)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, object] | None:
    # A report of a collection that failed has none.
    status = dict(getattr(report, "user_properties", ())).get(STATUS_PROPERTY)
    if not report.skipped or status is None:
        return None
    return (
        str(status),
        "s" if status == "shortened" else "n",
        (str(status).upper(), {"yellow": True}),
    )
