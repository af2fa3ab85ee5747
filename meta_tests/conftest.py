"""What the tests of the suite share: the order of files, a real run."""

from __future__ import annotations

import pytest

import meta_tests.surroundings  # noqa: F401 - before any test is collected
from meta_tests.suite_runs import SuiteRun, run_suite
from meta_tests.warm_pytest import end_warm

LONGEST = (
    "plugin/test_real_run.py",
    "engines/endpoint/test_faults.py",
    "plugin/test_suite_with_stand_in.py",
    "judging/test_loose_logs.py",
    "rules/test_every_rule.py",
    "engines/test_vllm_engine.py",
    "results/test_regression.py",
    "loadgen/test_runner.py",
    "rules/test_damaged_logs.py",
    "session/test_mmlu_run.py",
    "judging/test_submissions.py",
    "plugin/test_ci.py",
    "plugin/test_own_tests.py",
    "reports/test_strangers.py",
    "test_secrets.py",
    "engines/endpoint/test_faulty_sessions.py",
    "plugin/test_workers.py",
    "session/test_executor.py",
    "reports/test_reports.py",
    "engines/endpoint/test_routing.py",
    "session/test_pipeline.py",
    "loadgen/test_clock_watch.py",
    "judging/test_damaged_in_bulk.py",
)
"""The files that take longest: pytest-xdist's workers take files in the order of collection, and a
long one at the end would leave the others idle. Files with a real engine are apart from one
another: two at once make both slow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    name = item.path.as_posix().partition("/meta_tests/")[2]
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_sessionfinish() -> None:
    end_warm()


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    """The real engine and the real LoadGen, Offline, accuracy and performance.

    Not named as one of the suite's own fixtures, whose tests the plugin parametrizes.
    """
    folder = tmp_path_factory.mktemp("real")
    return run_suite(
        folder / "results",
        *("-m", "offline and datacenter", "--total-sample-count=24"),
        f"--junitxml={folder}/junit.xml",
    )
