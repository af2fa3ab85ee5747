"""make setup: which build it installs, on a Python that only writes down what it is asked, and with
pip itself where packages are refused."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT

_PYTHON = """#!/bin/sh
echo "$@" >> asked
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "scripts/check_machine.py "*) exec {machine} ;;
  *"-m pip"*"-r "*) {pip} ;;
esac
"""


def run_set_up(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the script in a folder; what the Python was asked is in the file `asked`."""
    (folder / "asked").write_text("")
    path = {"PATH": "/usr/bin:/bin", "PYTHON": str(folder / "python"), "HOME": str(folder)}
    return subprocess.run(
        [folder / "scripts" / "set_up.sh", *arguments],
        env=path | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def set_up(folder: Path, *arguments: str, **environment: str) -> tuple[list[str], str]:
    """The locks that were installed, and what was said."""
    process = run_set_up(folder, *arguments, **environment)
    assert process.returncode == 0, process.stderr
    requests = (folder / "asked").read_text().split()
    return [
        w for w in requests if w.startswith("requirements/") and w.endswith(".lock")
    ], process.stdout


def prepare(folder: Path, *, machine: str = "/bin/true", pip: str = "true") -> None:
    """A copy of what the script needs, with a Python that writes down.

    `machine` and `pip`: what runs in place of the look at the machine, and of pip.
    """
    for name in ("scripts", "requirements", "mlperf_suite"):
        (folder / name).mkdir()
    for file in ("scripts/set_up.sh", "pyproject.toml", "mlperf_suite/assets.py"):
        shutil.copy(ROOT / file, folder / file)
    for lock in ("cpu", "gpu", "assets"):
        (folder / "requirements" / f"{lock}.lock").write_text(f"{lock}\n")
    (folder / ".assets").mkdir()
    (folder / "python").write_text(_PYTHON.format(machine=machine, pip=pip))
    (folder / "python").chmod(0o755)


def test_the_build_that_is_there_stays(tmp_path: Path) -> None:
    prepare(tmp_path)
    cpu, gpu = ["requirements/cpu.lock"], ["requirements/gpu.lock"]
    installed, output = set_up(tmp_path)
    assert installed == cpu
    # Each line says what comes now, and how much of it.
    assert [line for line in output.splitlines() if not line.startswith("set-up: ")] == []
    assert "packages of requirements/cpu.lock (3.3 GB on disk" in output
    assert set_up(tmp_path) == ([], "")
    (tmp_path / ".venv" / "of the cpu build").touch()
    installed, output = set_up(tmp_path, BUILD="gpu")
    assert installed == gpu
    assert "replacing the cpu build in .venv with the gpu build" in output
    assert not (tmp_path / ".venv" / "of the cpu build").exists()
    assert set_up(tmp_path) == ([], "")
    (tmp_path / "requirements" / "gpu.lock").write_text("newer\n")
    assert set_up(tmp_path)[0] == gpu


def test_packages_are_installed_once_for_a_lock(tmp_path: Path) -> None:
    """An image has them in a layer of their own, below the code."""
    prepare(tmp_path)
    code = tmp_path / "mlperf_suite" / "assets.py"
    code.unlink()
    assert set_up(tmp_path, "packages")[0] == ["requirements/cpu.lock"]
    assert "mlperf_suite.assets" not in (tmp_path / "asked").read_text()
    assert set_up(tmp_path, "packages") == ([], "")
    code.write_text("changed")
    assert set_up(tmp_path, "assets")[0] == []
    requests = (tmp_path / "asked").read_text()
    assert "-m mlperf_suite.assets" in requests
    assert "-e ." not in requests
    assert set_up(tmp_path)[0] == []
    requests = (tmp_path / "asked").read_text()
    assert "-m mlperf_suite.assets" not in requests
    assert "-e ." in requests


def test_a_machine_that_does_not_fit_stops_it(tmp_path: Path) -> None:
    prepare(tmp_path, machine="/bin/false")
    process = run_set_up(tmp_path)
    assert process.returncode == 1
    assert process.stderr == "set-up: nothing was installed; SET_UP_ANYWAY=1 installs anyway\n"
    assert not (tmp_path / ".venv").exists()
    assert set_up(tmp_path, SET_UP_ANYWAY="1")[0] == ["requirements/cpu.lock"]


@pytest.mark.parametrize(
    ("environment", "output"),
    [
        ({"BUILD": "rocm"}, "set-up: BUILD=rocm: must be cpu or gpu\n"),
        (
            {"PYTHON": "/bin/false"},
            "set-up: PYTHON=/bin/false is : Python 3.11 to 3.13 is needed\n",
        ),
    ],
)
def test_what_is_asked_for_and_cannot_be_had(
    tmp_path: Path, environment: dict[str, str], output: str
) -> None:
    prepare(tmp_path)
    process = run_set_up(tmp_path, **environment)
    assert (process.returncode, process.stdout, process.stderr) == (1, "", output)


_UV = """#!/bin/sh
echo "uv $@ into $UV_PYTHON_INSTALL_DIR" >> asked
{then}
mkdir -p .python/cpython-3.12.9-linux/bin && cp python .python/cpython-3.12.9-linux/bin/python3.12
"""


def _without_python(folder: Path, uv: str | None) -> str:
    """A PATH with the programs of the script, no Python, and this uv."""
    programs = folder / "bin"
    programs.mkdir()
    for name in [
        "awk",
        "bash",
        "cat",
        "cp",
        "cut",
        "dirname",
        "env",
        "grep",
        "head",
        "ls",
        "mkdir",
        "rm",
        "sha256sum",
        "touch",
    ]:
        (programs / name).symlink_to(str(shutil.which(name)))
    if uv is not None:
        (programs / "uv").write_text(_UV.format(then=uv))
        (programs / "uv").chmod(0o755)
    return str(programs)


def test_uv_brings_a_python_where_there_is_none(tmp_path: Path) -> None:
    prepare(tmp_path)
    path = _without_python(tmp_path, "true")
    installed, output = set_up(tmp_path, PATH=path, PYTHON="")
    assert installed == ["requirements/cpu.lock"]
    assert "found no Python 3.11 to 3.13" in output
    requests = (tmp_path / "asked").read_text()
    assert f"uv python install --quiet --no-bin 3.12 into {tmp_path}/.python\n" in requests
    (tmp_path / "requirements" / "cpu.lock").write_text("newer\n")
    assert set_up(tmp_path, PATH=path, PYTHON="")[0] == ["requirements/cpu.lock"]
    assert "uv python" not in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(
    ("uv", "output"),
    [
        (None, "and no uv to install one: set PYTHON="),
        ("exit 2", "uv could not download Python 3.12"),
    ],
)
def test_no_python_and_none_to_be_had(tmp_path: Path, uv: str | None, output: str) -> None:
    prepare(tmp_path)
    process = run_set_up(tmp_path, PATH=_without_python(tmp_path, uv), PYTHON="")
    assert process.returncode == 1
    assert output in process.stderr
    assert len(process.stderr.splitlines()) == 1


# With pip itself, which is asked to do all but the writing.


def _wheel(folder: Path, name: str, version: str) -> str:
    """A wheel with nothing in it but its name; its sha256."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text)}\n"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in (files | {f"{info}/RECORD": record}).items():
            archive.writestr(path, text)
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def _install(folder: Path, lock: str) -> subprocess.CompletedProcess[str]:
    (folder / "requirements" / "gpu.lock").write_text(lock)
    return run_set_up(
        folder,
        "packages",
        BUILD="gpu",
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(folder / "wheels"),
        PIP_CONFIG_FILE="/dev/null",
    )


@pytest.fixture
def with_pip(tmp_path: Path) -> Path:
    prepare(tmp_path, pip=f'exec {sys.executable} "$@" --dry-run --ignore-installed')
    (tmp_path / "wheels").mkdir()
    return tmp_path


def test_a_swapped_package_is_refused(with_pip: Path) -> None:
    locked = _wheel(with_pip / "wheels", "setuptools", "80.0")
    lock = f"setuptools==80.0 \\\n    --hash=sha256:{locked}\n"
    assert _install(with_pip, lock).returncode == 0
    (with_pip / "requirements" / "gpu.lock").write_text("")
    swapped = lock.replace(locked, hashlib.sha256(b"as it was locked").hexdigest())
    process = _install(with_pip, swapped)
    assert process.returncode == 1
    assert "DO NOT MATCH THE HASHES" in process.stderr
    assert process.stderr.splitlines()[-1].startswith("set-up: pip could not install")
    assert not (with_pip / ".venv" / ".packages").exists()


def test_a_package_without_a_hash_is_refused(with_pip: Path) -> None:
    _wheel(with_pip / "wheels", "setuptools", "80.0")
    process = _install(with_pip, "setuptools==80.0\n")
    assert process.returncode == 1
    assert "Hashes are required" in process.stderr


def test_the_gpu_build_does_not_take_a_torch_for_the_cpu(with_pip: Path) -> None:
    """2.13.0+cpu is a 2.13.0 to pip, and the later one of the two."""
    own = _wheel(with_pip / "wheels", "torch", "2.13.0")
    _wheel(with_pip / "wheels", "torch", "2.13.0+cpu")
    lock = f"torch{{}}2.13.0 \\\n    --hash=sha256:{own}\n"
    assert _install(with_pip, lock.format("===")).returncode == 0
    assert _install(with_pip, lock.format("==")).returncode == 1


@pytest.mark.parametrize("name", ["cpu", "gpu", "llama-cpp", "uv", "assets"])
def test_each_line_of_a_lock_names_one_version_and_its_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.lock").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    wrong = [
        line[:80]
        for line in lines
        if not re.fullmatch(
            r"[a-z0-9.-]+===?[^ ;]+( ;[^#]*?)?( +--hash=sha256:[0-9a-f]{64})+ *", line
        )
    ]
    assert wrong == []
    locked = {line.split("=")[0]: line for line in lines}
    if name == "gpu":
        assert all(locked[line].startswith(f"{line}===") for line in ("torch", "torchvision"))
    if name == "cpu":
        # One for each of Python 3.11 to 3.13.
        assert locked["torch"].count("--hash") >= 3


# Tokens stay out of the repository and of the image.


def test_git_ignores_tokens(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    paths = [".env", ".env.local", "docker/.env", "a/b/.env.production"]
    command = ["git", "check-ignore", *paths]
    ignored = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert ignored.stdout.split() == paths


def test_an_image_takes_no_tokens_and_nothing_that_is_made() -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert not any(line.startswith("!") for line in patterns)
    # For Docker, a pattern without **/ holds at the top alone.
    assert {".env", ".env.*", "**/.env", "**/.env.*", ".git", ".venv", "results"} <= {*patterns}


_BARS = """
from mlperf_suite.assets import _no_bars_in_a_log
_no_bars_in_a_log()
from tqdm.auto import tqdm
for _ in tqdm(range(300), mininterval=0):
    pass
"""


def test_progress_bars_stay_out_of_a_log() -> None:
    process = subprocess.run(
        [sys.executable, "-c", _BARS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (process.stdout, process.stderr) == ("", "")
