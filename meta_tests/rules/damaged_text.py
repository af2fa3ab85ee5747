"""A guard for texts that are made to keep a reader busy for ever."""

import contextlib
import signal
from collections.abc import Iterator
from typing import NoReturn

import pytest


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
