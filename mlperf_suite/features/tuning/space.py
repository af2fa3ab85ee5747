"""The settings that a search may choose from, of this machine or of the user's TOML file."""

from __future__ import annotations

import itertools
import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.engines.vllm_environment import allowed_cpus, is_cpu_build
from mlperf_suite.errors import UsageError
from mlperf_suite.option_specs import read_toml
from mlperf_suite.settings import engine_arg_text

Value = str | int | float | bool
Choice = Value | None
"""None leaves the setting as it is without the search."""
Settings = Mapping[str, Choice]
Space = Mapping[str, tuple[Choice, ...]]
"""By name, the choices; the first is the default's: None, or a value that the user fixed, which is
then the only one. A name in capitals is an environment variable, any other an argument of vLLM's
engine."""
CONDITIONS = "when"
"""The only name in a file that is no setting: how settings depend on each other."""


def space_of(file: Path | None, own: Space | None = None, gpus: int | None = None) -> Space:
    """The space of this machine, or `own`, with the names in a TOML file in its place. `gpus`: how
    many of the machine's a trial has, if not all.

    In the file, `name = [choices]` narrows or adds a setting, `name = value` fixes it, for the
    default too, and `name = []` leaves it out. Raises UsageError for a file that is no such table,
    and EngineError if vLLM is needed and not usable.
    """
    space: dict[str, tuple[Choice, ...]] = dict(machine_space(gpus) if own is None else own)
    for name, choices in contents(file).items():
        if name == CONDITIONS:
            continue
        values = choices if isinstance(choices, list) else [choices]
        if not all(isinstance(v, Value) for v in values) or not name.isidentifier():
            raise UsageError(
                f"--space {file}: {name}: must be NAME = [choices], NAME = value to fix it, "
                "[] for none"
            )
        if fault := next(filter(None, map(_fault, values)), "") or _repeated(values):
            raise UsageError(f"--space {file}: {name}: {fault}")
        space[name] = (None, *dict.fromkeys(choices)) if choices is values else (choices,)
    return {name: choices for name, choices in space.items() if choices != (None,)}


def _fault(value: Value) -> str:
    """Why a value is not a choice; empty if it is one."""
    if isinstance(value, str):
        return f"{value!r}: no program can be given a NUL" if "\0" in value else ""
    try:
        is_finite = math.isfinite(value)
    except OverflowError:
        is_finite = False
    return "" if is_finite else "must be a finite number of a usual size"


def _repeated(values: Sequence[Value]) -> str:
    """Which choices count as the same although they are not: 1 and true."""
    seen: dict[Value, Value] = {}
    for value in values:
        first = seen.setdefault(value, value)
        if type(first) is not type(value):
            return f"{json.dumps(first)} and {json.dumps(value)} count as the same"
    return ""


def contents(file: Path | None) -> dict[str, Any]:
    """What a file for `--space` says; nothing without one. Raises UsageError if it is not TOML."""
    return {} if file is None else read_toml("--space", file)


def machine_space(gpus: int | None = None) -> Space:
    """What vLLM's arguments allow on this machine, or so many GPUs of it, and on CPUs how threads
    are bound to cores.

    Imports vLLM, which takes some seconds. Raises EngineError if it is not usable.
    """
    from mlperf_suite.features.tuning.vllm_choices import vllm_choices

    space: dict[str, tuple[Choice, ...]] = {n: (None, *v) for n, v in vllm_choices(gpus).items()}
    # A search of few trials changes one name after the other, in this order.
    return {**_bindings(), **space} if is_cpu_build() else space


def engine_arguments() -> frozenset[str]:
    """The names of the arguments of vLLM's engine. Imports vLLM."""
    from mlperf_suite.features.tuning.vllm_choices import argument_names

    return argument_names()


def check_names(file: Path) -> None:
    """Raise UsageError for a name in a file for `--space` that every trial would fail with."""
    names = [n for n in contents(file) if n != CONDITIONS and not n.isupper()]
    if unknown := [name for name in names if name not in engine_arguments()]:
        raise UsageError(f"--space {file}: {unknown[0]}: vLLM's engine has no such argument")


def _bindings() -> Space:
    cpus = allowed_cpus().split(",")
    bindings = dict.fromkeys(",".join(cpus[:n]) for n in (len(cpus), len(cpus) // 2, 1) if n)
    now = os.environ.get("VLLM_CPU_OMP_THREADS_BIND", allowed_cpus())
    others = (binding for binding in bindings if binding != now)
    return {"VLLM_CPU_OMP_THREADS_BIND": (None, *others)}


def run_arguments(settings: Settings) -> list[str]:
    """The suite's options for these settings."""
    return [
        f"--engine-arg={engine_arg_text(name, value)}"
        for name, value in settings.items()
        if value is not None and not name.isupper()
    ]


def run_variables(settings: Settings) -> dict[str, str]:
    """The environment variables for these settings; true and false as 1 and 0."""
    return {
        name: str(int(value) if isinstance(value, bool) else value)
        for name, value in settings.items()
        if value is not None and name.isupper()
    }


def shell_line(settings: Settings, words: Sequence[str]) -> str:
    """A command to paste into a shell, after the settings' variables."""
    # In quotes, the whole NAME='VALUE' would be a program's name to a shell.
    variables = [f"{name}={shlex.quote(v)}" for name, v in run_variables(settings).items()]
    return " ".join([*variables, shlex.join(words)])


def serve_command(settings: Settings, options: Sequence[str]) -> str:
    """`vllm serve` with these settings, for a shell. `options`: the run's, for its --model."""
    model = "MODEL"
    for option, following in itertools.zip_longest(options, options[1:], fillvalue=""):
        name, equals, value = option.partition("=")
        if name == "--model":
            model = value if equals else following
    return shell_line(settings, ["vllm", "serve", model, *serve_flags(settings)])


def serve_flags(settings: Settings) -> list[str]:
    """The flags of vLLM's server for these settings."""
    flags: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if value is None or name.isupper():
            continue
        if isinstance(value, bool):
            # argparse's BooleanOptionalAction, which vLLM uses for each of its switches.
            flags.append(f"--{'' if value else 'no-'}{flag}")
        elif str(value).startswith("-"):
            # As a word of its own it would be taken for a flag.
            flags.append(f"--{flag}={value}")
        else:
            flags += [f"--{flag}", str(value)]
    return flags


def space_text(settings: Settings) -> str:
    """These settings as the TOML file that `--space` takes, with nothing else to choose."""
    choices = {n: "" if value is None else _toml(value) for n, value in settings.items()}
    return "".join(f"{name} = [{choice}]\n" for name, choice in choices.items())


def _toml(value: Value) -> str:
    # JSON's way, but TOML has no halves of surrogate pairs and wants one more character escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings and what a run with them showed: the rate in tokens/s and the relative standard
    error of it, or the reason why there is none. `cut`: why the run was ended before its time, if
    it was; its rate is then of less certainty."""

    settings: Settings
    rate: float | None = None
    error: float = 0.0
    reason: str = ""
    cut: str = ""
