"""make bfcl, make stacks and make endpoints-client, and a Python that uv brings: what is built,
once, and each bad end, on a Python that only writes down what it is asked."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from evidence.set_up.set_up_runs import copy_of_suite, run_script, write_program, write_python

BFCL, STACKS, CLIENT = "set_up_bfcl.sh", "set_up_stacks.sh", "set_up_endpoints_client.sh"
_VENV = '"-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;'
_BFCL = """
  "-m venv .bfcl") mkdir -p .bfcl/bin && cp "$0" .bfcl/bin/python ;;
  *" install "*) exit {pip} ;;
  "-c from bfcl_eval"*) exit {starts} ;;
"""
_STACKS = """
  "-m venv .venv-llama-cpp") mkdir -p .venv-llama-cpp/bin && cp "$0" .venv-llama-cpp/bin/python ;;
  "-m mlperf_suite.assets gguf") touch .assets/model.gguf ;;
"""
_CLIENT = """
  "-c import sys, ensurepip"*"(3, 12)"*) exit {newer} ;;
  "-c import sysconfig"*) echo .endpoints-client ;;
  "-m venv .endpoints-client")
    mkdir -p .endpoints-client/bin && cp "$0" .endpoints-client/bin/python
    printf '#!/bin/sh\\necho 0.1.0\\n' > .endpoints-client/bin/inference-endpoint
    chmod +x .endpoints-client/bin/inference-endpoint ;;
  *" install "*) exit {pip} ;;
"""


def path_without(folder: Path, *names: str) -> Path:
    """A folder with the system's programs but those whose names begin so."""
    folder.mkdir()
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith(names):
            (folder / program.name).symlink_to(program)
    return folder


def test_uv_brings_a_python_where_there_is_none(tmp_path: Path) -> None:
    suite = copy_of_suite(tmp_path / "suite", "scripts/set_up.sh", "pyproject.toml")
    write_python(suite, _VENV)
    (suite / ".assets").mkdir()
    (suite / "requirements").mkdir()
    (suite / "requirements" / "cpu.lock").write_text("cpu\n")
    programs = path_without(suite / "bin", "python", "uv")
    without_python = {"PATH": str(programs), "PYTHON": ""}
    assert (
        "and no uv to install one: set PYTHON="
        in run_script(suite, "set_up.sh", **without_python)[2]
    )
    write_program(programs / "uv", "exit 2\n")
    assert (
        "uv could not download Python 3.12" in run_script(suite, "set_up.sh", **without_python)[2]
    )
    note = 'echo "uv $@ into $UV_PYTHON_INSTALL_DIR" >> asked\n'
    place = ".python/cpython-3.12.9-linux/bin"
    write_program(programs / "uv", f"{note}mkdir -p {place} && cp python {place}/python3.12\n")
    status, requests, output = run_script(suite, "set_up.sh", **without_python)
    assert status == 0, output
    assert "found no Python 3.11 to 3.13" in output
    assert f"uv python install --quiet --no-bin 3.12 into {suite}/.python\n" in requests
    (suite / "requirements" / "cpu.lock").write_text("newer\n")
    status, requests, output = run_script(suite, "set_up.sh", **without_python)
    assert (status, "uv python" in requests) == (0, False), output


def test_bfcl_is_installed_once_and_a_bad_end_is_said(tmp_path: Path) -> None:
    copy_of_suite(tmp_path, f"scripts/{BFCL}")
    for pip, starts, words in ((1, 0, "could not install bfcl-eval"), (0, 1, "does not start")):
        write_python(tmp_path, _BFCL.format(pip=pip, starts=starts))
        status, _, output = run_script(tmp_path, BFCL)
        assert (status, words in output) == (1, True)
    write_python(tmp_path, _BFCL.format(pip=0, starts=0))
    status, requests, output = run_script(tmp_path, BFCL)
    assert status == 0, output
    assert "-m venv .bfcl\n" in requests
    assert "install -q bfcl-eval==2026.3.23 soundfile\n" in requests
    assert output.endswith("bfcl: .bfcl/bin/python\n")
    assert run_script(tmp_path, BFCL) == (0, "", "")


def test_a_stack_is_installed_once_in_its_own_environment(tmp_path: Path) -> None:
    copy_of_suite(tmp_path, f"scripts/{STACKS}", "requirements/llama-cpp.lock")
    (tmp_path / ".assets").mkdir()
    write_python(tmp_path, _STACKS, ".venv/bin/python")
    path = str(path_without(tmp_path / "bin", "g++"))
    status, requests, output = run_script(tmp_path, STACKS, PATH=path)
    assert (status, requests) == (1, "")
    assert "there is no g++: apt-get install g++" in output
    write_program(tmp_path / "bin" / "g++", "")
    status, requests, output = run_script(tmp_path, STACKS, PATH=path)
    assert status == 0, output
    assert "-m venv .venv-llama-cpp\n" in requests
    assert "install -qq --no-deps --no-cache-dir -r requirements/llama-cpp.lock\n" in requests
    assert "-m mlperf_suite.assets gguf\n" in requests
    assert run_script(tmp_path, STACKS, PATH=path) == (0, "", "")
    (tmp_path / "requirements" / "llama-cpp.lock").write_text("llama-cpp-python==2\n")
    assert "-m venv" in run_script(tmp_path, STACKS, PATH=path)[1]


