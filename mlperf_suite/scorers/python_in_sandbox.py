"""Runs an answer's Python program with `python_program.py` in a sandbox."""

from __future__ import annotations

import functools
import importlib.util
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from mlperf_suite.scorers import python_program
from mlperf_suite.scorers.sandbox.box import Limits, Outcome, Sandbox

_PACKAGES = ("numpy",)
"""What programs may import besides the standard library, if it is installed here."""
_PACKAGES_WITHIN = "/opt/packages"


def run_python(
    sandbox: Sandbox,
    program: bytes,
    order: Mapping[str, object],
    limits: Limits,
    *,
    word: bytes = b"",
    watch: Callable[[bytes], bool] | None = None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Run a program with `python_program.py` as `order` says; results are its standard output."""
    files = {
        "answer.py": program,
        "order.json": json.dumps(order).encode(),
        "run.py": Path(python_program.__file__).read_bytes(),
    }
    return sandbox.run(
        [sandbox.python, "-s", "run.py"],
        files,
        word,
        limits,
        readable=_packages(),
        environment={"PYTHONPATH": _PACKAGES_WITHIN},
        watch=watch,
        stop=stop,
    )


@functools.cache
def _packages() -> dict[Path, str]:
    """The folders of the packages that programs may import, with their paths in the sandbox.

    A wheel keeps the libraries that a package links to in a folder <package>.libs beside it.
    """
    folders: dict[Path, str] = {}
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        for place in (found and found.submodule_search_locations) or ():
            for folder in (Path(place), Path(f"{place}.libs")):
                if folder.is_dir():
                    folders[folder] = f"{_PACKAGES_WITHIN}/{folder.name}"
    return folders
