"""Test the regression gate on simulated histories with known noise.

    python -m perf.regression_gate [--histories 2000] [--seed 1]

A history is a baseline and a run of a Server scenario: tokens/s, QPS, TTFT and TPOT, each
with its own noise, judged together. "within" is noise from block to block of a run; "between" is
noise that also differs from run to run. The first table shows how often the gate says regressed
although nothing changed, and how often it finds a true loss of 10%; it also shows the usual method,
a bootstrap of the blocks' mean, to explain why the gate does not use it. The second table is for a
machine whose other load slows the run down while it lasts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlperf_suite.loadgen.timeline import TOKEN_BLOCKS
from mlperf_suite.results.regression import DEFAULT_MAX_REGRESSION, compare_summaries, confidence
from mlperf_suite.results.schema import Summary

_TRUE = {
    "tokens_per_sec": 1000.0,
    **{"ttft_ms": 800.0, "ttft_p50_ms": 200.0},
    **{"tpot_ms": 60.0, "tpot_p50_ms": 40.0},
}
_DRIFT = 0.7


@dataclass(frozen=True, slots=True)
class Load:
    """Other load on the machine: half of the time it slows the run down `slowdown` times.

    `stays`: the probability that its state is kept from one block to the next; otherwise the new
    state is random.
    """

    slowdown: float
    stays: float


@dataclass(frozen=True, slots=True)
class Case:
    """`repeats`: runs on each side. `between`: noise between runs, relative to that of the blocks.

    `drifts`: the blocks' noise changes slowly, so that neighbours are similar. `only_speed`: there
    are only tokens/s and QPS, as in Offline.
    """

    name: str
    repeats: int
    between: float = 0.0
    drifts: bool = False
    only_speed: bool = False
    load: Load | None = None


CASES = (
    Case("one run each, noise within", 1),
    Case("one run each, noise within, tokens/s only", 1, only_speed=True),
    Case("one run each, noise within that drifts", 1, drifts=True),
    Case("one run each, noise between", 1, 1.0),
    Case("--repeat 3 each, noise between", 3, 1.0),
    Case("--repeat 5 each, noise between", 5, 1.0),
)
BEYOND = Case("one run each, between twice as large as within", 1, 2.0)
"""What one run on each side cannot detect: blocks differ less than runs do."""
LOADED = tuple(
    Case(f"{name}, {load.slowdown:g} times slower {length}", repeats, load=load)
    for load, length in ((Load(3, 0.3), "in short bursts"), (Load(3, 0.9), "for long"))
    for repeats, name in ((1, "one run each"), (5, "--repeat 5 each"))
)


def _log_noise(rng: np.random.Generator, case: Case, noise: float) -> np.ndarray:
    """The noise on the logarithm of each block's speed in one run."""
    blocks = rng.normal(0, noise, TOKEN_BLOCKS)
    if case.drifts:
        for i in range(1, TOKEN_BLOCKS):
            blocks[i] = _DRIFT * blocks[i - 1] + math.sqrt(1 - _DRIFT**2) * blocks[i]
    return blocks + rng.normal(0, case.between * noise)


def _load(rng: np.random.Generator, case: Case) -> np.ndarray:
    """The factor by which other load slows down each block of a run, for all metrics alike."""
    if case.load is None:
        return np.ones(TOKEN_BLOCKS)
    on = rng.random() < 0.5
    slower = []
    for _ in range(TOKEN_BLOCKS):
        on = on if rng.random() < case.load.stays else rng.random() < 0.5
        slower.append(case.load.slowdown if on else 1.0)
    return np.array(slower)


def summary(rng: np.random.Generator, case: Case, noise: float, loss: float = 0.0) -> Summary:
    """One side's summary. `noise`: relative standard deviation; `loss`: 0.1 is 10% slower."""
    runs: list[dict[str, Any]] = []
    for _ in range(case.repeats):
        slower = _load(rng, case) / (1 - loss)
        blocks: dict[str, list[float]] = {}
        for name, true in _TRUE.items():
            level = true / slower if name == "tokens_per_sec" else true * slower
            blocks[name] = list(level * np.exp(_log_noise(rng, case, noise)))
        # Blocks have equal numbers of tokens, so a run's rate is their harmonic mean.
        rate = TOKEN_BLOCKS / sum(1 / block for block in blocks["tokens_per_sec"])
        run = {"tokens_per_sec": rate, "qps": rate / 128, "blocks": blocks}
        if not case.only_speed:
            for time in ("ttft", "tpot"):
                p50, p99 = (np.mean(blocks[f"{time}{name}_ms"]) for name in ("_p50", ""))
                run[f"{time}_ms"] = {"p50": float(p50), "p99": float(p99)}
        runs.append(run)
    return Summary.read({"run": {"performance": {**runs[0], "repeats": runs[1:]}}})


