"""The change of a metric since the run that --baseline names, as tests ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlperf_suite.plugin.baseline_gate import regression_verdict
from mlperf_suite.plugin.outcomes import conclude, summary_of

if TYPE_CHECKING:
    import pytest

    from mlperf_suite.plugin.cases import MetricCase


class MetricChange:
    """A metric of a run and its baseline; the run is made when the change is asked for."""

    def __init__(self, config: pytest.Config, case: MetricCase) -> None:
        self._config = config
        self._step = case.key
        self._metric = case.metric

    def __repr__(self) -> str:
        return f"{self._step} {self._metric}"

    def is_no_regression(self) -> None:
        """Judge whether the loss is within --max-regression or the noise."""
        summary = summary_of(self._config, self._step, f"regression_{self._metric}")
        conclude(self._config, regression_verdict(summary.regression, self._metric))
