"""The sandbox of an ordinary user, of bubblewrap, and where the kernel forbids one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT
from mlperf_suite.features.code_grading.sandbox.box import Sandbox, fault

SYSTEM_PYTHON = "/usr/bin/python3"


def run_elsewhere(
    before: list[str], python: str, tmp_path: Path, path: str = "/usr/bin:/bin"
) -> str:
    """What `Sandbox.find` says in another process that is started this way."""
    package = tmp_path / "package"
    shutil.copytree(ROOT / "mlperf_suite", package / "mlperf_suite")
    for folder in (package, *package.parents):
        if folder.is_relative_to(tmp_path):
            folder.chmod(0o755)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from mlperf_suite.features.code_grading.sandbox.box import Sandbox; print(Sandbox.find())"
    )
    return subprocess.run(
        [*before, python, "-c", code, str(package)],
        env={"PATH": path, "HOME": "/nonexistent"},
        check=False,
        capture_output=True,
        text=True,
    ).stdout


def test_where_namespaces_are_forbidden_there_is_none(sandbox: Sandbox, tmp_path: Path) -> None:
    # In a user namespace that allows no further one, as many containers are.
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    before = ["unshare", "-Urm", "sh", "-c", forbid, "sh"]
    message = run_elsewhere(before, str(Path(sys.executable).resolve()), tmp_path)
    assert message.startswith("NoSandbox(reason='namespaces: [Errno 28] making namespaces")


@pytest.mark.skipif(
    os.geteuid() != 0, reason="not root, who alone can become another user: run it with sudo"
)
def test_an_ordinary_user_has_one(
    sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    version = "import sys; sys.exit(sys.version_info < (3, 11))"
    if subprocess.run([SYSTEM_PYTHON, "-c", version], check=False).returncode:
        pytest.skip(
            f"{SYSTEM_PYTHON} is older than 3.11: Debian 12 and Ubuntu 24.04 have a newer one"
        )
    with_folder = Path("/var/tmp") / f"sandbox-{os.getpid()}"
    with_folder.mkdir()
    try:
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        message = run_elsewhere(become, SYSTEM_PYTHON, with_folder)
        assert message.startswith("Sandbox(kind=")
    finally:
        shutil.rmtree(with_folder)


def test_bubblewrap_makes_the_same_sandbox(sandbox: Sandbox) -> None:
    bubblewrap = shutil.which("bwrap")
    if os.geteuid() == 0:
        pytest.skip("root, for whom bubblewrap is not used: run it as another user")
    if bubblewrap is None:
        pytest.skip("no bubblewrap: apt-get install bubblewrap")
    assert fault(Sandbox("bubblewrap", bubblewrap)) == ""
