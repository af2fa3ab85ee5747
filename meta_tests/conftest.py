"""What the tests of the suite share: the order of files, the machine, the progress."""

import os
from collections.abc import Iterator

import pytest

import meta_tests.surroundings  # noqa: F401 - before any test is collected
from meta_tests.machine_lock import machine_lock
from meta_tests.progress import Progress
from meta_tests.warm_pytest import end_warm

SLOW_FILES = (
    *("real_engine/test_offline_session.py", "features/servers/test_faults.py"),
    *("features/tuning/test_trial_run.py", "test_features.py", "results/test_regression.py"),
    *("loadgen/test_runner.py", "plugin/test_suite_with_stand_in.py"),
    *("session/test_every_kind.py", "rules/test_every_rule.py"),
    *("features/replicas/test_cluster.py", "features/endpoints/test_curves.py"),
    *("engines/test_vllm_core.py", "plugin/test_own_folder.py", "test_secrets.py"),
    *("features/submission_check/test_submissions.py", "judging/test_loose_logs.py"),
    "session/test_executor.py",
)
"""The files that take longest: pytest-xdist's workers take files in the order of collection, and a
long one at the end would leave the others idle."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: runs while no other worker runs a test")
    # Of `make test`, which has workers: whoever runs one file sees pytest's own dots.
    if getattr(config.option, "numprocesses", None) and config.option.verbose <= 0:
        config.pluginmanager.register(Progress(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Without workers, those named first are run first.
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    name = item.path.as_posix().partition("/meta_tests/")[2]
    return SLOW_FILES.index(name) if name in SLOW_FILES else len(SLOW_FILES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """With workers, a test marked `alone` has the machine for itself."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    with machine_lock(item.get_closest_marker("alone") is not None):
        return (yield)


def pytest_sessionfinish() -> None:
    end_warm()
