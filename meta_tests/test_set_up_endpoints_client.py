"""make endpoints-client: what is built, of which commit, and its bad ends, on a stand-in for
Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT

SCRIPT = "set_up_endpoints_client.sh"
_PYTHON = """#!/bin/sh
echo "$@" >> asked
case "$*" in
  "-c import sys, ensurepip"*"(3, 12)"*) exit {newer} ;;
  "-c import sysconfig"*) echo .endpoints-client ;;
  "-V") echo Python of the stand-in ;;
  "-m venv .endpoints-client")
    mkdir -p .endpoints-client/bin && cp "$0" .endpoints-client/bin/python
    printf '#!/bin/sh\\necho 0.1.0\\n' > .endpoints-client/bin/inference-endpoint
    chmod +x .endpoints-client/bin/inference-endpoint ;;
  *" install "*) exit {pip} ;;
esac
"""


def git(folder: Path, *words: str) -> str:
    """What git prints in that folder, as an author of its own."""
    author = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    return subprocess.run(
        ["git", "-C", folder, *author, *words], capture_output=True, text=True, check=True
    ).stdout.strip()


def commit_client(checkout: Path, text: str = "") -> str:
    """The next commit of a checkout that names itself as the client's does."""
    checkout.mkdir(exist_ok=True)
    git(checkout, "init", "-q")
    (checkout / "pyproject.toml").write_text(f'[project]\nname = "inference-endpoint"\n{text}')
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "client")
    return git(checkout, "rev-parse", "HEAD")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with the script and an interpreter that fits."""
    folder = tmp_path / "suite"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / SCRIPT).write_bytes((ROOT / "scripts" / SCRIPT).read_bytes())
    write_python(folder)
    return folder


def write_python(folder: Path, *, newer: int = 0, pip: int = 0) -> None:
    """The stand-in for Python: the exit status of "is it 3.12 or newer" and of pip's install."""
    python = folder / "python"
    python.write_text(_PYTHON.format(newer=newer, pip=pip))
    python.chmod(0o755)


def set_up(folder: Path, checkout: Path | str, evaluate: Path | str = "") -> tuple[int, str, str]:
    """Run it: its exit status, what Python was asked, and what it printed."""
    requests = folder / "asked"
    requests.write_text("")
    run = subprocess.run(
        ["/bin/bash", folder / "scripts" / SCRIPT],
        env={
            "PATH": os.defpath,
            "HOME": str(folder),
            "PYTHON": "./python",
            "CHECKOUT": str(checkout),
            "EVALUATE": str(evaluate),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return run.returncode, requests.read_text(), run.stdout + run.stderr


def test_the_commit_is_built_once_and_named(suite: Path, tmp_path: Path) -> None:
    commit = commit_client(tmp_path / "checkout")
    status, requests, output = set_up(suite, tmp_path / "checkout")
    assert status == 0, output
    assert "install -q -e .endpoints-client/source aiohttp evaluate nltk rouge_score\n" in requests
    assert output.endswith(
        f".endpoints-client/bin/inference-endpoint, version 0.1.0, commit {commit}\n"
    )
    assert git(suite / ".endpoints-client" / "source", "rev-parse", "HEAD") == commit
    assert "-m venv" not in set_up(suite, tmp_path / "checkout")[1]
    later = commit_client(tmp_path / "checkout", "# later\n")
    status, requests, output = set_up(suite, tmp_path / "checkout")
    assert (status, "-m venv" in requests, f"commit {later}" in output) == (0, True, True)


def test_a_commit_that_was_not_tried_and_changes_of_no_commit_are_said(
    suite: Path, tmp_path: Path
) -> None:
    commit = commit_client(tmp_path / "checkout")
    with (tmp_path / "checkout" / "pyproject.toml").open("a") as file:
        file.write("# not committed\n")
    status, _, output = set_up(suite, tmp_path / "checkout")
    assert status == 0
    assert f"tried was commit ea332753, this is {commit[:8]}" in output
    assert "that are not committed are left out" in output
    built = suite / ".endpoints-client" / "source" / "pyproject.toml"
    assert "not committed" not in built.read_text()


def test_a_bare_repository_is_built_too(suite: Path, tmp_path: Path) -> None:
    commit = commit_client(tmp_path / "checkout")
    git(tmp_path, "clone", "-q", "--bare", "checkout", "bare")
    status, _, output = set_up(suite, tmp_path / "bare")
    assert (status, f"commit {commit}" in output) == (0, True), output


def test_on_python_3_11_the_bounds_and_the_missing_factory_are_set(
    suite: Path, tmp_path: Path
) -> None:
    commit_client(tmp_path / "checkout")
    write_python(suite, newer=1)
    status, requests, output = set_up(suite, tmp_path / "checkout")
    assert status == 0, output
    assert "--ignore-requires-python -c .endpoints-client/constraints.txt" in requests
    assert "numpy<2.4" in (suite / ".endpoints-client" / "constraints.txt").read_text()
    assert "eager_task_factory" in (suite / ".endpoints-client" / "eager_tasks.pth").read_text()


def test_a_checkout_of_evaluate_brings_the_clients_rouge(suite: Path, tmp_path: Path) -> None:
    commit_client(tmp_path / "checkout")
    evaluate = tmp_path / "evaluate"
    status, _, output = set_up(suite, tmp_path / "checkout", evaluate)
    assert (status, "has no metrics/rouge/rouge.py" in output) == (1, True)
    (evaluate / "metrics" / "rouge").mkdir(parents=True)
    (evaluate / "metrics" / "rouge" / "rouge.py").write_text("# rouge\n")
    assert set_up(suite, tmp_path / "checkout")[0] == 0
    copy = suite / ".endpoints-client" / "metrics" / "rouge" / "rouge.py"
    assert not copy.exists()
    # Of a client that is built already, too.
    status, requests, output = set_up(suite, tmp_path / "checkout", evaluate)
    assert (status, "-m venv" in requests, copy.read_text()) == (0, False, "# rouge\n"), output


def test_an_install_that_fails_leaves_nothing_that_counts_as_built(
    suite: Path, tmp_path: Path
) -> None:
    commit_client(tmp_path / "checkout")
    write_python(suite, pip=1)
    status, _, output = set_up(suite, tmp_path / "checkout")
    assert (status, "pip could not install commit" in output) == (1, True)
    write_python(suite)
    assert "-m venv" in set_up(suite, tmp_path / "checkout")[1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "no checkout: git clone https://github.com/mlcommons/endpoints DIR"),
        ("nowhere", "nowhere is no git checkout with a commit"),
        ("another", "another is no checkout of mlcommons/endpoints"),
    ],
)
def test_a_checkout_of_something_else_is_refused_in_a_line(
    suite: Path, tmp_path: Path, name: str, message: str
) -> None:
    commit_client(tmp_path / "another")
    (tmp_path / "another" / "pyproject.toml").write_text('[project]\nname = "another"\n')
    git(tmp_path / "another", "commit", "-q", "-a", "-m", "another")
    status, requests, output = set_up(suite, tmp_path / name if name else "")
    assert (status, requests, output.count("\n")) == (1, "", 1)
    assert message in output
