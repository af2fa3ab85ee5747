"""make setup with pip itself, which is asked to do all but the writing: packages it refuses."""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from evidence.set_up.set_up_runs import copy_of_suite, run_script, write_python

_CASES = f"""
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"-m pip"*"-r "*) exec {sys.executable} "$@" --dry-run --ignore-installed ;;
"""


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


def _install(folder: Path, lock: str) -> tuple[int, str]:
    (folder / "requirements" / "gpu.lock").write_text(lock)
    wheels = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels")}
    status, _, output = run_script(
        folder, "set_up.sh", "packages", BUILD="gpu", PIP_CONFIG_FILE="/dev/null", **wheels
    )
    return status, output


@pytest.fixture
def with_pip(tmp_path: Path) -> Path:
    copy_of_suite(tmp_path, "scripts/set_up.sh", "pyproject.toml", "requirements/assets.lock")
    write_python(tmp_path, _CASES)
    (tmp_path / "wheels").mkdir()
    return tmp_path


def test_a_swapped_package_is_refused(with_pip: Path) -> None:
    locked = _wheel(with_pip / "wheels", "setuptools", "80.0")
    lock = f"setuptools==80.0 \\\n    --hash=sha256:{locked}\n"
    assert _install(with_pip, lock)[0] == 0
    (with_pip / "requirements" / "gpu.lock").write_text("")
    swapped = lock.replace(locked, hashlib.sha256(b"as it was locked").hexdigest())
    status, output = _install(with_pip, swapped)
    assert status == 1
    assert "DO NOT MATCH THE HASHES" in output
    assert output.splitlines()[-1].startswith("set-up: pip could not install")
    assert not (with_pip / ".venv" / ".packages").exists()


def test_a_package_without_a_hash_is_refused(with_pip: Path) -> None:
    _wheel(with_pip / "wheels", "setuptools", "80.0")
    status, output = _install(with_pip, "setuptools==80.0\n")
    assert status == 1
    assert "Hashes are required" in output


def test_the_gpu_build_does_not_take_a_torch_for_the_cpu(with_pip: Path) -> None:
    """2.13.0+cpu is a 2.13.0 to pip, and the later one of the two."""
    own = _wheel(with_pip / "wheels", "torch", "2.13.0")
    _wheel(with_pip / "wheels", "torch", "2.13.0+cpu")
    lock = f"torch{{}}2.13.0 \\\n    --hash=sha256:{own}\n"
    assert _install(with_pip, lock.format("==="))[0] == 0
    assert _install(with_pip, lock.format("=="))[0] == 1
