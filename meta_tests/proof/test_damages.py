"""The published table of damages: a row for each, and words for the rules that see it.

That each is seen by its rules alone is tested with the judging of submissions.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlperf_suite.benchmarks.rounds import ROUNDS
from proof import damages
from proof.damages import DAMAGES, own_verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "submission.md"


def test_the_page_has_a_row_for_each_damage() -> None:
    rows = re.findall(r"^\| (.+?) \| (?:passes|fails|traceback)", PAGE.read_text(), re.MULTILINE)
    assert rows == list(DAMAGES)
    assert len(rows) > 25


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ([], "passes"),
        (["seeds"], "`seeds`"),
        (list("abcdefg"), "`a`, `b`, `c`, `d`, `e` and 2 more"),
    ],
)
def test_the_rules_that_fail_are_told_in_a_few_words(
    monkeypatch: pytest.MonkeyPatch, broken: list[str], said: str
) -> None:
    monkeypatch.setattr(damages, "broken_rules", lambda root, round_: broken)
    assert own_verdict(Path("tree"), ROUNDS["v6.1"]) == said