Share = Callable[[Case, float, float, int, np.random.Generator], tuple[float, float]]


def share_regressed(
    case: Case, noise: float, loss: float, histories: int, rng: np.random.Generator
) -> tuple[float, float]:
    """How often any metric regressed, and how often tokens/s did."""
    any_metric = speed = 0
    for _ in range(histories):
        changes = compare_summaries(summary(rng, case, noise), summary(rng, case, noise, loss))
        regressed = {c.metric for c in changes if c.outcome == "regressed"}
        any_metric += bool(regressed)
        speed += "tokens_per_sec" in regressed
    return any_metric / histories, speed / histories


def share_regressed_by_bootstrap(
    case: Case, noise: float, loss: float, histories: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The same with intervals from a bootstrap of the mean of one run's blocks."""
    any_metric = speed = 0
    for _ in range(histories):
        sides = [summary(rng, case, noise), summary(rng, case, noise, loss)]
        regressed = set()
        for name in _TRUE:
            means = []
            for side in sides:
                assert side.run.performance is not None
                blocks = np.array(side.run.performance.blocks[name])
                draws = rng.integers(0, len(blocks), (400, len(blocks)))
                means.append((blocks.mean(), blocks[draws].mean(axis=1)))
            sign = 1 if name == "tokens_per_sec" else -1
            gains = sign * np.log(means[1][1] / means[0][1])
            gain = sign * np.log(means[1][0] / means[0][0])
            high = np.quantile(gains, 0.5 + confidence(len(_TRUE)) / 2)
            if gain < np.log1p(-DEFAULT_MAX_REGRESSION) and high < 0:
                regressed.add(name)
        any_metric += bool(regressed)
        speed += "tokens_per_sec" in regressed
    return any_metric / histories, speed / histories


def table(histories: int, seed: int) -> str:
    """The table of known noise, as Markdown."""
    columns = ((0.01, 0.0), (0.03, 0.0), (0.08, 0.0), (0.03, 0.1))
    header = ["each side has", "false alarms at 1%", "at 3%", "at 8% noise"]
    header += ["10% loss at 3% noise found", "found in tokens/s alone"]
    rows: list[tuple[str, Case, Share]] = [(c.name, c, share_regressed) for c in (*CASES, BEYOND)]
    bootstrap = "not the gate: bootstrap of the blocks' mean, "
    rows += [
        (bootstrap + case.name.split(", ")[1], case, share_regressed_by_bootstrap)
        for case in CASES
        if case.name in ("one run each, noise within", "one run each, noise between")
    ]
    return _markdown(header, rows, columns, histories, seed)


def loaded_table(histories: int, seed: int) -> str:
    """The table for a loaded machine, as Markdown, with noise of 3% besides the load."""
    columns = ((0.03, 0.0), (0.03, 0.3), (0.03, 0.64))
    header = ["each side has", "false alarms", "30% loss found", "64% loss found"]
    header.append("found in tokens/s alone")
    rows: list[tuple[str, Case, Share]] = [(case.name, case, share_regressed) for case in LOADED]
    return _markdown(header, rows, columns, histories, seed)


def _markdown(
    header: list[str],
    rows: list[tuple[str, Case, Share]],
    columns: tuple[tuple[float, float], ...],
    histories: int,
    seed: int,
) -> str:
    """A row for each case; `columns`: noise and loss of each. The last cell is for tokens/s alone.

    Each row has its own random numbers, so that it does not change when others are added.
    """
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    for name, case, share in rows:
        rng = np.random.default_rng([seed, *name.encode()])
        shares = [share(case, noise, loss, histories, rng) for noise, loss in columns]
        cells = [f"{any_metric:.1%}" for any_metric, _ in shares] + [f"{shares[-1][1]:.1%}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=2000, help="of each kind (2000)")
    parser.add_argument("--seed", type=int, default=1, help="of the made-up noise (1)")
    arguments = parser.parse_args()
    print(table(arguments.histories, arguments.seed))
    print()
    print(loaded_table(arguments.histories, arguments.seed))


if __name__ == "__main__":
    main()
