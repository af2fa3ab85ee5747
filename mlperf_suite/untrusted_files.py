"""Untrusted files: which are read, and how their texts are shown."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

MAX_TEXT_BYTES = 2**28
"""What a text or a file of JSON may hold: many times the largest that was published."""


def open_regular(path: Path, most: int = MAX_TEXT_BYTES) -> BufferedReader:
    """Open an untrusted file to read it.

    Raises OSError for a file that would block or never end (a FIFO, a device) and for more than
    `most` bytes.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_size <= most:
        return file
    file.close()
    too_large = f"larger than {most:,} bytes"
    fault = too_large if stat.S_ISREG(status.st_mode) else "no regular file"
    raise OSError(errno.EINVAL, fault, str(path))


def read_regular(path: Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """The content of an untrusted file. Raises OSError, see `open_regular`."""
    with open_regular(path, most) as file:
        return file.read()


def printable(text: str) -> str:
    """The text as one line, with "?" for what a terminal obeys or cannot show: escape sequences,
    marks that turn the direction of writing, lone surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
