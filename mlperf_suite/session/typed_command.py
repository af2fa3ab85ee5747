"""How a session was started, so that it can be made again: its command, and the suite's commit."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from mlperf_suite import IS_CLONE, SUITE_FOLDER, __version__
from mlperf_suite.results.schema import Meta
from mlperf_suite.secrets import redact, remember_named
from mlperf_suite.settings import OPTIONS

_VARIABLES = ("PYTEST_ADDOPTS", *sorted({spec.variable for spec in OPTIONS if spec.variable}))


def typed_command(
    words: Sequence[str], environment: Mapping[str, str], restarted: Sequence[str] = ()
) -> str:
    """The command as it was typed, quoted for a shell, after the variables that it takes settings
    from. `words`: as in sys.argv. `restarted`: what the suite put before the arguments itself."""
    program, *arguments = words
    if arguments[: len(restarted)] == list(restarted):
        arguments = arguments[len(restarted) :]
    # A password may stand in a URL, which no setting takes up before it is refused.
    remember_named({"arguments": arguments})
    given = {name: environment[name] for name in _VARIABLES if environment.get(name)}
    # Before the quotes, which could split a secret.
    variables = [f"{name}={shlex.quote(redact(value))}" for name, value in given.items()]
    return " ".join([*variables, shlex.join(map(redact, [*_program(program), *arguments]))])


def this_command() -> Meta:
    """What a summary says of a command of `mlperf-suite` that measures, as of a session."""
    command = typed_command(sys.argv, os.environ)
    return Meta(command=command, suite_version=__version__, suite_commit=suite_commit())


def _program(path: str) -> list[str]:
    """The words that start the program: a module's, or its name if a shell finds it by that."""
    place = Path(path)
    if place.name == "__main__.py":
        return [sys.orig_argv[0], "-m", place.parent.name]
    return [place.name if shutil.which(place.name) == path else path]


@cache
def suite_commit() -> str | None:
    """The commit of the clone that the suite runs from, followed by "-dirty" if its files were
    changed; None if it runs from no clone or git does not say."""
    program = shutil.which("git")
    if program is None or not (IS_CLONE and (SUITE_FOLDER / ".git").exists()):
        return None
    describe = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    environment = {n: value for n, value in os.environ.items() if not n.startswith("GIT_")}
    try:
        git = subprocess.run(
            [program, "-C", str(SUITE_FOLDER), *describe],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return git.stdout.strip() or None
