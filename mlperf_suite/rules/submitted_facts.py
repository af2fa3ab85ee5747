"""What rules know of a submitted result, whatever measured it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.client_results.client_benchmarks import ClientBenchmark
from mlperf_suite.rules.facts import Facts
from mlperf_suite.strict_json import JsonFile


@dataclass(frozen=True, slots=True)
class PowerSupplyRating:
    """What systems/<system>_power.yaml has; `problem` says why nothing. `counts`: the result has a
    power measurement beside which it counts."""

    content: Any
    problem: str
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedFacts(Facts):
    """What the result of any load generator has, apart from what its runs' own rules judge.

    `missing_files`: required files that are absent. `copies`: other results of the submission that
    have the same logs.
    """

    division: str
    submitter: str
    benchmark: Benchmark | ClientBenchmark
    round: Round
    missing_files: tuple[str, ...]
    system: JsonFile
    measurements: JsonFile
    copies: tuple[str, ...] = ()
    nameplate: PowerSupplyRating | None = None
