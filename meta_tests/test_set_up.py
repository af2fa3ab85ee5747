"""make setup: which build it installs, on a Python that only writes down what it is asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
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


def prepare(folder: Path) -> None:
    """A copy of what the script needs, with a Python that writes down."""
    for name in ("scripts", "requirements", "mlperf_suite"):
        (folder / name).mkdir()
    for file in ("scripts/set_up.sh", "pyproject.toml", "mlperf_suite/assets.py"):
        shutil.copy(ROOT / file, folder / file)
    for lock in ("cpu", "gpu", "assets"):
        (folder / "requirements" / f"{lock}.lock").write_text(f"{lock}\n")
    (folder / ".assets").mkdir()
    (folder / "python").write_text(_PYTHON)
    (folder / "python").chmod(0o755)


def test_the_build_that_is_there_stays(tmp_path: Path) -> None:
    prepare(tmp_path)
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


def test_what_it_says_are_lines(tmp_path: Path) -> None:
    """Each of them says what comes now, and how much of it."""
    prepare(tmp_path)
    _, said = set_up(tmp_path, BUILD="gpu")
    assert [line for line in said.splitlines() if not line.startswith("set-up: ")] == []
    assert "packages of requirements/gpu.lock (about 10 GB on disk" in said
    assert (
        "packages of requirements/cpu.lock (about 3 GB on disk" in set_up(tmp_path, BUILD="cpu")[1]
    )


_BARS = """
from mlperf_suite.assets import _no_bars_in_a_log
_no_bars_in_a_log()
from tqdm.auto import tqdm
for _ in tqdm(range(300), mininterval=0):
    pass
"""


def test_progress_bars_stay_out_of_a_log() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BARS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