def git(folder: Path, *words: str) -> str:
    """What git prints in that folder, as an author of its own."""
    author = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    return subprocess.run(
        ["git", "-C", folder, *author, *words], capture_output=True, text=True, check=True
    ).stdout.strip()


def commit_client(checkout: Path, text: str = "", name: str = "inference-endpoint") -> str:
    """The next commit of a checkout that names itself as the client's does."""
    checkout.mkdir(exist_ok=True)
    git(checkout, "init", "-q")
    (checkout / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n{text}')
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "client")
    return git(checkout, "rev-parse", "HEAD")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with the client's script and an interpreter that fits."""
    write_python(copy_of_suite(tmp_path / "suite", f"scripts/{CLIENT}"), installation_status())
    return tmp_path / "suite"


def installation_status(*, newer: int = 0, pip: int = 0) -> str:
    """The exit status of "is it 3.12 or newer" and of pip's install."""
    return _CLIENT.format(newer=newer, pip=pip)


def test_the_clients_commit_is_built_once_and_named(suite: Path, tmp_path: Path) -> None:
    checkout, built = tmp_path / "checkout", suite / ".endpoints-client"
    build = partial(run_script, suite, CLIENT, CHECKOUT=str(checkout))
    commit = commit_client(checkout)
    write_python(suite, installation_status(pip=1))
    status, _, output = build()
    assert (status, "pip could not install commit" in output) == (1, True)
    write_python(suite, installation_status())
    status, requests, output = build()
    assert status == 0, output
    assert "install -q -e .endpoints-client/source aiohttp evaluate nltk rouge_score\n" in requests
    program = ".endpoints-client/bin/inference-endpoint"
    assert output.endswith(f"{program}, version 0.1.0, commit {commit}\n")
    assert f"tried was commit ea332753, this is {commit[:8]}" in output
    assert git(built / "source", "rev-parse", "HEAD") == commit
    assert "-m venv" not in build()[1]
    later = commit_client(checkout, "# later\n")
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# not committed\n")
    status, requests, output = build()
    assert (status, "-m venv" in requests, f"commit {later}" in output) == (0, True, True)
    assert "that are not committed are left out" in output
    assert "not committed" not in (built / "source" / "pyproject.toml").read_text()


def test_on_python_3_11_a_bare_repository_is_built_with_bounds(suite: Path, tmp_path: Path) -> None:
    commit = commit_client(tmp_path / "checkout")
    git(tmp_path, "clone", "-q", "--bare", "checkout", "bare")
    write_python(suite, installation_status(newer=1))
    status, requests, output = run_script(suite, CLIENT, CHECKOUT=str(tmp_path / "bare"))
    assert (status, f"commit {commit}" in output) == (0, True), output
    assert "--ignore-requires-python -c .endpoints-client/constraints.txt" in requests
    assert "numpy<2.4" in (suite / ".endpoints-client" / "constraints.txt").read_text()
    assert "eager_task_factory" in (suite / ".endpoints-client" / "eager_tasks.pth").read_text()


def test_a_checkout_of_evaluate_brings_the_clients_rouge(suite: Path, tmp_path: Path) -> None:
    commit_client(tmp_path / "checkout")
    rouge = Path("metrics/rouge/rouge.py")
    build = partial(run_script, suite, CLIENT, CHECKOUT=str(tmp_path / "checkout"))
    status, _, output = build(EVALUATE=str(tmp_path))
    assert (status, "has no metrics/rouge/rouge.py" in output) == (1, True)
    (tmp_path / rouge).parent.mkdir(parents=True)
    (tmp_path / rouge).write_text("# rouge\n")
    assert build()[0] == 0
    copy = suite / ".endpoints-client" / rouge
    assert not copy.exists()
    # Of a client that is built already, too.
    status, requests, output = build(EVALUATE=str(tmp_path))
    assert (status, "-m venv" in requests, copy.read_text()) == (0, False, "# rouge\n"), output


def test_another_checkout_than_the_clients_is_refused_in_a_line(
    suite: Path, tmp_path: Path
) -> None:
    commit_client(tmp_path / "another", name="another")
    for checkout, message in (
        ("", "no checkout: git clone https://github.com/mlcommons/endpoints DIR"),
        (tmp_path / "nowhere", "nowhere is no git checkout with a commit"),
        (tmp_path / "another", "another is no checkout of mlcommons/endpoints"),
    ):
        status, requests, output = run_script(suite, CLIENT, CHECKOUT=str(checkout))
        assert (status, requests, output.count("\n")) == (1, "", 1)
        assert message in output
