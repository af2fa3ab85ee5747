"""How alike the programs are that two answers start through the tool `bash`.

The definition and the names are those of AgenticInferenceInlineScorer (mlcommons/endpoints,
src/inference_endpoint/evaluation/scoring.py). Commands are text here: none is run.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from mlperf_suite.scorers.scorer import Answer, Score, Scores

INLINE = "inline"
_SAME_NAME = (
    "pip pytest pylint cython make conda cat head tail wc diff grep sed awk tr sort uniq cut find "
    "ls xargs cp mv rm mkdir touch tee source which alias unset export git curl true false "
    "timeout date"
)
_OTHER_NAMES = {
    "python": "python python2 python3 py",
    "pip": "pip3",
    "sphinx": "sphinx-build sphinx-quickstart",
    "cat": "less more",
    "grep": "egrep fgrep rg ag",
    "awk": "gawk",
    "find": "locate",
    "source": ".",
    "curl": "wget",
    "apt": "apt-get apt",
    "yum": "yum",
}
_PROGRAMS = {name: name for name in _SAME_NAME.split()} | {
    other: name for name, others in _OTHER_NAMES.items() for other in others.split()
}
"""Programs that count, by each of their names."""
_WRAPPERS = frozenset(("env", "time", "nice", "sudo", "exec", "command"))
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_SEPARATOR = re.compile(r"\|\||\||&&|;|\n")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_VERSION = re.compile(r"\.\d+(\.\d+)?$")
_MAX_COMMAND_LENGTH = 20_000
"""Of a command; a longer one starts nothing. Untrusted text full of quotes would take minutes:
an answer has at most 1,024 tokens."""


def programs_of(tool_calls: object) -> list[str]:
    """The programs that the calls of `bash` start, in order, under one name each."""
    if not isinstance(tool_calls, list | tuple):
        return []
    return [name for call in tool_calls for name in _programs(_command(call))]


def _command(call: Any) -> str:
    """The command of a call; empty if it is not one of `bash` with a command."""
    function = (call.get("function") or {}) if isinstance(call, dict) else {}
    if not isinstance(function, dict) or function.get("name") != "bash":
        return ""
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return ""
    if not isinstance(arguments, dict):
        return ""
    command = arguments.get("command") or arguments.get("cmd")
    return command if isinstance(command, str) and len(command) <= _MAX_COMMAND_LENGTH else ""


def _programs(command: str) -> Iterator[str]:
    for part in _SEPARATOR.split(_QUOTED.sub(" ", command)):
        words = iter(part.split())
        for word in words:
            if word not in _WRAPPERS and not _ASSIGNMENT.match(word):
                file = word.rpartition("/")[2].lower()
                name = _PROGRAMS.get(_VERSION.sub("", file))
                if name:
                    yield name
                break


def similarity(expected: list[str], actual: list[str]) -> float:
    """Multiset intersection over union, from 0 to 1. `expected` is not empty."""
    wanted, given = Counter(expected), Counter(actual)
    return (wanted & given).total() / (wanted | given).total()


class InlineScorer:
    """The mean similarity of turns to the recorded ones. An answer's text, and a sample's
    reference, are a message of the assistant as JSON."""

    name = INLINE

    def check(self) -> None:
        """Nothing is needed."""

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score the turns whose recorded answer starts a program that counts."""
        values: list[float | None] = []
        for answer in answers:
            wanted = programs_of(json.loads(answer.sample.reference).get("tool_calls"))
            given = programs_of(json.loads(answer.text).get("tool_calls"))
            values.append(100 * similarity(wanted, given) if wanted else None)
        counted = [value for value in values if value is not None]
        mean = statistics.fmean(counted) if counted else 0.0
        return Scores((Score(INLINE, round(mean, 4), "%"),), {INLINE: tuple(values)})
