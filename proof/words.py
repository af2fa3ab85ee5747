"""The words that made-up data are made of."""

from __future__ import annotations

from pathlib import Path

WORDS = tuple((Path(__file__).parent / "words.txt").read_text().split())
"""No two have the same stem, so that ROUGE tells them apart."""
