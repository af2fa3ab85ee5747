"""A sandbox for tests, where this machine has one."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from mlperf_suite.scorers.sandbox.box import NoSandbox, Sandbox

NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork")


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    candidate = Sandbox.find()
    if isinstance(candidate, NoSandbox):
        # Where util-linux can make namespaces and the suite cannot, the suite is broken.
        if shutil.which("unshare"):
            status = subprocess.run([*NAMESPACES, "--mount-proc", "true"], check=False).returncode
            assert status != 0, candidate.reason
        pytest.skip(f"no sandbox: {candidate.reason}")
    return candidate
