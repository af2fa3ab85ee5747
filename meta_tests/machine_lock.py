"""This machine as a lock among pytest-xdist's workers: one marked `alone` runs beside no other."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = Path(__file__).parent
_MACHINE, _TURN = _FOLDER, _FOLDER / "real_engine"
"""Folders that serve as locks: nothing to make, nothing to clean up."""


@contextmanager
def machine_lock(alone: bool) -> Iterator[None]:
    """Hold this machine together with others, or `alone`.

    Whoever waits to be alone has the turn, so that the others begin nothing meanwhile.
    """
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with _locked(_TURN, fcntl.LOCK_EX) as turn, _locked(_MACHINE, kind):
        if not alone:
            fcntl.flock(turn, fcntl.LOCK_UN)
        yield


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        # Closing alone would leave it locked while a forked process holds the descriptor too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
