"""A sandbox for tests, where this machine has one."""

from __future__ import annotations

import pytest

from mlperf_suite.scorers.sandbox.box import NoSandbox, Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    found = Sandbox.find()
    if isinstance(found, NoSandbox):
        pytest.skip(f"no sandbox: {found.reason}")
    return found
