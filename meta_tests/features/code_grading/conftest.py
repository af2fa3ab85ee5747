"""A sandbox for tests, where this machine has one."""

import pytest

from meta_tests.features.code_grading.sandbox.this_machine import usable_sandbox
from mlperf_suite.features.code_grading.sandbox.box import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    return usable_sandbox()
