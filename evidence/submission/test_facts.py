"""submission.toml with any fact in place of any other: refused in words, and nothing is written."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_tests.features.submission.made_curve import FACTS, write_curve
from mlperf_suite.errors import SuiteError
from mlperf_suite.features.submission import package_build
from mlperf_suite.features.submission.official_client_points import OfficialClientPoint, read_points
from mlperf_suite.features.submission.package_build import PackageRequest
from mlperf_suite.features.submission.package_facts import PackageFacts

_LEAVES = st.sampled_from([1, -1, 0, True, 1.5, 2**70, "x", "a\nb", [], {}, [1], ["x"], [{}]])


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Each table or array in the facts with each name or number of a member."""
    members: list[Any] = []
    if isinstance(content, dict):
        members = list(content)
    elif isinstance(content, list):
        members = list(range(len(content)))
    inner = [place for member in members for place in _places(content[member])]
    return [(content, member) for member in members] + inner


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[OfficialClientPoint]:
    return read_points([write_curve(tmp_path_factory.mktemp("curve"))])[0]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_fact_makes_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, points: list[OfficialClientPoint], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("facts")
    content = tomllib.loads(FACTS)
    table, member = data.draw(st.sampled_from(_places(content)))
    table[member] = data.draw(_LEAVES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package_build, "read_facts", lambda path: PackageFacts(path, content))
        patch.setattr(package_build, "judge_package", lambda _: [])
        patch.setattr(package_build, "failures_of", lambda _: ["judged elsewhere"])
        patch.setattr(package_build, "read_points", lambda _: (points, []))
        request = PackageRequest((), root / "submission.toml", root / "out")
        with pytest.raises(SuiteError):
            package_build.build_package(request)
    assert list(root.iterdir()) == []
