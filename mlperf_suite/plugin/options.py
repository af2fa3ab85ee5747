"""Command line options, checked before anything is collected.

The command line of run.py and mmlu.py, an earlier runner, is accepted too. Most of its options are
options of the suite (docs/from-run-py.md has the list). Two kinds need rewriting: switches with a
value (`--high-accuracy 1`) and options that no longer set anything. This happens before pytest
reads the command line, only in sessions of this suite. `--version` alone is pytest's own, which
answers it before any plugin is loaded: `mlperf-suite` refuses one with a round beforehand, and so
imports this file before pytest could rewrite its assertions; it has none: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.feature import features
from mlperf_suite.option_specs import OptionSpec
from mlperf_suite.plugin.own_folder import OWN_FOLDER
from mlperf_suite.settings import OPTIONS, Settings, check_options_of_features, resolve_settings

_SETTINGS = pytest.StashKey[Settings]()


def settings_of(config: pytest.Config) -> Settings:
    """The session's settings. Raises pytest.UsageError."""
    if _SETTINGS not in config.stash:
        options = {spec.dest: config.getoption(spec.dest) for spec in OPTIONS}
        try:
            settings = resolve_settings(options, config_file=config.getoption("suite_config"))
            check_options_of_features(settings)
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
        group.addoption(spec.flag, *spec.legacy_flags, dest=spec.dest, help=help_text, **how)
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
    return f"{spec.help}; {spec.values.allowed}{default}{variable}"


def pytest_configure(config: pytest.Config) -> None:
    """Report a wrong option at once, even before collection."""
    for feature in features():
        for name, sentence in feature.markers.items():
            config.addinivalue_line("markers", f"{name}: {sentence}")
    settings_of(config)


# The command line of run.py and mmlu.py

_SWITCHES = {
    flag: spec.dest for spec in OPTIONS if spec.switch for flag in (spec.flag, *spec.legacy_flags)
}
_BACKEND = "--backend"
_NOTHING_TO_SET = {
    "--extra-metrics": "TTFT and TPOT are always measured",
    "--no-exit-on-accuracy-fail": "each rule is a test of its own, and no failure stops the others",
}
"""Options that are dropped, whatever their value, with the reason."""
_BATCH = "--batch-size"
_NO_GATE = "--disable-accuracy-gate"
_VERSION = "--version"
_ROUND = re.compile(r"v?\d\.\d")
NOTES = pytest.StashKey[list[str]]()
"""A line for each given option of run.py that no longer sets anything."""


@dataclass(slots=True)
class CommandLine:
    """A command line that pytest accepts. `switched_off`: names of settings that were given as 0.

    `notes`: a line for each option that no longer sets anything.
    """

    arguments: list[str] = field(default_factory=list)
    switched_off: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def rewrite(arguments: Sequence[str]) -> CommandLine:
    """Rewrite arguments of run.py and mmlu.py. Raises pytest.UsageError for unsupported ones."""
    line, rest = CommandLine(), list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            # All that follows are test names, whatever they look like.
            line.arguments += [argument, *rest]
            break
        flag, equals, value = argument.partition("=")
        if not equals:
            value = rest[0] if rest else ""
        if _rewrite_option(line, flag, value):
            # The value was a separate argument.
            del rest[: 0 if equals else 1]
        else:
            line.arguments.append(argument)
    return line


def _rewrite_option(line: CommandLine, flag: str, value: str) -> bool:
    """Rewrite the option if it is run.py's; return whether it was."""
    if flag in _SWITCHES and value in ("0", "1"):
        if value == "1":
            line.arguments.append(flag)
        else:
            line.switched_off.append(_SWITCHES[flag])
    elif flag == _BACKEND and value:
        if value.casefold() != "vllm":
            raise pytest.UsageError(
                f"{_BACKEND} {value}: must be vllm; for a server use --endpoint URL"
            )
        line.notes.append(f"{_BACKEND}: vLLM is the engine where no --endpoint is given")
    elif flag == _VERSION and _ROUND.fullmatch(value):
        round_ = value if value.startswith("v") else f"v{value}"
        raise pytest.UsageError(f"{_VERSION} {value}: the round is --round {round_}")
    elif flag == _BATCH and value.isdigit():
        line.notes.append(
            f"{_BATCH}: the engine batches; --engine-arg max_num_seqs={value} bounds it"
        )
    elif flag in _NOTHING_TO_SET and value in ("0", "1"):
        line.notes.append(f"{flag}: {_NOTHING_TO_SET[flag]}")
    elif flag == _NO_GATE and value in ("0", "1"):
        if value == "1":
            raise pytest.UsageError(
                f"{_NO_GATE} 1: each gate is a test; leave them out with -k 'not test_score'"
            )
    else:
        return False
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Called before the command line is read, if the suite is loaded by its entry point.

    A session with another project's ini file is not the suite's, even if started in its folder.
    """
    ini = early_config.inipath
    if OWN_FOLDER not in (early_config.rootpath, ini.parent if ini else None):
        return
    line = rewrite(args)
    args[:] = line.arguments
    for name in line.switched_off:
        # argparse keeps existing values; the TOML file must not win over a 0 on the command line.
        setattr(early_config.option, name, "false")
    early_config.stash[NOTES] = line.notes
