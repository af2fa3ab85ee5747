"""This machine as a lock among pytest-xdist's workers: one marked `alone` runs beside no other."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = Path(__file__).parent
_LOCKS = (_FOLDER, _FOLDER / "real_engine")
"""Folders that serve as locks, for the machine and for the turn: nothing is left behind."""


@contextmanager
def machine_lock(alone: bool, locks: tuple[Path, Path] = _LOCKS) -> Iterator[None]:
    """Hold this machine together with others, or `alone`.

    `locks`: files or folders, one for the machine and one for the turn. Whoever waits to be alone
    has the turn, so that the others begin nothing meanwhile.
    """
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    machine_path, turn_path = locks
    with _locked(turn_path, fcntl.LOCK_EX) as turn, _locked(machine_path, kind):
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
