"""make setup: which build it installs, on a Python that only writes down what it is asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from meta_tests.conftest import ROOT

_PYTHON = """#!/bin/sh
echo "$@" >> asked
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""


def set_up(folder: Path, **environment: str) -> tuple[list[str], str]:
    """Run the script in a folder; the locks that were installed, and what it said."""
    asked = folder / "asked"
    asked.write_text("")
    path = {"PATH": "/usr/bin:/bin", "PYTHON": str(folder / "python")}
    run = subprocess.run(
        [folder / "scripts" / "set_up.sh"],
        env=path | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [w for w in asked.read_text().split() if w.endswith(".lock")], run.stdout


def test_the_build_that_is_there_stays(tmp_path: Path) -> None:
    for folder in ("scripts", "requirements", "mlperf_suite"):
        (tmp_path / folder).mkdir()
    for file in ("scripts/set_up.sh", "pyproject.toml", "mlperf_suite/assets.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    for lock in ("cpu", "gpu", "assets"):
        (tmp_path / "requirements" / f"{lock}.lock").write_text(f"{lock}\n")
    (tmp_path / ".assets").mkdir()
    (tmp_path / "python").write_text(_PYTHON)
    (tmp_path / "python").chmod(0o755)
    cpu, gpu = ["requirements/cpu.lock"], ["requirements/gpu.lock"]
    assert set_up(tmp_path)[0] == cpu
    assert set_up(tmp_path) == ([], "")
    (tmp_path / ".venv" / "of the cpu build").touch()
    installed, said = set_up(tmp_path, BUILD="gpu")
    assert installed == gpu
    assert "the cpu build in .venv makes room for the gpu build" in said
    assert not (tmp_path / ".venv" / "of the cpu build").exists()
    assert set_up(tmp_path) == ([], "")
    (tmp_path / "requirements" / "gpu.lock").write_text("newer\n")
    assert set_up(tmp_path)[0] == gpu
