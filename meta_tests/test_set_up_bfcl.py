"""make bfcl: what is installed, once, and its bad ends, on a stand-in for Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT

SCRIPT = "set_up_bfcl.sh"
_PYTHON = """#!/bin/sh
echo "$@" >> "{log}"
case "$*" in
  "-m venv .bfcl") mkdir -p .bfcl/bin && cp "$0" .bfcl/bin/python ;;
  *" install "*) exit {pip} ;;
  "-c from bfcl_eval"*) exit {starts} ;;
esac
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / SCRIPT).write_bytes((ROOT / "scripts" / SCRIPT).read_bytes())
    return tmp_path


def set_up(folder: Path, *, pip: int = 0, starts: int = 0) -> tuple[int, str, str]:
    """Run it: its exit status, what Python was asked, and what it printed."""
    log, python = folder / "asked", folder / "python"
    log.write_text("")
    python.write_text(_PYTHON.format(log=log, pip=pip, starts=starts))
    python.chmod(0o755)
    run = subprocess.run(
        ["/bin/bash", folder / "scripts" / SCRIPT],
        env={"PATH": os.defpath, "PYTHON": "./python"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return run.returncode, log.read_text(), run.stdout + run.stderr


def test_it_is_installed_once_and_says_where(suite: Path) -> None:
    status, requests, output = set_up(suite)
    assert status == 0, output
    assert "install -q bfcl-eval==2026.3.23 soundfile\n" in requests
    assert output.endswith("bfcl: .bfcl/bin/python\n")
    assert set_up(suite) == (0, "", "")


@pytest.mark.parametrize(
    ("bad_end", "words"),
    [({"pip": 1}, "pip could not install bfcl-eval"), ({"starts": 1}, "does not start")],
)
def test_a_bad_end_is_said_and_the_next_start_begins_anew(
    suite: Path, bad_end: dict[str, int], words: str
) -> None:
    status, _, output = set_up(suite, **bad_end)
    assert (status, words in output) == (1, True)
    assert not (suite / ".bfcl" / ".set-up").exists()
    status, requests, _ = set_up(suite)
    assert (status, "-m venv .bfcl" in requests) == (0, True)
