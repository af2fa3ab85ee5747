"""The fixture `caching_run`: one audit of each model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from mlperf_suite.benchmarks.definition import LOADGEN, Benchmark
from mlperf_suite.features.caching_audit.kind import CachingKey
from mlperf_suite.plugin.cases import Case, parametrize, scenarios_of
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.outcomes import SessionRun
from mlperf_suite.session.run_kind import OTHER_BENCHMARK, NoCase

if TYPE_CHECKING:
    from mlperf_suite.session.executor import Session
    from mlperf_suite.settings import Settings

_NO_AUDIT = NoCase(("test of CACHING", "tests of CACHING"), OTHER_BENCHMARK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One for each model: the audit is about the engine and its model, so that one scenario is
    enough, and a selection of categories or scenarios does not include it."""
    if "caching_run" not in metafunc.fixturenames:
        return
    scenarios = scenarios_of(metafunc.config, "performance")
    benchmarks = {benchmark.id: benchmark for benchmark, _ in scenarios}
    audited = _first_of_each_model(settings_of(metafunc.config), benchmarks.values())
    keys = [CachingKey(benchmark.id, "Offline") for benchmark in audited]
    mark = pytest.mark.compliance
    cases = [pytest.param(Case(key), marks=mark, id=key.benchmark) for key in keys]
    parametrize(metafunc, "caching_run", cases, _NO_AUDIT, mark)


def _first_of_each_model(settings: Settings, benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """The first selected benchmark of each model; the others would audit the same model again."""
    by_model: dict[str, Benchmark] = {}
    for benchmark in (b for b in benchmarks if b.run_kind == LOADGEN):
        if settings.category in (None, benchmark.category) and benchmark in settings.benchmarks:
            by_model.setdefault(settings.workload(benchmark).model, benchmark)
    return list(by_model.values())


@pytest.fixture(scope="session")
def caching_run(request: pytest.FixtureRequest, suite: Session) -> SessionRun:
    """The caching audit: blocks of one repeated sample alternate with blocks of new samples."""
    return SessionRun(request.config, request.param.key)
