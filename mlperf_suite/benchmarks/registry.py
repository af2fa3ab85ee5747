"""Finds the benchmarks: every file of this package that has a tuple `BENCHMARKS`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from mlperf_suite import benchmarks
from mlperf_suite.benchmarks.definition import Benchmark


def _defined() -> Iterator[Benchmark]:
    names = sorted(
        f"{benchmarks.__name__}.{m.name}" for m in pkgutil.iter_modules(benchmarks.__path__)
    )
    for name in names:
        if name != __name__:
            yield from getattr(importlib.import_module(name), "BENCHMARKS", ())


BENCHMARKS: dict[str, Benchmark] = {benchmark.id: benchmark for benchmark in _defined()}
"""What the suite knows, by id: what it runs, and what it judges from logs alone."""


def runnable() -> list[Benchmark]:
    """The benchmarks that the suite can run."""
    return [b for b in BENCHMARKS.values() if b.workload is not None]


def default_benchmarks() -> list[Benchmark]:
    """The benchmarks that are run where no other is named."""
    return [b for b in runnable() if b.by_default]


def find_benchmark(name: str) -> Benchmark | None:
    """The benchmark that a submission calls so, or None where nobody here knows it."""
    found = BENCHMARKS.get(name)
    return found or next((b for b in BENCHMARKS.values() if name in b.aliases), None)
