"""Finds the benchmarks: the modules of this package and of features with a tuple `BENCHMARKS`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from mlperf_suite import benchmarks
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.feature import features


def _defined() -> Iterator[Benchmark]:
    """In the order of the files' names, wherever a file is."""
    names = [f"{benchmarks.__name__}.{m.name}" for m in pkgutil.iter_modules(benchmarks.__path__)]
    names += [name for feature in features() for name in feature.benchmarks]
    for name in sorted(names, key=lambda name: name.rpartition(".")[2]):
        if name != __name__:
            yield from getattr(importlib.import_module(name), "BENCHMARKS", ())


BENCHMARKS: dict[str, Benchmark] = {benchmark.id: benchmark for benchmark in _defined()}
"""All known benchmarks by id: those that the suite runs, and those that it only judges from
logs."""


def runnable() -> list[Benchmark]:
    """The benchmarks that the suite can run."""
    return [b for b in BENCHMARKS.values() if b.workload is not None]


def default_benchmarks() -> list[Benchmark]:
    """The benchmarks that run if none is named."""
    return [b for b in runnable() if b.by_default]


def judged_in_trees() -> list[Benchmark]:
    """The benchmarks whose results in submissions the suite judges."""
    return [b for b in BENCHMARKS.values() if b.in_trees]


def find_benchmark(name: str) -> Benchmark | None:
    """The benchmark that a submission calls by this name, or None if it is unknown."""
    return next((b for b in judged_in_trees() if name in (b.id, *b.aliases)), None)
