"""The image's files: what can be seen of them without building it."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml

from meta_tests.suite_runs import ROOT


def test_the_image_is_made_of_layers_that_last() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    packages, assets, code = (
        text.index(line) for line in ("set_up.sh packages", "set_up.sh assets", "COPY . .")
    )
    assert packages < assets < code
    set_ups = re.findall(r"^(?:RUN | && )(.*)scripts/set_up\w*\.sh", text, re.MULTILINE)
    assert len(set_ups) == 4 and set(set_ups) == {"PIP_NO_CACHE_DIR=1 "}
    (user,) = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert int(user.split(":")[0]) > 0
    copied = re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE)
    assert all((ROOT / source).exists() for line in copied for source in line.split())


def test_the_image_can_send_results_to_mlflow() -> None:
    """The lock of its client has all that neither build's lock has."""
    install = (
        "pip install -qq --no-cache-dir --no-deps --require-hashes -r requirements/mlflow.lock"
    )
    assert install in (ROOT / "Dockerfile").read_text()
    of_client, *builds = (
        set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / f"{name}.lock").read_text(), re.M))
        for name in ("mlflow", "cpu", "gpu")
    )
    assert not of_client & (builds[0] | builds[1])
    pytest.importorskip("mlflow", reason="MLflow's client is missing: make evidence")
    for package in of_client:
        needed = [need for need in requires(package) or () if "extra ==" not in need]
        names = {re.split(r"[^\w.-]", need)[0].lower().replace("_", "-") for need in needed}
        assert all(names <= of_client | build for build in builds), package


def test_services_use_the_image_and_write_where_people_mount() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for service in services.values():
        assert service["image"] == "mlperf-suite"
        mounts = {volume["source"]: volume for volume in service["volumes"]}
        assert mounts["./results"]["target"] == "/app/results"
        # Docker makes a folder that is missing as root: then nothing can be written there.
        assert not any(volume["bind"]["create_host_path"] for volume in mounts.values())
        assert service["env_file"] == [{"path": ".env", "required": False}]
    assert services["check"]["entrypoint"] == ["/app/scripts/health.sh"]
    assert services["client"]["depends_on"] == {"server": {"condition": "service_healthy"}}


def test_what_is_mounted_is_made_before() -> None:
    """By the reader, on each page that mounts it, in a line above the first command that does."""
    for page in [ROOT / "README.md", ROOT / "Dockerfile", *(ROOT / "docs").rglob("*.md")]:
        lines = [line.strip("# ") for line in page.read_text().replace("\\\n", " ").splitlines()]
        runs = [line for line in lines if re.match(r"docker (run|compose .*run) .*results", line)]
        if runs:
            made = next(line for line in lines if line.startswith("mkdir -p results"))
            assert lines.index(made) < lines.index(runs[0]), page


def test_the_health_check_disturbs_no_run(tmp_path: Path) -> None:
    """Where a run is under way, as this one is to it, it starts none of its own."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "health.sh").write_text((ROOT / "scripts" / "health.sh").read_text())
    running = subprocess.Popen(["bash", "-c", "exec -a 'python -m pytest -m offline' sleep 3600"])
    try:
        process = subprocess.run(
            ["bash", folder / "health.sh"], capture_output=True, text=True, check=False, timeout=600
        )
    finally:
        running.kill()
        running.wait()
    assert (process.returncode, process.stdout) == (0, "a run is under way\n")
