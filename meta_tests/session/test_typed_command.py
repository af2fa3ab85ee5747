"""The command of a session in its summary and reports: as typed, to copy, without secrets."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from meta_tests.reports.kept_run import change_summary, write_kept
from mlperf_suite import secrets
from mlperf_suite.plugin.own_folder import RESTARTED
from mlperf_suite.reports.writing import write_reports
from mlperf_suite.session import typed_command as module
from mlperf_suite.session.typed_command import suite_commit, typed_command

SECRET = "it's a 'quoted' secret"


RUN = {"LANG": "C", "SERVER_TARGET_QPS": "1 2", "HF_TOKEN": SECRET}


@pytest.mark.parametrize(
    ("words", "environment", "typed"),
    [
        (["bin/pytest", "-m", "a b"], {}, "bin/pytest -m 'a b'"),
        (["/usr/x/pytest", "-q"], {}, "pytest -q"),
        (["/x/pytest/__main__.py", *RESTARTED, "-q"], {}, f"{sys.orig_argv[0]} -m pytest -q"),
        (["./mlperf-suite"], RUN, "SERVER_TARGET_QPS='1 2' ./mlperf-suite"),
        (["x", f"--header=A: {SECRET}"], {}, "x '--header=A: ***'"),
        (["x", "--endpoint", "http://me:pass-word@host"], {}, "x --endpoint 'http://me:***@host'"),
    ],
)
def test_a_command_is_as_it_was_typed_without_secrets(
    words: list[str], environment: dict[str, str], typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_secrets", set())
    secrets.remember(SECRET)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/x/{name}")
    assert typed_command(words, environment, RESTARTED) == typed


def test_the_commit_is_that_of_a_clone_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", "-C", str(tmp_path), *author, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setattr(module, "SUITE_FOLDER", tmp_path / "none")
    assert suite_commit.__wrapped__() is None
    monkeypatch.setattr(module, "SUITE_FOLDER", tmp_path)
    (tmp_path / "file").write_text("a")
    git("init", "-q")
    assert suite_commit.__wrapped__() is None
    git("add", "file")
    git("commit", "-qm", "a", "--no-gpg-sign")
    commit = git("rev-parse", "HEAD")
    assert suite_commit.__wrapped__() == commit
    (tmp_path / "file").write_text("b")
    assert suite_commit.__wrapped__() == f"{commit}-dirty"


def test_every_report_ends_with_what_reproduces_it(tmp_path: Path) -> None:
    run = write_kept(tmp_path / "run")
    command = "pytest -m offline --model '<b>```\\' --header '***'"
    meta = {"command": command, "suite_version": "1.2", "suite_commit": "0123abc-dirty"}
    change_summary(run, meta=meta)
    write_reports(run)
    text, page = (run / "report.md").read_text(), (run / "report.html").read_text()
    assert text.endswith(f"shown as \\*\\*\\*.\n\n    git checkout 0123abc\n    {command}\n")
    assert "with mlperf-suite 1.2. The clone had local changes" in text
    assert "<pre>git checkout 0123abc\npytest -m offline --model &#39;&lt;b&gt;```" in page
    assert "local changes" in page and "***" in page
    change_summary(run, meta={"command": None})
    write_reports(run)
    assert "Reproduce it" not in (run / "report.md").read_text()
