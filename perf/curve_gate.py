"""Test the regression gate on simulated curves with known noise.

    python -m perf.curve_gate [--histories 2000] [--seed 1]

A history is a CI job whose curve is compared with the last good one and with the pinned one. See
`perf.regression_gate`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meta_tests.features.endpoints.curves import made_curve
from mlperf_suite.features.endpoints.curve.curve_figures import PART
from mlperf_suite.results.regression import compare_summaries
from mlperf_suite.results.schema import Summary
from perf.regression_gate import gate_parser

CURVE_CASES = {
    "within only": {"between": 0.0},
    "between as large, each point its own": {"between": 1.0, "common": False},
    "between as large, all points alike": {"between": 1.0},
}
"""By name, the noise of the points of a curve, whose runs are not repeated."""


def share_of_curve_jobs(
    case: dict[str, Any], noise: float, loss: float, histories: int, rng: np.random.Generator
) -> float:
    """How often a job fails that compares a curve with the last good and with the pinned one."""

    def summary(loss: float) -> Summary:
        return Summary(parts={PART: made_curve(noise, loss, seed=int(rng.integers(2**32)), **case)})

    def fails() -> bool:
        current = summary(loss)
        pairs = ((summary(0.0), current) for _ in ("last-good", "pinned"))
        return any(c.outcome == "regressed" for pair in pairs for c in compare_summaries(*pair))

    return sum(fails() for _ in range(histories)) / histories


def curve_table(histories: int, seed: int) -> str:
    """How often a job with a curve fails, as Markdown."""
    header = ["a point has", "false alarms at 1%", "at 3%", "at 8% noise"]
    header += ["5% loss at 1% noise found", "10% loss at 1%", "10% loss at 3%"]
    settings = ((0.01, 0.0), (0.03, 0.0), (0.08, 0.0), (0.01, 0.05), (0.01, 0.1), (0.03, 0.1))
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    for name, case in CURVE_CASES.items():
        rng = np.random.default_rng([seed, *name.encode()])
        shares = [share_of_curve_jobs(case, *setting, histories, rng) for setting in settings]
        lines.append(f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    return "\n".join(lines)


def main() -> None:
    arguments = gate_parser(__doc__).parse_args()
    print(curve_table(arguments.histories, arguments.seed))


if __name__ == "__main__":
    main()
