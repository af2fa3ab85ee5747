"""Runs made to harm: their comparison says what they say in bounded time, or refuses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evidence.hostile_runs.poisoned_folders import (
    ANY_NAME,
    POISONS,
    check_is_text,
    check_shown,
    poison_run,
    run_in_bounds,
    write_all_unreadable,
)
from meta_tests.reports.hostile_runs import TEXT
from meta_tests.reports.kept_run import write_kept
from meta_tests.reports.outputs import HOSTILE
from mlperf_suite.__main__ import main


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
def test_anything_is_told_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], poison: Any
) -> None:
    first = str(write_kept(tmp_path / "first"))
    second = str(poison_run(write_kept(tmp_path / "second"), poison))
    outputs = ("--plot", str(tmp_path / "a.png"), "--html", str(tmp_path / "a.html"))
    for runs in ((first, second), (second, second)):
        assert main(["compare", *runs, *outputs, "--gate"]) in (0, 1, 2)
    check_shown(tmp_path, *capsys.readouterr())


@pytest.mark.filterwarnings("ignore")
def test_whatever_a_run_says_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # What both have is not shown: only the first is one that harms.
    first, second = poison_run(write_kept(tmp_path / "a"), TEXT), write_kept(tmp_path / "b")
    answers = {"samples": [{"index": 7, "answer": f"another {HOSTILE}"}]}
    (first / "Accuracy" / "answers.json").write_text(json.dumps(answers))
    outputs = ("--plot", str(tmp_path / "a.svg"), "--html", str(tmp_path / "a.html"))
    assert main(["compare", str(first), str(second), *outputs, "--gate"]) == 1
    check_shown(tmp_path, *capsys.readouterr())
    check_is_text(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_a_folder_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    above = tmp_path / ANY_NAME
    folder, other = str(write_kept(above / ANY_NAME)), str(write_kept(tmp_path / "other"))
    page = ("--plot", str(above / "a.png"), "--html", str(above / "a.html"))
    assert main(["compare", folder, other, *page]) == 0
    assert main(["compare", folder, str(above / "none")]) == 2
    check_shown(tmp_path, *capsys.readouterr())


def test_it_reads_nothing_that_never_ends(tmp_path: Path) -> None:
    runs = write_all_unreadable(tmp_path / "results")
    other = str(write_kept(tmp_path / "other"))
    run_in_bounds(f"""
import os
from mlperf_suite.__main__ import main
os.chdir({str(tmp_path)!r})
main(["compare", {other!r}, *{runs[1:]!r}, "--gate"])
""")
