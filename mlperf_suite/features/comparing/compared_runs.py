"""The runs that `compare` is given: folders, and kept results of another place by a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlperf_suite.errors import UsageError
from mlperf_suite.features.comparing.run_places import RunPlace, run_places
from mlperf_suite.results.baseline import BaselineRun, load_baseline
from mlperf_suite.results.regression import has_figures


def compared_runs(names: Sequence[str], measured: str, room: Path) -> list[BaselineRun]:
    """The runs in the order of their names, each once; results of other places are read into
    `room`.

    Of those only the ones count that measured the same as the folders, or what the words in
    `measured` say. Raises UsageError, also if the first has no figures and if there is no other.
    """
    given: list[tuple[str, list[BaselineRun]]] = []
    kinds: set[tuple[str, str]] = set()
    for name in names:
        place = next((place for place in run_places() if place.takes(name)), None)
        if place:
            given.append((name, _fetched(place, name, room)))
        else:
            run = load_baseline(Path(name), "", needs_figures=not given)
            given.append(("", [run]))
            kinds.add(run.kind)
    runs: dict[str, BaselineRun] = {}
    for name, of_name in given:
        wanted = _wanted(name, of_name, kinds, measured) if name else of_name
        runs |= {run.label if name else str(len(runs)): run for run in wanted}
    if not has_figures(next(iter(runs.values())).summary):
        raise UsageError(f"compare: {names[0]}: no run in it has figures to compare")
    if len(runs) < 2:
        raise UsageError(f"compare: needs at least two runs; {' '.join(names)} is one")
    return _by_node([*runs.values()])


def _fetched(place: RunPlace, name: str, room: Path) -> list[BaselineRun]:
    """Those with figures before those without, so that there is something to compare with."""
    runs = [
        replace(load_baseline(folder, f"{label}: ", needs_figures=False), label=label)
        for label, folder in place.fetch(name, room)
    ]
    return sorted(runs, key=lambda run: not has_figures(run.summary))


def _wanted(
    name: str, runs: Sequence[BaselineRun], kinds: set[tuple[str, str]], measured: str
) -> list[BaselineRun]:
    """Raises UsageError if none is left that can be compared, or they measured several things."""
    words = set(measured.casefold().split())
    found = [
        run
        for run in runs
        if (not kinds or run.kind in kinds)
        and words <= set(run.summary.meta.title.casefold().split())
    ]
    of = ", ".join(sorted({run.summary.meta.title for run in runs}))
    if not found:
        raise UsageError(f"compare: {name}: its results of {of} are not what is compared")
    if not kinds and len({run.kind for run in found}) > 1:
        raise UsageError(f"compare: {name}: has results of {of}: --measured WORDS chooses")
    return found


def _by_node(runs: list[BaselineRun]) -> list[BaselineRun]:
    """The runs, named by their nodes where these tell them apart."""
    nodes = [run.summary.meta.node_name for run in runs]
    apart = all(nodes) and len({*nodes}) == len(nodes)
    return [*map(_named_by_node, runs)] if apart else runs


def _named_by_node(run: BaselineRun) -> BaselineRun:
    meta = run.summary.meta
    meta = replace(meta, run_name=meta.run_name or meta.node_name)
    return replace(run, summary=replace(run.summary, meta=meta))
