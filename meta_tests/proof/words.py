"""The words of made-up data."""

from __future__ import annotations

from pathlib import Path

WORDS = tuple((Path(__file__).parent / "words.txt").read_text().split())
"""No two words have the same stem, so that ROUGE distinguishes them."""
