"""Fixtures for the changes of a run's metrics since the baseline."""

from __future__ import annotations

import pytest

from mlperf_suite.plugin.baseline_gate import regression_verdict
from mlperf_suite.plugin.cases import MetricCase
from mlperf_suite.plugin.judging_tests import conclude, made
from mlperf_suite.plugin.lifecycle import suite_of
from mlperf_suite.results.record import RunKey
from mlperf_suite.session.plan import StepKey


class MetricChange:
    """A metric of a run and its baseline; the run is made when the change is asked for."""

    def __init__(self, config: pytest.Config, step: StepKey, metric: str) -> None:
        self._config = config
        self._step = step
        self._metric = metric

    def __repr__(self) -> str:
        return f"{self._step} {self._metric}"

    def is_no_regression(self) -> None:
        """Judge whether the loss is within --max-regression or the noise."""
        made(self._config, self._step, f"regression_{self._metric}")
        suite, step = suite_of(self._config), self._step
        if isinstance(step, RunKey):
            summary = suite.summary(suite.result(step.benchmark, step.scenario))
        else:
            summary = suite.mmlu.summary()
        conclude(self._config, regression_verdict(summary.regression, self._metric))


def _change(request: pytest.FixtureRequest) -> MetricChange:
    case: MetricCase = request.param
    return MetricChange(request.config, case.key, case.metric)


@pytest.fixture
def performance_change(request: pytest.FixtureRequest, suite: object) -> MetricChange:
    """The change of a performance run's metric since the baseline."""
    return _change(request)


@pytest.fixture
def score_change(request: pytest.FixtureRequest, suite: object) -> MetricChange:
    """The change of an accuracy run's score since the baseline."""
    return _change(request)


@pytest.fixture
def mmlu_change(request: pytest.FixtureRequest, suite: object) -> MetricChange:
    """The change of the MMLU score since the baseline."""
    return _change(request)
