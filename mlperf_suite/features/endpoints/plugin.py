"""The fixtures of the official client's runs and of curves, with their cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite.benchmarks.catalog import runnable
from mlperf_suite.features.endpoints.curve.curve_kind import CurveKey
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OFFICIAL_CLIENT_MODELS,
    OFFICIAL_CLIENT_SCENARIOS,
    OfficialClientRunKey,
    official_client_benchmark,
)
from mlperf_suite.features.endpoints.options import by_official_client, series_of
from mlperf_suite.features.endpoints.rules.official_client_rules import (
    is_of_accuracy,
    rules_of_a_run,
)
from mlperf_suite.plugin.baseline_gate import baselines_of
from mlperf_suite.plugin.cases import REGRESSION, Case, MetricCase, case_of, is_by_name, parametrize
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.outcomes import MetricChange, make
from mlperf_suite.session.run_kind import NoCase

if TYPE_CHECKING:
    from mlperf_suite.benchmarks.audits import Mode
    from mlperf_suite.features.endpoints.curve.curve_figures import CurveFigures
    from mlperf_suite.rules.verdict import Verdict
    from mlperf_suite.session.executor import Session

_CURVES = NoCase(("curve", "curves"), "no -m curve")
_OF_CLIENT = NoCase(("test of the official client", "tests of the official client"), "no --client")


@dataclass(frozen=True, slots=True)
class OfficialClientCase(Case):
    """A rule of a scenario that the official client runs."""

    rule: str

    @property
    def mode(self) -> Mode:
        return "accuracy" if is_of_accuracy(self.rule) else "performance"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names, config = metafunc.fixturenames, metafunc.config
    if "official_client_verdict" in names:
        parametrize(metafunc, "official_client_verdict", _client_cases(config), _OF_CLIENT)
    if "curve_run" in names:
        parametrize(metafunc, "curve_run", _curves(config), _CURVES)
    if "curve_change" in names:
        parametrize(metafunc, "curve_change", _curve_changes(config), REGRESSION)


def _client_cases(config: pytest.Config) -> list[Any]:
    """A case for each rule of each scenario that the session may run with the client."""
    settings = settings_of(config)
    if not by_official_client(settings):
        return []
    keys = [
        OfficialClientRunKey(benchmark.id, name)
        for benchmark in settings.benchmarks
        if benchmark.id in OFFICIAL_CLIENT_MODELS
        for name in OFFICIAL_CLIENT_SCENARIOS
        if official_client_benchmark(benchmark.id, name) is not None
    ]
    cases = [OfficialClientCase(key, rule.name) for key in keys for rule in rules_of_a_run()]
    return [case_of(of, of.key.scenario.lower(), of.rule, mode=of.mode) for of in cases]


def _curves(config: pytest.Config) -> Sequence[Any]:
    """A curve of each benchmark of a datacenter, if the user selects curves by name or by their
    series: one takes long, and no result of MLPerf Inference needs it."""
    settings = settings_of(config)
    if series_of(settings) is None and not is_by_name(config, "curve"):
        return []
    named = settings.named_benchmarks
    # Those of the series' agents have no scenario.
    benchmarks = [b for b in runnable() if b.by_default or b.id in named]
    keys = [CurveKey(b.id) for b in benchmarks if b.category == "datacenter"]
    marks = [pytest.mark.datacenter]
    return [pytest.param(Case(key), marks=marks, id=key.benchmark) for key in keys]


def _curve_changes(config: pytest.Config) -> list[Any]:
    """The area of each curve for which there is a baseline."""
    baselines = baselines_of(config)
    cases: list[Any] = []
    if not baselines:
        return cases
    # Not before: they read results and compute.
    from mlperf_suite.features.endpoints.curve.curve_area import AREA
    from mlperf_suite.features.endpoints.curve.curve_figures import curve_of

    for curve in _curves(config):
        (case,) = curve.values
        baseline = baselines.get(case.key.benchmark_and_scenario)
        if baseline and curve_of(baseline.summary):
            change = MetricCase(case.key, AREA.name)
            cases.append(pytest.param(change, marks=curve.marks, id=curve.id))
    return cases


@pytest.fixture
def official_client_verdict(request: pytest.FixtureRequest, suite: Session) -> Verdict:
    """A rule's verdict on a scenario, which the client runs when its first rule is asked for."""
    case = request.param
    make(request.config, case.key, case.rule)
    return next(v for v in suite.recorder.verdicts(case.key) if v.rule == case.rule)


@pytest.fixture
def curve_run(request: pytest.FixtureRequest, suite: Session) -> CurveFigures:
    """A benchmark's curve over fixed concurrencies, measured now."""
    make(request.config, request.param.key, "curve_run")
    curve: CurveFigures = suite.recorder.outcome(request.param.key)
    return curve


@pytest.fixture
def curve_change(request: pytest.FixtureRequest, suite: Session) -> MetricChange:
    """The change of a curve's area since the baseline."""
    return MetricChange(request.config, request.param)
