"""What a feature is, and how features are found.

A feature is a capability in a folder of its own, `features/<name>/`, that the core does not know:
where the folder is gone, the rest works. Another package can have features too: each entry
point of the group `mlperf_suite.features` names a `Feature`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

_PACKAGE = "mlperf_suite.features"
"""The name of the folder and of the group of entry points."""
_FOLDER = str(Path(__file__).with_name("features"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What a feature adds. Modules are named, not imported, so that each is loaded when needed.

    `needs`: the features that it imports. `commands`: by the name of a command of `mlperf-suite`,
    the module with its `COMMAND`. `markers`: of pytest, by name, each with a sentence. `options`: a
    module with `OPTIONS`, settings of a session by name; if there are any, `completed`, what
    follows from them and the environment, `check`, which refuses what cannot be combined, and
    `recorded`, what config.json says in place of their values. `benchmarks`: modules with
    `BENCHMARKS`. `kinds`: by the name of a kind of run, the module with its `KIND`. `results`: what
    these make that is of no benchmark, by the names in meta.benchmark. `engine`: a module with an
    `ENGINE`, which loads engines of a kind of its own, and the name of the option in `OPTIONS`
    whose value, if any, chooses it. `rules`: modules with rules. `figures`: by their name in
    summary.json, the module and class of figures. `logs`: the names of files of runs that reports
    list with LoadGen's. `report`: a module with a `REPORT`, what reports say of them, or of every
    summary if there are none. `gate`: a module with a `GATE`, what the regression gate compares of
    them. `session`: a module with a `SESSION`, what accompanies a session and its runs. `judge`: a
    module with a `JUDGE` of folders given to --logs. `runs`: a module with `RUNS`, kept results of
    another place by a name for them. `accelerators`: a module with `ACCELERATORS`, what it knows of
    this machine's. `plugin`: a pytest plugin with fixtures and cases.
    """

    name: str
    summary: str
    needs: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    markers: Mapping[str, str] = field(default_factory=dict)
    options: str = ""
    runs: str = ""
    benchmarks: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    engine: tuple[str, str] | None = None
    results: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    report: str = ""
    gate: str = ""
    session: str = ""
    judge: str = ""
    accelerators: str = ""
    plugin: str = ""


@cache
def features() -> tuple[Feature, ...]:
    """Every feature that is there, by name; each module of `features/` has a `FEATURE`.

    Raises ImportError if one needs another that is not there.
    """
    names = (module.name for module in pkgutil.iter_modules([_FOLDER]))
    own = [import_module(f"{_PACKAGE}.{name}").FEATURE for name in names]
    others = [point.load() for point in entry_points(group=_PACKAGE)]
    found = {feature.name: feature for feature in (*own, *others)}
    for feature in found.values():
        if missing := [name for name in feature.needs if name not in found]:
            raise ImportError(f"the feature {feature.name} needs {', '.join(missing)}")
    return tuple(found[name] for name in sorted(found))
