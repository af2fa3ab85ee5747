"""Lets pytest find the suite's ini file and options for the suite's own tests, and only for them.

pytest looks for its ini file and conftest beside the paths on the command line before it knows
any plugin's options, so `--model /data/llama` leads it away from the suite. This module is an entry
point and thus loaded into every pytest session of the environment. For another project's tests it
does nothing; those that are named from within the suite's folder run without the suite.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OWN_FOLDER = Path(__file__).resolve().parents[2]
_INI = OWN_FOLDER / "pytest.ini"
RESTARTED = ("-c", str(_INI), "--rootdir", str(OWN_FOLDER))
"""What stands before the arguments of a session that is restarted with the suite."""
_WITHOUT_SUITE = "MLPERF_SUITE_NOT_IN"
"""Set to the process of a session that is restarted without the suite. It holds for that session
and its workers, which pytest-xdist starts by `python -c`, and for nothing else that it starts."""
_IS_WORKER = "-c" in sys.orig_argv
_SESSION = str(os.getppid() if _IS_WORKER else os.getpid())
_STARTED_THERE = os.environ.get(_WITHOUT_SUITE) != _SESSION and Path.cwd() == OWN_FOLDER
pytest_plugins = ("mlperf_suite.plugin",) if _STARTED_THERE else ()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest captures the output
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Restart pytest if its ini file is not that of the tests named: with the suite's for the
    suite's own, without the suite for those of another project."""
    names = early_config.known_args_namespace.file_or_dir
    paths = [path for name in names if (path := Path(name.partition("::")[0]).resolve()).exists()]
    is_own = any(path.is_relative_to(OWN_FOLDER) for path in paths)
    if Path(sys.argv[0]).name in ("pytest", "py.test", "__main__.py"):
        if _STARTED_THERE and paths and not is_own:
            os.environ[_WITHOUT_SUITE] = _SESSION
            _restart()
        options = ("-c", "--config-file", "--rootdir")
        has_ini = any(argument.startswith(options) for argument in sys.argv[1:])
        if (_STARTED_THERE or is_own) and early_config.inipath != _INI and not has_ini:
            _restart(*RESTARTED)
    return (yield)


def _restart(*options: str) -> None:
    again = [sys.executable, "-m", "pytest", *options, *sys.argv[1:]]
    os.execv(sys.executable, again)  # noqa: S606 - no shell wanted
