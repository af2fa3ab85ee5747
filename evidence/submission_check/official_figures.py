"""The figures that MLCommons says in several places, beside the suite's: limits and gates.

    MLPERF_INFERENCE=DIR python -m evidence.submission_check.official_figures

writes the table of docs/evidence/official-checker.md again. Sources: constants.py of the submission
checker, mlperf.conf, and the text of the rules (inference_rules.adoc of inference_policies, whose
figures stand here, since a checkout of inference has no copy).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from evidence.from_elsewhere import INFERENCE
from evidence.tables import PAGES, write_cells
from evidence.verdicts import CHECKER
from mlperf_suite.benchmarks.catalog import judged_in_trees
from mlperf_suite.benchmarks.definition import Benchmark

PAGE = PAGES / "official-checker.md"
HEADER = "| figure | the rules' text | mlperf.conf | the checker | here |"
RULES_TEXT = {
    "gpt-oss-120b Interactive TPOT, ms": 20.0,
    "deepseek-r1 exact_match, at least": round(0.99 * 81.9132, 3),
}
"""Figures that the text of the rules states otherwise than a program of MLCommons; of a gate it
states the reference."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by its sources; None where one does not state it."""

    name: str
    conf: float | None
    checker: float | None
    own: float | None

    @property
    def sources(self) -> tuple[float | None, ...]:
        return RULES_TEXT.get(self.name), self.conf, self.checker

    @property
    def contradicts(self) -> bool:
        """Whether two official sources state it otherwise."""
        return len({round(value, 3) for value in self.sources if value is not None}) > 1


def checker_constants(checkout: Path) -> Any:
    sys.path.insert(0, str(checkout / CHECKER))
    return import_module("submission_checker.constants")


def conf_settings(checkout: Path) -> dict[str, str]:
    """mlperf.conf, by model.scenario.key."""
    lines = (checkout / "loadgen" / "mlperf.conf").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("#")[0].partition("=") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs if value}


def figures(checkout: Path) -> Iterator[Figure]:
    """Each latency limit and each gate of a benchmark that the suite judges in trees."""
    constants, conf = checker_constants(checkout), conf_settings(checkout)
    for benchmark in judged_in_trees():
        limits = constants.LLM_LATENCY_LIMITS.get(benchmark.id, {})
        for scenario in benchmark.scenarios:
            for kind in ("ttft", "tpot") if "tpot" in scenario.limits else ():
                key = f"{scenario.loadgen_model}.Server.{kind}_latency"
                checked = limits.get(scenario.name, {}).get(kind)
                yield Figure(
                    f"{benchmark.id} {scenario.name} {kind.upper()}, ms",
                    float(conf[key]) if key in conf else None,
                    checked and checked / 1e6,
                    scenario.limits[kind],
                )
        yield from _gates(benchmark, constants.MODEL_CONFIG[benchmark.rounds[-1]])


NOT_HERE = "gpt-oss-120b tokens_per_sample"
"""Its upper limit is a placeholder, 1.1 x 9,999, which the official script does not print."""
_NAMES = {
    "gsm8k_accuracy": "gsm8k",
    "mbxp_accuracy": "mbxp",
    "accuracy": "word_accuracy",
    "f1_hierarchical": "f1",
}
"""The checker's names of figures that the suite calls otherwise."""


def _gates(benchmark: Benchmark, config: Any) -> Iterator[Figure]:
    """Of several scenarios' gates Offline's, shares in percent."""
    own = {score.name.lower(): score for score in benchmark.reference.scores}
    strict = benchmark.id.endswith("-99.9")
    for bound in ("accuracy-target", "accuracy-upper-limit"):
        pairs = config[bound].get(benchmark.id, ())
        pairs = pairs["Offline"] if isinstance(pairs, dict) else pairs
        for name, official in zip(pairs[::2], pairs[1::2], strict=True):
            score = own.get(_NAMES.get(name.lower(), name.lower()))
            if score is None:
                yield Figure(f"{benchmark.id} {name.lower()}", None, official, None)
                continue
            at_least = bound == "accuracy-target"
            scale = 100 if score.name == "f1" else 1
            yield Figure(
                f"{benchmark.id} {score.name}, at {'least' if at_least else 'most'}",
                None,
                round(scale * official, 3),
                round(score.low(strict=strict) if at_least else score.high or 0.0, 3),
            )


def main() -> None:
    rows = [
        (figure.name, *("" if v is None else f"{v:g}" for v in (*figure.sources, figure.own)))
        for figure in figures(INFERENCE)
        if figure.contradicts
    ]
    write_cells(PAGE, HEADER, rows)


if __name__ == "__main__":
    main()
