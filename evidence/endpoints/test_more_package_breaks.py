"""Each further break of a package is seen by its rules alone."""

from pathlib import Path

import pytest

from evidence.endpoints.more_package_breaks import BREAKS
from meta_tests.features.endpoints.made_package import as_agentic, write_package
from meta_tests.features.endpoints.package_breaks import CURVE, PackageBreak
from mlperf_suite.features.endpoints.judging.packages import judge_package


@pytest.mark.parametrize("case", BREAKS, ids=str)
def test_a_break_is_seen_by_its_rules(tmp_path: Path, case: PackageBreak) -> None:
    package = write_package(tmp_path)
    curve = package / CURVE
    case.apply(as_agentic(curve, case.turns) if case.turns else curve)
    verdicts = [verdict for group in judge_package(package) for verdict in group.verdicts]
    failed = {v.rule.removeprefix("package_") for v in verdicts if v.status == "failed"}
    assert failed == set(case.rules.split())
