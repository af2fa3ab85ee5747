"""A session whose disk fills up, on a small file system of its own: one line, and a last word."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from meta_tests.features.endpoints.official_client_stand_in import write_client
from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import stand_in_server
from meta_tests.suite_runs import PYTEST, ROOT, run_suite
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.results.run_folder import RESERVED_FILE, read_summary

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


@pytest.fixture(scope="module", autouse=True)
def has_own_disks(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("attempt")
    try:
        attempt = own_disk(folder, 100, "mkdir", str(folder / "disk" / "results"))
    except OSError as error:
        pytest.skip(f"no unshare ({error}): apt-get install util-linux")
    if attempt.returncode:
        pytest.skip(
            f"no file system of its own ({attempt.stderr.strip()}): run it where user namespaces "
            "may mount, in Docker with --privileged"
        )


@pytest.mark.parametrize("mode", ["accuracy", "performance"])
@pytest.mark.parametrize("left_kb", [40, 100])
def test_a_full_disk_ends_in_a_line_and_leaves_a_last_word(
    tmp_path: Path, left_kb: int, mode: str
) -> None:
    result = own_disk(
        tmp_path,
        left_kb,
        *(*PYTEST, "-m", "offline and datacenter", f"--mode={mode}"),
        *("-p", "meta_tests.stand_in_plugin", "--warmup=0", "--offline-target-qps=8.4"),
        *("-p", "no:cacheprovider", "--results-dir", str(tmp_path / "disk" / "results")),
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    (folder,) = (tmp_path / "kept").glob("2*")
    summary = read_summary(folder)
    assert summary is not None, result.stdout
    assert summary.meta.status == "failed"
    assert "No space left on device" in (summary.meta.reason or ""), summary.meta.reason
    lines = [line for line in result.stdout.splitlines() if line.startswith("llama3.1-8b Offline ")]
    assert len(lines) == 1 and lines[0].endswith(": No space left on device"), result.stdout
    assert not (folder / RESERVED_FILE).exists()


def test_a_curve_that_fills_the_disk_goes_on_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_client(tmp_path / "client")
    monkeypatch.setenv("MADE_CLIENT", str(tmp_path / "client"))
    server = StandIn(model=str(embedded_model_dir()), max_model_len=8192)
    with stand_in_server(server) as running:
        curve = (
            *("--series=endpoints", f"--endpoint={running.url}", "--client=inference-endpoint"),
            *("-p", "meta_tests.features.endpoints.official_client_plugin"),
            *("-p", "no:cacheprovider"),
        )
        results = ("--results-dir", str(tmp_path / "disk" / "results"))
        result = own_disk(tmp_path, 1200, *PYTEST, *curve, *results)
        assert result.returncode == 1, result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr
        (folder,) = (tmp_path / "kept").glob("2*")
        summary = read_summary(folder)
        assert summary is not None and summary.meta.status == "failed"
        assert "no space left" in (summary.meta.reason or "").lower(), summary.meta.reason
        run = run_suite(tmp_path / "kept", *curve)
    assert f"{folder.name}: an unfinished curve: goes on with its " in run.output
