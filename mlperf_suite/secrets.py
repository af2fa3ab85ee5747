"""Tokens and keys, kept out of everything that is written or said.

What is secret is known by its name: a variable or an engine argument whose name ends in token,
api_key, secret, password or access_key. Its value is then blotted out wherever it would appear.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

BLOT = "***"
_NAME = re.compile(r"(token|api_?key|secret|password|access_?key)$", re.IGNORECASE)
_SHORTEST = 6
"""Characters. What is shorter is no secret, and blotting it out would spoil other words."""

_known: set[str] = set()


def is_secret_name(name: str) -> bool:
    """Whether what has this name is to be kept out of sight."""
    return bool(_NAME.search(name.strip().replace("-", "_").replace(" ", "_")))


def remember(value: object) -> None:
    """Blot this value out from now on, also where it stands escaped in JSON, HTML or XML."""
    text = str(value).strip()
    if len(text) >= _SHORTEST:
        _known.update({text, json.dumps(text)[1:-1], html.escape(text)})


def remember_named(values: Mapping[str, object]) -> None:
    """Remember each value whose name says that it is secret."""
    for name, value in values.items():
        if is_secret_name(name) and value:
            remember(value)


def scrub(text: str) -> str:
    """The text with every known secret blotted out."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, BLOT)
    return text


def sweep(paths: Iterable[Path]) -> list[Path]:
    """Blot secrets out of these files, and of all files in these folders; returns those changed.

    For files that others write: an engine's log, JUnit's XML, Allure's results.
    """
    if not _known:
        return []
    files = [f for p in paths for f in (sorted(p.rglob("*")) if p.is_dir() else [p])]
    return [file for file in files if _sweep_file(file)]


def _sweep_file(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    content = found = file.read_bytes()
    for secret in sorted(_known, key=len, reverse=True):
        found = found.replace(secret.encode(), BLOT.encode())
    if found == content:
        return False
    file.write_bytes(found)
    return True
