"""Command line options, checked before anything is collected."""

from __future__ import annotations

import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.settings import OPTIONS, OptionSpec, Settings, check_profile, resolve_settings

_SETTINGS = pytest.StashKey[Settings]()


def settings_of(config: pytest.Config) -> Settings:
    """The session's settings. Raises pytest.UsageError."""
    if _SETTINGS not in config.stash:
        options = {spec.dest: config.getoption(spec.dest) for spec in OPTIONS}
        try:
            settings = resolve_settings(options, config_file=config.getoption("suite_config"))
            check_profile(settings)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        config.stash[_SETTINGS] = settings
    return config.stash[_SETTINGS]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mlperf", "MLPerf suite (docs/options.md; also set by a TOML file)")
    for spec in OPTIONS:
        # argparse formats help texts with the % operator.
        help_text = _help(spec).replace("%", "%%")
        if spec.switch:
            how = {"action": "store_const", "const": "true"}
        else:
            how = {"action": "append" if spec.repeatable else "store", "metavar": "X"}
        group.addoption(spec.flag, *spec.former, dest=spec.dest, help=help_text, **how)
    group.addoption(
        "--suite-config",
        metavar="FILE",
        help="read settings from this TOML file; its keys are the options above",
    )


def _help(spec: OptionSpec) -> str:
    if spec.switch:
        return spec.help
    default = f" (default {spec.default})" if spec.default is not None else ""
    variable = f" [env: {spec.variable}]" if spec.variable else ""
    return f"{spec.help}; {spec.allowed}{default}{variable}"


def pytest_configure(config: pytest.Config) -> None:
    """Report a wrong option at once, even before collection."""
    settings_of(config)
