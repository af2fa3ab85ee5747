"""Small file systems of a command's own, nearly full."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT

DISK = """
set -e
mount -t tmpfs -o size=4m none {disk}
left={left}
while [ "$(df --output=avail -k {disk} | tail -1)" -gt "$left" ]; do
  dd if=/dev/zero of={disk}/fill bs=4k count=1 oflag=append conv=notrunc 2>/dev/null
done
set +e
"$@"
code=$?
rm {disk}/fill
cp -r {disk}/results {kept}
exit $code
"""


def own_disk(folder: Path, left_kb: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with `left_kb` kB left on `folder`/disk, then keep its results."""
    disk = folder / "disk"
    disk.mkdir()
    script = DISK.format(disk=disk, left=left_kb, kept=folder / "kept")
    # As root in name alone, in namespaces of its own: nobody else sees the file system.
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def skip_without_own_disks(folder: Path) -> None:
    """Skip the test where this machine does not let a process mount one; tried in this folder."""
    try:
        attempt = own_disk(folder, 100, "mkdir", str(folder / "disk" / "results"))
    except OSError as error:
        pytest.skip(f"no unshare ({error}): apt-get install util-linux")
    if attempt.returncode:
        pytest.skip(
            f"no file system of its own ({attempt.stderr.strip()}): run it where user namespaces "
            "may mount, in Docker with --privileged"
        )
