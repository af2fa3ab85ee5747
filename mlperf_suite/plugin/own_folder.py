"""Lets pytest find the suite's ini file and options when started in the suite's folder.

pytest looks for its ini file and conftest beside the paths on the command line before it knows
any plugin's options, so `--model /data/llama` leads it away from the suite. This module is an entry
point and thus loaded into every pytest session of the environment; in other folders it does
nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

OWN_FOLDER = Path(__file__).resolve().parents[2]
_STARTED_THERE = Path.cwd() == OWN_FOLDER
pytest_plugins = ("mlperf_suite.plugin",) if _STARTED_THERE else ()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Restart pytest if it took the value of one of the suite's options for a test path."""
    found_ini, ini = str(parser.extra_info.get("inifile")), OWN_FOLDER / "pytest.ini"
    by_command = Path(sys.argv[0]).name in ("pytest", "py.test", "__main__.py")
    has_ini = any(
        a in ("-c", "--rootdir") or a.startswith(("--config-file", "--rootdir=", "-c"))
        for a in sys.argv[1:]
    )
    if _STARTED_THERE and by_command and not has_ini and found_ini != str(ini):
        again = ["-m", "pytest", "-c", str(ini), "--rootdir", str(OWN_FOLDER), *sys.argv[1:]]
        os.execv(sys.executable, [sys.executable, *again])  # noqa: S606 - no shell wanted
