"""The regression gate on made-up histories whose noise is known.

    python -m perf.regression_gate [--histories 2000] [--seed 1]

A history is a baseline and a run of a Server scenario: tokens/s, QPS, TTFT p99 and TPOT p99, each
with its own noise, judged together. "between" is noise that sets one run apart from the next;
"within" is noise from block to block of a run. It prints how often the gate says regressed where
nothing changed, and how often it finds a true loss of 10%; beside them the same with a bootstrap of
the blocks' mean, the usual way, to show why the gate does not do that.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlperf_suite.loadgen.timeline import TOKEN_BLOCKS
from mlperf_suite.results.regression import compare_summaries, confidence

_TRUE = {"tokens_per_sec": 1000.0, "ttft_ms": 800.0, "tpot_ms": 60.0}


@dataclass(frozen=True, slots=True)
class Case:
    """`repeats`: runs on each side. `between`: whether the noise sets runs apart, too."""

    name: str
    repeats: int
    between: bool


CASES = (
    Case("one run each, noise within", 1, False),
    Case("one run each, noise between", 1, True),
    Case("--repeat 3 each, noise between", 3, True),
    Case("--repeat 5 each, noise between", 5, True),
)


def summary(
    rng: np.random.Generator, case: Case, noise: float, loss: float = 0.0
) -> dict[str, Any]:
    """One side's summary.json. `noise`: relative standard deviation; `loss`: 0.1 is 10% slower."""
    runs = []
    for _ in range(case.repeats):
        blocks: dict[str, list[float]] = {}
        for name, true in _TRUE.items():
            level = true * (1 - loss if name == "tokens_per_sec" else 1 / (1 - loss))
            offset = rng.normal(0, noise) if case.between else 0.0
            within = rng.normal(0, noise, TOKEN_BLOCKS)
            blocks[name] = list(level * np.exp(offset + within))
        rate = float(np.mean(blocks["tokens_per_sec"]))
        runs.append(
            {
                "tokens_per_sec": rate,
                "qps": rate / 128,
                "ttft_ms": {"p99": float(np.mean(blocks["ttft_ms"]))},
                "tpot_ms": {"p99": float(np.mean(blocks["tpot_ms"]))},
                "blocks": blocks,
            }
        )
    return {"run": {"performance": {**runs[0], "repeats": runs[1:]}}}


def share_regressed(
    case: Case, noise: float, loss: float, histories: int, rng: np.random.Generator
) -> tuple[float, float]:
    """How often any metric regressed, and how often tokens/s did."""
    anything = speed = 0
    for _ in range(histories):
        changes = compare_summaries(summary(rng, case, noise), summary(rng, case, noise, loss))
        regressed = {c.metric.name for c in changes if c.outcome == "regressed"}
        anything += bool(regressed)
        speed += "tokens_per_sec" in regressed
    return anything / histories, speed / histories


def share_regressed_by_bootstrap(
    case: Case, noise: float, loss: float, histories: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The same for intervals from a bootstrap of the mean of one run's blocks."""
    anything = speed = 0
    for _ in range(histories):
        sides = [summary(rng, case, noise), summary(rng, case, noise, loss)]
        regressed = set()
        for name in _TRUE:
            means = []
            for side in sides:
                blocks = np.array(side["run"]["performance"]["blocks"][name])
                drawn = rng.integers(0, len(blocks), (400, len(blocks)))
                means.append((blocks.mean(), blocks[drawn].mean(axis=1)))
            sign = 1 if name == "tokens_per_sec" else -1
            gains = sign * np.log(means[1][1] / means[0][1])
            gain = sign * np.log(means[1][0] / means[0][0])
            high = np.quantile(gains, 0.5 + confidence(len(_TRUE)) / 2)
            if gain < np.log1p(-0.05) and high < 0:
                regressed.add(name)
        anything += bool(regressed)
        speed += "tokens_per_sec" in regressed
    return anything / histories, speed / histories


def table(histories: int, seed: int) -> str:
    """The whole table, as Markdown."""
    rng = np.random.default_rng(seed)
    columns = ((0.01, 0.0), (0.03, 0.0), (0.08, 0.0), (0.03, 0.1))
    lines = [
        "| each side has | false alarms at 1% | at 3% | at 8% noise "
        "| 10% loss at 3% noise found | found in tokens/s alone |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    rows = [(case.name, case, share_regressed) for case in CASES]
    bootstrap = "not the gate: bootstrap of the blocks' mean, "
    rows += [
        (bootstrap + case.name.split(", ")[1], case, share_regressed_by_bootstrap)
        for case in CASES[:2]
    ]
    for name, case, share in rows:
        found = [share(case, noise, loss, histories, rng) for noise, loss in columns]
        cells = [f"{anything:.1%}" for anything, _ in found] + [f"{found[-1][1]:.1%}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=2000, help="of each kind (2000)")
    parser.add_argument("--seed", type=int, default=1, help="of the made-up noise (1)")
    arguments = parser.parse_args()
    print(table(arguments.histories, arguments.seed))


if __name__ == "__main__":
    main()
