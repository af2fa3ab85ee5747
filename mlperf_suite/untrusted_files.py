"""Untrusted files: which are read, and how their texts are shown."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

AnyPath = str | Path
"""Where many files are read, their paths are texts: to join pathlib's takes longer than to open."""
MAX_TEXT_BYTES = 2**28
"""What a text or a file of JSON may hold: many times the largest that was published."""
_PART_BYTES = 2**16


def open_regular(path: AnyPath, most: int = MAX_TEXT_BYTES) -> BufferedReader:
    """Open an untrusted file to read it.

    Raises OSError for a file that would block or never end (a FIFO, a device) and for more than
    `most` bytes.
    """
    return os.fdopen(_opened(path, most)[0], "rb")


def read_regular(path: AnyPath, most: int = MAX_TEXT_BYTES) -> bytes:
    """The content of an untrusted file. Raises OSError, see `open_regular`."""
    # Without a file object, which for a small file takes as long again as to read it.
    descriptor, size = _opened(path, most)
    try:
        parts = [os.read(descriptor, size + 1)]
        # A file that grows meanwhile, or has no size, as in /proc, has more than that.
        while parts[-1]:
            parts.append(os.read(descriptor, _PART_BYTES))
    finally:
        os.close(descriptor)
    return b"".join(parts)


def _opened(path: AnyPath, most: int) -> tuple[int, int]:
    """The descriptor and the size in bytes of an untrusted file; see `open_regular`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    is_regular = stat.S_ISREG(status.st_mode)
    if is_regular and status.st_size <= most:
        return descriptor, status.st_size
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    fault = f"larger than {most:,} bytes" if is_regular else "no regular file"
    raise OSError(errno.EINVAL, fault, str(path))


def printable(text: str) -> str:
    """The text as one line, with "?" for what a terminal obeys or cannot show: escape sequences,
    marks that turn the direction of writing, lone surrogates."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
