"""The fixtures and cases of lm-eval's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlperf_suite.features.evals.eval_key import EVALS, EvalKey
from mlperf_suite.features.evals.options import shots_by_task
from mlperf_suite.plugin.baseline_gate import baselines_of
from mlperf_suite.plugin.cases import REGRESSION, Case, MetricCase, is_by_name, parametrize
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.outcomes import MetricChange, SessionRun
from mlperf_suite.session.run_kind import NoCase

if TYPE_CHECKING:
    from mlperf_suite.session.executor import Session

_NO_TASK = NoCase(("test of a task", "tests of tasks"), "no --task")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names, baselines = metafunc.fixturenames, baselines_of(metafunc.config)
    if "evals_run" in names:
        cases = [pytest.param(Case(key), id=key.task) for key in _keys(metafunc.config)]
        parametrize(metafunc, "evals_run", cases, _NO_TASK)
    if "evals_change" in names:
        keys = [k for k in _keys(metafunc.config) if k.benchmark_and_scenario in baselines]
        cases = [pytest.param(MetricCase(key, EVALS), id=key.task) for key in keys]
        parametrize(metafunc, "evals_change", cases, REGRESSION)


def _keys(config: pytest.Config) -> list[EvalKey]:
    """The tasks of --task; the embedded ones only if the user selects them by the feature's name:
    a session without it takes no more time."""
    settings = settings_of(config)
    is_asked = settings.feature_options["task"] or is_by_name(config, EVALS)
    return [EvalKey(name) for name in shots_by_task(settings)] if is_asked else []


@pytest.fixture(scope="session")
def evals_run(request: pytest.FixtureRequest, suite: Session) -> SessionRun:
    """Every document of a task answered through lm-eval."""
    return SessionRun(request.config, request.param.key)


@pytest.fixture
def evals_change(request: pytest.FixtureRequest, suite: Session) -> MetricChange:
    """The change of a task's score since the baseline."""
    return MetricChange(request.config, request.param)
