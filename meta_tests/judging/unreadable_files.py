"""Files and texts that keep a reader busy for ever: such files, and a guard against them."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

UNREADABLE: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "sparse file": lambda path: subprocess.run(["truncate", "-s10G", str(path)], check=True),
}
"""How such a file is made at a path, by its kind."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail if what is inside takes longer."""

    def interrupt(*_: object) -> NoReturn:
        # No Exception, which what is tested may handle; and it may be within C code.
        pytest.fail(f"longer than {seconds} s", pytrace=False)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
