"""A plugin of pytest: while a test runs, coverage's context is its id, and its time is kept.

    MUTANTS_COVERAGE=FILE python -m coverage run --rcfile ... -m pytest -p evidence.mutants.contexts

Each process appends to FILE.seconds lines of an id, a tab and its seconds of processor time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    current = Coverage.current()
    if current is None:
        return (yield)
    current.switch_context(item.nodeid)
    began_s = time.process_time()
    try:
        return (yield)
    finally:
        seconds = time.process_time() - began_s
        current.switch_context("")
        with Path(f"{os.environ['MUTANTS_COVERAGE']}.seconds").open("a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}\t{seconds:.3f}\n")
