"""Command line options, checked before anything is collected."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mlperf_suite.assets import PROJECT_ROOT
from mlperf_suite.errors import UsageError
from mlperf_suite.settings import OPTIONS, Settings, resolve_settings

SETTINGS = pytest.StashKey[Settings]()


def _start_again_with_own_ini(found_ini: str) -> None:
    """Start pytest again where it took the value of one of the suite's options for a test path.

    pytest looks for its ini file beside the paths on the command line before it knows anybody's
    options, so `--results-dir /data/results` leads it away from the suite.
    """
    ini = PROJECT_ROOT / "pytest.ini"
    by_command = Path(sys.argv[0]).name in ("pytest", "py.test", "__main__.py")
    told = any(
        a in ("-c", "--rootdir") or a.startswith(("--config-file", "--rootdir=", "-c"))
        for a in sys.argv[1:]
    )
    if by_command and not told and Path.cwd() == PROJECT_ROOT and found_ini != str(ini):
        again = ["-m", "pytest", "-c", str(ini), "--rootdir", str(PROJECT_ROOT), *sys.argv[1:]]
        os.execv(sys.executable, [sys.executable, *again])  # noqa: S606 - no shell wanted


def pytest_addoption(parser: pytest.Parser) -> None:
    _start_again_with_own_ini(str(parser.extra_info.get("inifile")))
    group = parser.getgroup("mlperf", "MLPerf suite (a TOML file and some variables set them too)")
    for spec in OPTIONS:
        default = f" (default {spec.default})" if spec.default not in (None, "false") else ""
        variable = f" [env: {spec.variable}]" if spec.variable else ""
        # argparse formats help texts with %.
        help_text = f"{spec.help}; {spec.allowed}{default}{variable}".replace("%", "%%")
        if spec.switch:
            help_text = spec.help.replace("%", "%%")
            group.addoption(
                spec.flag, dest=spec.dest, action="store_const", const="true", help=help_text
            )
        else:
            group.addoption(
                spec.flag,
                dest=spec.dest,
                action="append" if spec.repeatable else "store",
                metavar="X",
                help=help_text,
            )
    group.addoption(
        "--suite-config", metavar="FILE", help="a TOML file with any of these options as keys"
    )


def pytest_configure(config: pytest.Config) -> None:
    options = {spec.dest: config.getoption(spec.dest) for spec in OPTIONS}
    try:
        settings = resolve_settings(options, config_file=config.getoption("suite_config"))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[SETTINGS] = settings
