"""`pytest -m tune`: its option, and the fixture that searches once a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlperf_suite.features.tuning.session import make_tuning
from mlperf_suite.plugin.cases import NoCase, is_by_name, parametrize

if TYPE_CHECKING:
    from mlperf_suite.features.tuning.claim import Claim

_NO_TUNING = NoCase(("tuning", "tunings"), "no -m tune")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("mlperf").addoption(
        "--tune",
        metavar="OPTIONS",
        default="",
        help="with -m tune: options of mlperf-suite tune in one text, as '--minutes 10'; the other "
        "options of this session are those of every run",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "tune: the search for the engine's best settings, and its winner's pairs"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One tuning, if the user selects it by name: it takes the longest."""
    if "tuning" in metafunc.fixturenames:
        is_asked = is_by_name(metafunc.config, "tune")
        cases = [pytest.param(None, id=pytest.HIDDEN_PARAM)] if is_asked else []
        parametrize(metafunc, "tuning", cases, _NO_TUNING)


@pytest.fixture(scope="session")
def tuning(request: pytest.FixtureRequest) -> Claim:
    """What came of the search: the candidate, its pairs with the default, the gain."""
    return make_tuning(request.config)
