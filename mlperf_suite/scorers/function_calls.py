"""Function calling of edge-agentic: BFCL v4's samples and checker, started as a process of their
own environment, and the accuracy that both gates judge."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.errors import SuiteError
from mlperf_suite.scorers.bfcl_worker import SUBSETS

GATES = {"overall": 0.97 * 86.23, "normalized": 0.97 * 87.96}
"""The least accuracy in percent: 97% of the reference run's (mlcommons/inference,
language/edge-agentic/README.md)."""
_WORKER = Path(__file__).with_name("bfcl_worker.py")
_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class FunctionCallScores:
    """Accuracy in percent, rounded to two decimals as officially. `normalized`: the mean of the
    categories. `missing`: samples without an answer, which count as wrong."""

    overall: float
    normalized: float
    categories: dict[str, float]
    subsets: dict[str, float]
    samples: int
    missing: int

    @property
    def passed(self) -> bool:
        """Whether both gates are met with an answer to every sample."""
        met = self.overall >= GATES["overall"] and self.normalized >= GATES["normalized"]
        return met and not self.missing


def drawn_samples(python: Path) -> list[dict[str, Any]]:
    """The samples of the accuracy run; `python` is that of the environment with bfcl-eval."""
    samples: list[dict[str, Any]] = _run(python, "samples")
    return samples


def checked_answers(python: Path, answers: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    """1 or 0 for each answer, which is its tool calls, by the id of its sample."""
    verdicts: dict[str, int] = _run(python, "check", answers)
    return verdicts


def _run(python: Path, command: str, content: object = None) -> Any:
    if not python.is_file():
        raise SuiteError(f"{python}: no environment with bfcl-eval: run make bfcl")
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "in.json"), Path(folder, "out.json")
        given.write_text(json.dumps(content), encoding="utf-8")
        files = [str(given), str(out)] if command == "check" else [str(out)]
        words = [str(python), "-I", str(_WORKER), command, *files]
        try:
            subprocess.run(
                words, cwd=folder, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise SuiteError(f"bfcl-eval did not end within {_TIMEOUT_S:g} s") from error
        except subprocess.CalledProcessError as error:
            line = (error.stderr or "").strip().rpartition("\n")[2]
            raise SuiteError(f"bfcl-eval failed: {line}: run make bfcl again") from error
        return json.loads(out.read_text(encoding="utf-8"))


def scores(subset_of: Mapping[str, str], verdicts: Mapping[str, int]) -> FunctionCallScores:
    """The scores of all samples in `subset_of`, the subset by id; those without a verdict are
    missing. As BFCLv4Scorer.score (mlcommons/endpoints, evaluation/bfcl_v4_scorer.py)."""
    points: dict[str, list[int]] = {}
    for number, subset in subset_of.items():
        points.setdefault(subset, []).append(verdicts.get(number, 0))
    means = {subset: statistics.fmean(values) for subset, values in points.items()}
    categories = {
        category: _category(category, points, means)
        for category in dict.fromkeys(SUBSETS[subset] for subset in points)
    }
    return FunctionCallScores(
        overall=_percent(statistics.fmean(v for values in points.values() for v in values)),
        normalized=_percent(statistics.fmean(categories.values())),
        categories={name: _percent(value) for name, value in categories.items()},
        subsets={name: _percent(value) for name, value in means.items()},
        samples=len(subset_of),
        missing=sum(number not in verdicts for number in subset_of),
    )


def _category(category: str, points: Mapping[str, list[int]], means: Mapping[str, float]) -> float:
    """`live` weighs by samples, `hallucination` by subsets; in `non_live` the three simple subsets
    count as one."""
    members = [subset for subset in points if SUBSETS[subset] == category]
    if category == "live":
        return statistics.fmean(value for subset in members for value in points[subset])
    simple = [means[subset] for subset in members if subset.startswith("simple_")]
    others = [means[subset] for subset in members if not subset.startswith("simple_")]
    if category == "non_live":
        return statistics.fmean(([statistics.fmean(simple)] if simple else []) + others)
    return statistics.fmean(simple + others)


def _percent(value: float) -> float:
    return round(value * 100, 2)
