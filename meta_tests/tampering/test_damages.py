"""The published table of damages: a row for each, and words for the rules that see it.

That each is seen by its rules alone is tested with the judging of submissions.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meta_tests.tampering import verdicts
from meta_tests.tampering.damages import DAMAGES, damages_of
from meta_tests.tampering.verdicts import own_verdict
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.rounds import ROUNDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, CHECKERS_PAGE = DOCS / "submission.md", DOCS / "evidence" / "official-checker.md"


def test_the_page_has_a_row_for_each_damage() -> None:
    rows = re.findall(r"^\| (.+?) \| (?:passes|fails|traceback)", PAGE.read_text(), re.MULTILINE)
    assert rows == list(DAMAGES)
    assert len(rows) > 25


def test_the_checkers_page_has_a_row_for_each_damage_to_gpt_oss_120b() -> None:
    text = CHECKERS_PAGE.read_text().partition("All cases of gpt-oss-120b")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (.+?) \| (?:passes|fails|traceback)", text, re.MULTILINE)
    assert rows == list(damages_of(BENCHMARKS["gpt-oss-120b"], ROUNDS["v6.1"]))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([], "passes"),
        (["seeds"], "`seeds`"),
        (list("abcdefg"), "`a`, `b`, `c`, `d`, `e` and 2 more"),
    ],
)
def test_the_rules_that_fail_are_told_in_a_few_words(
    monkeypatch: pytest.MonkeyPatch, rules: list[str], words: str
) -> None:
    monkeypatch.setattr(verdicts, "broken_rules", lambda root, round_: rules)
    assert own_verdict(Path("tree"), ROUNDS["v6.1"]) == words
