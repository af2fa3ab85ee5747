"""What evidence shares with the suite's own tests."""

from __future__ import annotations

import meta_tests.surroundings  # noqa: F401 - before any test is collected
from meta_tests.warm_pytest import end_warm


def pytest_sessionfinish() -> None:
    end_warm()
