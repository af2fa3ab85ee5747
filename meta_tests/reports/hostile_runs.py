"""Texts made to harm, and files in which they stand for every text."""

import json
import re
from pathlib import Path
from typing import Any

from meta_tests.reports.outputs import HOSTILE, page_tags

UNPRINTED = "\x1b]0;title\x07\x1b[2J\x9b2J a\u202ebc\u2066 \ud83d and \udcff a\x00b"
FORMULA = r"$\frac{$ \$ $$"
LONG = f"{'x' * 30_000}\n" * 3 + "a\n" * 2000
TEXT = f"{UNPRINTED} {HOSTILE} {FORMULA} | {LONG[:20_000]}{LONG[-100:]}"
"""All at once."""
UNPRINTABLE = re.compile(r"[^\n\x20-\x7e\xa1-\ud7ff\ue000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")
_IN_A_PAGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# What decides whether a folder is read as a run at all.
_KEPT = {"schema_version", "benchmark", "scenario", "category", "status", "rule", "sha256"}


def poisoned(value: Any, poison: Any) -> Any:
    """The value with the poison for everything of its kind in it, and for names of members."""
    if isinstance(value, dict):
        inside = {k: v if k in _KEPT else poisoned(v, poison) for k, v in value.items()}
        return inside | ({poison[:500]: "a", "b": poison} if isinstance(poison, str) else {})
    if isinstance(value, list):
        return [poisoned(item, poison) for item in value]
    is_number = isinstance(poison, int | float)
    fits = isinstance(value, int | float) if is_number else isinstance(value, str)
    return poison if fits and not isinstance(value, bool) else value


def poison_file(path: Path, poison: Any) -> None:
    path.write_text(json.dumps(poisoned(json.loads(path.read_text()), poison)))


def check_texts(folder: Path) -> None:
    """Each text that was written can be shown."""
    for path in (*folder.rglob("*.md"), *folder.rglob("*.html")):
        forbidden = UNPRINTABLE if path.suffix == ".md" else _IN_A_PAGE
        assert not forbidden.search(path.read_text("utf-8")), path


def check_pages(folder: Path, pages: int) -> None:
    """Of so many pages and every other text under a folder: nothing of `TEXT` is more than text."""
    check_texts(folder)
    files = list(folder.rglob("*.html"))
    assert len(files) == pages
    for page in files:
        assert page_tags(page.read_text()) & {"script", "img", "iframe", "object"} == set()
        assert "&lt;script&gt;" in page.read_text().replace("<wbr>", "")
    for text in folder.rglob("*.md"):
        assert re.search(r"(?<!\\)<script", text.read_text()) is None
