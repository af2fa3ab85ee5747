"""A guard for texts that are made to keep a reader busy for ever."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import NoReturn

import pytest


class TooLong(BaseException):
    """No Exception, which what is tested may handle."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail if what is inside takes longer."""

    def interrupt(*_: object) -> NoReturn:
        raise TooLong

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    except TooLong:
        # Where it was may be within C code, which pytest cannot show.
        pytest.fail(f"longer than {seconds} s", pytrace=False)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
