"""The kinds of runs that a session can make: the core's and those of features."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from mlperf_suite.feature import features
from mlperf_suite.session.run_kind import RunKind, StepKey

_SESSION = "mlperf_suite.session"
_OF_THE_CORE = (
    *("loadgen_kind", "chat_kind"),
    "mmlu_kind",
)
"""Modules with a `KIND`. Named, not imported: what makes a kind's steps asks for kinds itself."""


@cache
def run_kinds() -> dict[str, RunKind[Any]]:
    """Every kind by name, in the order of their runs."""
    modules = [f"{_SESSION}.{name}" for name in _OF_THE_CORE]
    modules += [name for feature in features() for name in feature.kinds]
    kinds = [import_module(name).KIND for name in modules]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.rank)}


def kind_of(key: StepKey) -> RunKind[Any]:
    """The kind of a key."""
    return run_kinds()[key.kind]
