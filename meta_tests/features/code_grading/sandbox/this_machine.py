"""Whether this machine can run programs in a sandbox."""

import shutil
import subprocess

import pytest

from mlperf_suite.features.code_grading.sandbox import box
from mlperf_suite.features.code_grading.sandbox.box import NoSandbox, Sandbox

_NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork")


def usable_sandbox() -> Sandbox:
    """The sandbox; where the kernel allows none, the test is skipped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(box, "_TRIAL_S", 600.0)
        candidate = Sandbox.find()
    if isinstance(candidate, NoSandbox):
        # Where util-linux can make namespaces and the suite cannot, the suite is broken.
        if shutil.which("unshare"):
            status = subprocess.run([*_NAMESPACES, "--mount-proc", "true"], check=False).returncode
            assert status != 0, candidate.reason
        pytest.skip(f"no sandbox: {candidate.reason}")
    return candidate
