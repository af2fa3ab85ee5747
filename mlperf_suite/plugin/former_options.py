"""The command line of run.py and mmlu.py, the runner that many come from, taken as it was.

Most of its options are options of the suite (docs/from-run-py.md has the list). Two things are
not what pytest expects of an option: a switch there has a value (`--high-accuracy 1`), and some
options have nothing to set any more. They are rewritten here, before pytest reads the command line,
in the sessions of this suite alone.
`--version` is pytest's own, which answers it before any plugin is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mlperf_suite.plugin.own_folder import OWN_FOLDER
from mlperf_suite.settings import OPTIONS

_SWITCHES = {
    flag: spec.dest for spec in OPTIONS if spec.switch for flag in (spec.flag, *spec.former)
}
_BACKEND = "--backend"
_NOTHING_TO_SET = {
    "--extra-metrics": "TTFT and TPOT are always measured",
    "--no-exit-on-accuracy-fail": "each rule is a test of its own, and no failure stops the others",
}
"""Options that are dropped, whatever their value, and why."""
_NO_GATE = "--disable-accuracy-gate"
DROPPED = pytest.StashKey[list[str]]()
"""A line for each option of run.py that was given and has nothing to set."""


@dataclass(slots=True)
class Rewritten:
    """A command line as pytest takes it. `switched_off`: settings that were given as 0, by name.

    `dropped`: a line for each option that has nothing to set.
    """

    arguments: list[str] = field(default_factory=list)
    switched_off: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


def rewrite(arguments: Sequence[str]) -> Rewritten:
    """Rewrite what run.py and mmlu.py took. Raises pytest.UsageError for what the suite has not."""
    done, rest = Rewritten(), list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            # What follows are names of tests, whatever they look like.
            done.arguments += [argument, *rest]
            break
        flag, equals, value = argument.partition("=")
        if not equals:
            value = rest[0] if rest else ""
        if _rewrite_one(done, flag, value):
            # The value was an argument of its own.
            del rest[: 0 if equals else 1]
        else:
            done.arguments.append(argument)
    return done


def _rewrite_one(done: Rewritten, flag: str, value: str) -> bool:
    """Whether this option with this value was run.py's, and is done."""
    if flag in _SWITCHES and value in ("0", "1"):
        if value == "1":
            done.arguments.append(flag)
        else:
            done.switched_off.append(_SWITCHES[flag])
    elif flag == _BACKEND and value:
        if value.casefold() != "vllm":
            raise pytest.UsageError(
                f"{_BACKEND} {value}: allowed is vllm; a server is measured with --endpoint URL"
            )
        done.dropped.append(f"{_BACKEND}: vLLM is the engine where no --endpoint is given")
    elif flag in _NOTHING_TO_SET and value in ("0", "1"):
        done.dropped.append(f"{flag}: {_NOTHING_TO_SET[flag]}")
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
    """Called before the command line is read, where the suite is loaded by its entry point.

    A session with another project's ini file is not the suite's, though it was started here.
    """
    ini = early_config.inipath
    if OWN_FOLDER not in (early_config.rootpath, ini.parent if ini else None):
        return
    found = rewrite(args)
    args[:] = found.arguments
    for name in found.switched_off:
        # argparse keeps what it finds; the TOML file must not win over a 0 on the command line.
        setattr(early_config.option, name, "false")
    early_config.stash[DROPPED] = found.dropped
