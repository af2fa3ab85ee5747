"""The program that makes the pages of docs/evidence again knows each page and each program."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest

from evidence.pages import programs
from evidence.pages.programs import NOT_MADE, PROGRAMS, Program, outcome
from evidence.tables import COMMITTED


def test_each_page_is_made_or_says_why_not() -> None:
    assert sorted([*PROGRAMS, *NOT_MADE]) == sorted(path.name for path in COMMITTED.glob("*.md"))
    for program in chain.from_iterable(PROGRAMS.values()):
        assert find_spec(program.module), program.module


@pytest.mark.parametrize(
    ("program", "holds", "words"),
    [
        ("", True, "the same"),
        ("open(page, 'a').write('| one row |\\n')", False, "differs\n  +| one row |"),
        ("sys.exit('no tree')", False, "ended with an error: made: no tree"),
    ],
)
def test_a_page_is_the_same_differs_or_was_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, holds: bool, words: str
) -> None:
    page = "forgeries.md"
    (tmp_path / page).write_bytes((COMMITTED / page).read_bytes())
    (tmp_path / "made.py").write_text(
        f"import os, sys\npage = os.environ['EVIDENCE_PAGES'] + '/{page}'\n{program}"
    )
    monkeypatch.setitem(PROGRAMS, page, (Program("made"),))
    monkeypatch.setattr(programs, "SUITE_FOLDER", tmp_path)
    assert outcome(page, tmp_path) == (holds, words)
