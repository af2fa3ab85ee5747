"""What an option is: its help, its values, and the difference between runs with different
values."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.errors import UsageError

Identifies = str
"""What an option's value distinguishes: the system that is measured, the place where it is found,
what runs of a benchmark measure of it (measurement), or what a feature's result does (its name)."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of an option. `parse` takes the text and returns the value, or raises ValueError,
    KeyError or OSError; the error message then shows `allowed`."""

    parse: Callable[[str], Any]
    allowed: str


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """A kind of engine that a feature's option chooses, with the default of --engine-silence then.

    `words`: the option with what it takes. `refusal`: why no option of another kind can be used,
    of the values of all options.
    """

    kind: str
    words: str
    silence_s: float
    refusal: Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option. `name`: without dashes; by default that of the field of `Settings`, or of the key
    in a feature's `OPTIONS`.

    `identifies`: what two runs with different values are different in; None if they can be compared
    (`results.comparability`). `reported_as`: the name under which a run reports what it made of the
    value, which may be auto; by default the setting's own. `variable`: the environment variable
    with the same meaning. A `switch` takes no value on the command line. `engine`: the only kind of
    engine that has this option; None if all have it. `chooses`: the kind that it chooses, whose
    `engine` it has. Messages quote only the name of a `secret`, never its value. `legacy_flags`:
    the flags that mmlu.py and the node script had for it. `section`: of the page of all options, if
    a feature has it. `not_with`: the names of options that it cannot be combined with, profile-run
    or client. `own_runs`: its values with which a session makes the runs of the option's feature
    alone, each with words that follow it. `only_with`: the names of options of which one must be
    given, unless this option is set by its variable, which may be there for other runs. `implies`:
    the field of another option, and the value that this option gives it if it has none.
    `by_profile`: the default of each profile, where they differ. `data_of`: what reads the data
    that it names, if it names any.
    """

    help: str
    values: Values
    default: Any = None
    _: KW_ONLY
    identifies: Identifies | None
    name: str = ""
    reported_as: str | None = None
    variable: str | None = None
    repeatable: bool = False
    switch: bool = False
    engine: str | None = None
    chooses: EngineChoice | None = None
    secret: bool = False
    legacy_flags: tuple[str, ...] = ()
    section: str = ""
    not_with: tuple[str, ...] = ()
    own_runs: Mapping[Any, str] = field(default_factory=dict, hash=False)
    only_with: tuple[str, ...] = ()
    implies: tuple[str, Any] | None = None
    by_profile: Mapping[str, str] = field(default_factory=dict, hash=False)
    data_of: str = ""

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")


def checked(parse: Callable[[str], Any], fits: Callable[[Any], object], allowed: str) -> Values:
    """What `parse` returns, if it `fits`."""

    def parse_checked(text: str) -> Any:
        value = parse(text)
        if not fits(value):
            raise ValueError(text)
        return value

    return Values(parse_checked, allowed)


def read_toml(option: str, path: Path) -> dict[str, Any]:
    """The file that an option names. Raises UsageError if it cannot be read or is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError.for_option(option, path, error.strerror or str(error)) from error
    # ValueError: not TOML, not UTF-8, or a number with more digits than Python accepts.
    except (ValueError, RecursionError) as error:
        raise UsageError.for_option(option, path, f"not TOML: {error}") from error


def folder(text: str) -> Path:
    """A path, which need not exist. Raises ValueError if it is empty or of an unknown user,
    OSError if it is invalid."""
    if not text.strip():
        raise ValueError(text)
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(text) from error
    # Returns False for a missing path, and raises if the name is too long or access is denied.
    path.exists()
    return path


def name_or_path(text: str) -> str:
    folder(text)
    return text


def or_auto(values: Values, auto: str | None = None) -> Values:
    """These values or auto, which becomes `auto`."""
    return Values(
        lambda text: auto if text.casefold() == "auto" else values.parse(text),
        f"{values.allowed}, or auto",
    )


def named(values: Mapping[str, Any]) -> Values:
    by_name = {name.casefold(): value for name, value in values.items()}
    return Values(lambda text: by_name[text.casefold()], "must be one of " + ", ".join(values))


def choice(*names: str) -> Values:
    return named({name: name for name in names})


def choice_or_auto(*names: str) -> Values:
    return named({"auto": None} | {name: name for name in names})


HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""The name in NAME=VALUE, as of an HTTP header: all that a message says of a secret."""
COUNT = checked(int, lambda count: count >= 1, "must be a whole number from 1")
COUNT_OR_NONE = checked(int, lambda count: count >= 0, "must be a whole number from 0")
COUNT_OR_AUTO = or_auto(COUNT)
RATE = checked(float, lambda rate: 0 < rate < math.inf, "must be a number above 0")
RATE_OR_AUTO = or_auto(RATE)
_FLAGS = {"0": False, "1": True, "false": False, "true": True}
TRUE_OR_FALSE = Values(lambda text: _FLAGS[text.lower()], "must be true or false")

switch = partial(OptionSpec, values=TRUE_OR_FALSE, default="false", switch=True)
"""An option that is on or off."""
