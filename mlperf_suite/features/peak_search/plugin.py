"""`pytest --find-peak-qps`: the fixture `peak_search`, one search for each scenario with limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlperf_suite.features.peak_search.kind import SEARCH, SearchKey
from mlperf_suite.plugin.cases import Case, case_of, parametrize, scenarios_of, step_of
from mlperf_suite.plugin.lifecycle import session_of
from mlperf_suite.plugin.outcomes import make

if TYPE_CHECKING:
    from mlperf_suite.features.peak_search.figures import PeakSearch
    from mlperf_suite.session.executor import Session


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The scenarios with latency limits, which thus have a highest rate within them."""
    if "peak_search" not in metafunc.fixturenames:
        return
    keys = [
        SearchKey(benchmark.id, scenario.name)
        for benchmark, scenario in scenarios_of(metafunc.config, "performance")
        if scenario.limits
    ]
    cases = [case_of(Case(key), key.scenario.lower()) for key in keys]
    parametrize(metafunc, "peak_search", cases, SEARCH)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse the option if no selected test is a search."""
    is_search = (isinstance(step_of(item), SearchKey) for item in session.items)
    if session.config.getoption("find_peak_qps") and not any(is_search):
        raise pytest.UsageError(
            "--find-peak-qps: no search is among the selected tests: select Server or Interactive"
        )


@pytest.fixture
def peak_search(request: pytest.FixtureRequest, suite: Session) -> PeakSearch:
    """The peak search of a scenario with latency limits, made now."""
    make(request.config, request.param.key, "peak_search")
    search: PeakSearch = session_of(request.config).recorder.outcome(request.param.key)
    return search
