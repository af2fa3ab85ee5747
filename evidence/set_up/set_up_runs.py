"""A script that sets up, in a folder of its own, on a Python that writes down what it is asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from meta_tests.suite_runs import ROOT


def write_program(path: Path, text: str) -> None:
    """A program of the shell, which `text` says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def write_python(folder: Path, cases: str, path: str = "python") -> None:
    """A Python that does what the `cases` of a shell say; any other request succeeds."""
    note = f'echo "$@" >> {folder}/asked\n'
    write_program(folder / path, f'{note}case "$*" in\n{cases}\nesac\n')


def copy_of_suite(folder: Path, *files: str) -> Path:
    """A folder with these files of the repository."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    return folder


def run_script(
    folder: Path, script: str, *arguments: str, **environment: str
) -> tuple[int, str, str]:
    """Run a script: its exit status, what Python was asked, and all that it printed."""
    requests = folder / "asked"
    requests.write_text("")
    base = {"PATH": "/usr/bin:/bin", "PYTHON": str(folder / "python"), "HOME": str(folder)}
    run = subprocess.run(
        ["/bin/bash", folder / "scripts" / script, *arguments],
        env=base | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    return run.returncode, requests.read_text(), run.stdout
