"""Tokens and keys, kept out of everything that is written or said.

What is secret is known by its name: a variable or an engine argument whose name ends in token,
api_key, secret, password or access_key. Its value is then redacted wherever it would appear.
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
    """Blot this value out from now on, also where it stands escaped in JSON, HTML or XML.

    Of a list or a mapping, each value in it.
    """
    if isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            remember(one)
        return
    text = str(value).strip()
    if len(text) >= _SHORTEST:
        escaped = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
        _known.update({text, html.escape(text), *escaped})


def remember_named(values: Mapping[str, object]) -> None:
    """Remember each value whose name says that it is secret."""
    for name, value in values.items():
        if is_secret_name(name) and value:
            remember(value)
        elif isinstance(value, Mapping):
            remember_named(value)


def scrub(text: str) -> str:
    """The text with every known secret redacted; what was JSON is JSON still."""
    found = _replaced(text)
    return found if found == text else _still_json(text, found)


def _replaced(text: str) -> str:
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, BLOT)
    return text


def _still_json(before: str, after: str) -> str:
    """`after`, or where that is no JSON and `before` was, `before` with its values redacted."""
    try:
        content = json.loads(before)
    except (ValueError, RecursionError):
        return after
    try:
        json.loads(after)
    except ValueError:
        return json.dumps(_redacted(content), indent=2, ensure_ascii=False) + "\n"
    return after


def _redacted(content: object) -> object:
    if isinstance(content, dict):
        return {_replaced(name): _redacted(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_redacted(value) for value in content]
    if isinstance(content, str):
        return _replaced(content)
    # A secret within the digits of a measured figure is there by chance.
    return BLOT if str(content) in _known else content


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
    content = file.read_bytes()
    if not any(secret.encode() in content for secret in _known):
        return False
    # An engine's log may hold any bytes.
    found = scrub(content.decode(errors="surrogateescape"))
    file.write_bytes(found.encode(errors="surrogateescape"))
    return True
