"""Keeps tokens and keys out of everything that is written or printed.

A secret is recognized by its name: a variable or an engine argument whose name ends in one of
`_NAME`, or of `_LOOSE_NAME` if its value can be one; and by its place: the password or
the token in a URL, as of proxies and databases. It is redacted wherever it would appear, escaped or
in base64 too.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote

REDACTED = "***"
_NAME = re.compile(
    r"(token|api_?key|secret|passwords?|passwd|passphrase|access_?key|credentials?)$", re.IGNORECASE
)
_LOOSE_NAME = re.compile(r"(^|_)(?:(key|pat)|pass|pwd)$", re.IGNORECASE)
_WORDS = re.compile(r"[a-z]+([_.-][a-z]+)*")
"""What keys of caches are, and no key or token of a service."""
_PASSWORDS = (
    r"://[^\s/:@]*:([^\s/@]+)@",
    r"://[^\s/:@]*:(?!\d+[/?#])(\S+)@",
    r"://([^\s/:@]{16,})@",
)
"""In a URL: a password up to the first @ and up to the last one, and a token, which is longer than
the name of a user."""
_MIN_SECRET_LENGTH = 6
"""Characters. Shorter values are not secrets, and redacting them would spoil other words."""

_secrets: set[str] = set()


def is_secret(name: str, value: object) -> bool:
    name = name.strip().replace("-", "_").replace(" ", "_")
    if _NAME.search(name):
        return True
    loose, text = _LOOSE_NAME.search(name), str(value)
    if loose is None or text.startswith("/"):
        return False
    return loose[2] is None or not _WORDS.fullmatch(text)


def remember(value: object) -> None:
    """Redact this value from now on, also if it is escaped in JSON, HTML, XML or a URL, and in the
    base64 of a text that contains it.

    For a list or a mapping, redact each value in it.
    """
    if isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            remember(item)
        return
    text = str(value).strip()
    if len(text) >= _MIN_SECRET_LENGTH:
        escaped = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
        data = text.encode(errors="surrogateescape")
        _secrets.update({text, html.escape(text), quote(data, safe=""), quote_plus(data), *escaped})
        _secrets.update(_in_base64(data))


def _in_base64(data: bytes) -> Iterator[str]:
    """The characters that only these bytes decide, at each of their three places in a group of
    bytes, in both alphabets. Too short pieces, of a secret of 6 bytes, are left."""
    for before in range(3):
        # What precedes and what follows the text shares a character with it.
        whole = data[: len(data) - (before + len(data)) % 3]
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            piece = encode(b"\0" * before + whole).decode()[(0, 2, 3)[before] :]
            if len(piece) >= _MIN_SECRET_LENGTH:
                yield piece


def remember_named(values: Mapping[str, object]) -> None:
    """Remember each value whose name marks it as a secret, and the secrets in a URL."""
    for name, value in values.items():
        if value and is_secret(name, value):
            remember(value)
        elif isinstance(value, Mapping):
            remember_named(value)
        elif isinstance(value, list):
            remember_named({str(place): item for place, item in enumerate(value)})
        elif isinstance(value, str):
            # A proxy may be given without a scheme.
            url = f"://{value}" if name.lower().endswith("_proxy") and "://" not in value else value
            for password in (m for form in _PASSWORDS for m in re.findall(form, url)):
                remember(password)
                remember(unquote(password))


def redact(text: str) -> str:
    """The text with every known secret redacted; JSON stays valid JSON."""
    redacted = _replaced(text)
    return redacted if redacted == text else _still_json(text, redacted)


def _replaced(text: str) -> str:
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def _still_json(before: str, after: str) -> str:
    """`after`; if it is not JSON although `before` was, `before` with its values redacted."""
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
    # A secret that appears within the digits of a measured figure is there by chance.
    return REDACTED if str(content) in _secrets else content


def redact_files(paths: Iterable[Path]) -> list[Path]:
    """Redact secrets in these files, and in all files of these folders; returns the changed files.

    For files that other programs write: an engine's log, JUnit's XML, Allure's results.
    """
    if not _secrets:
        return []
    files = [f for p in paths for f in (sorted(p.rglob("*")) if p.is_dir() else [p])]
    return [file for file in files if _redact_file(file)]


def _redact_file(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    content = file.read_bytes()
    if not any(secret.encode(errors="surrogateescape") in content for secret in _secrets):
        return False
    # An engine's log may hold any bytes.
    redacted = redact(content.decode(errors="surrogateescape"))
    file.write_bytes(redacted.encode(errors="surrogateescape"))
    return True
