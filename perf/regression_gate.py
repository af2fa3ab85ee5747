"""Test the regression gate on simulated histories with known noise.

    python -m perf.regression_gate [--histories 2000] [--seed 1]

A history is a CI job: Offline and Server, each compared with the last good run and with the pinned
one, all metrics together. "within" is noise from block to block of a run; "between" is noise that
also differs from run to run. The table shows how often a job fails although nothing changed, if
each metric has its own noise, and how often it fails after a loss of 10%, if all metrics of a
run share the noise between runs: each is the harder case for the gate. The last columns are a
bound: what is found by a test that knows the noise and judges each comparison separately.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlperf_suite.loadgen.timeline import TOKEN_BLOCKS
from mlperf_suite.results.regression import compare_summaries
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

    `drifts`: the blocks' noise changes slowly, so that neighbours are similar. `common`: all
    metrics of a run share the noise between runs.
    """

    name: str
    repeats: int
    between: float = 0.0
    drifts: bool = False
    common: bool = False
    load: Load | None = None


REPEATS = (1, 2, 3, 5)
CASES = (
    *(Case(f"--repeat {n}, between as large as within", n, 1.0) for n in REPEATS),
    *(Case(f"--repeat {n}, within only", n) for n in REPEATS),
    Case("--repeat 1, within only, drifts", 1, drifts=True),
)
BEYOND = tuple(Case(f"--repeat {n}, between twice as large", n, 2.0) for n in REPEATS)
"""Runs that differ more than their blocks do, which only repeats show."""
LOADED = tuple(
    Case(f"--repeat {n}, 3 times slower {length}", n, load=load)
    for load, length in ((Load(3, 0.3), "in short bursts"), (Load(3, 0.9), "for long"))
    for n in (1, 5)
)
_Side = tuple[Summary, Summary]
"""The summaries of a job's two scenarios, Offline and Server."""


def _log_noise(
    rng: np.random.Generator, case: Case, noise: float, common: float | None
) -> np.ndarray:
    """The noise on the logarithm of each block's speed in one run. `common`: that of the run."""
    blocks = rng.normal(0, noise, TOKEN_BLOCKS)
    if case.drifts:
        for i in range(1, TOKEN_BLOCKS):
            blocks[i] = _DRIFT * blocks[i - 1] + math.sqrt(1 - _DRIFT**2) * blocks[i]
    own = rng.normal() if common is None else common
    return blocks + own * case.between * noise


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


def _summary(
    rng: np.random.Generator, case: Case, noise: float, scenario: str, loss: float
) -> Summary:
    """One side's summary. `noise`: relative standard deviation; `loss`: 0.1 is 10% slower."""
    runs: list[dict[str, Any]] = []
    for _ in range(case.repeats):
        common = rng.normal() if case.common else None
        slower = _load(rng, case)
        blocks: dict[str, list[float]] = {}
        for name, true in _TRUE.items():
            factor = np.exp(_log_noise(rng, case, noise, common))
            if name == "tokens_per_sec":
                # At Server's rate tokens/s cannot fall.
                loss_of_rate = loss if scenario == "Offline" else 0.0
                blocks[name] = list(true / slower * (1 - loss_of_rate) * factor)
            elif scenario == "Server":
                blocks[name] = list(true * slower / (1 - loss) / factor)
        # Blocks have equal numbers of tokens, so a run's rate is their harmonic mean.
        rate = TOKEN_BLOCKS / sum(1 / block for block in blocks["tokens_per_sec"])
        run = {"tokens_per_sec": rate, "qps": rate / 128, "blocks": blocks}
        for time in ("ttft", "tpot") if scenario == "Server" else ():
            p50, p99 = (np.mean(blocks[f"{time}{name}_ms"]) for name in ("_p50", ""))
            run[f"{time}_ms"] = {"p50": float(p50), "p99": float(p99)}
        runs.append(run)
    score = {"name": "rouge1", "value": 39.0, "unit": "%", "standard_error": 0.3}
    performance = {**runs[0], "repeats": runs[1:]}
    return Summary.read({"run": {"performance": performance, "accuracy": {"scores": [score]}}})


def _side(
    rng: np.random.Generator, case: Case, noise: float, losses: tuple[float, float] = (0.0, 0.0)
) -> _Side:
    offline, server = losses
    return (
        _summary(rng, case, noise, "Offline", offline),
        _summary(rng, case, noise, "Server", server),
    )


def share_of_jobs(
    case: Case,
    noise: float,
    losses: tuple[float, float],
    histories: int,
    rng: np.random.Generator,
) -> float:
    """How often a job fails. `losses`: of Offline and of Server, which can lose only latency."""
    return sum(_fails(case, noise, losses, rng) for _ in range(histories)) / histories


def _fails(case: Case, noise: float, losses: tuple[float, float], rng: np.random.Generator) -> bool:
    current = _side(rng, case, noise, losses)
    baselines = [_side(rng, case, noise) for _ in ("last-good", "pinned")]
    return any(
        change.outcome == "regressed"
        for baseline in baselines
        for then, now in zip(baseline, current, strict=True)
        for change in compare_summaries(then, now)
    )


def bound(
    repeats: int, noise: float, losses: tuple[float, float], histories: int = 100_000
) -> float:
    """What a test finds that knows the noise, looks at one metric of each scenario, judges each
    comparison by itself and raises false alarms in 5% of the jobs."""
    rng = np.random.default_rng(1)
    run = noise * math.sqrt((1 + 1 / TOKEN_BLOCKS) / repeats)
    now, then = rng.normal(0, run, (histories, 2, 1)), rng.normal(0, run, (histories, 2, 2))
    limit = float(np.quantile((then - now).max(axis=(1, 2)), 0.95))
    lost = -np.log1p(-np.array(losses)).reshape(2, 1)
    return float(((then - now + lost).max(axis=(1, 2)) > limit).mean())


_EVERYWHERE, _OFFLINE = (0.1, 0.1), (0.1, 0.0)


def table(histories: int, seed: int) -> str:
    """How often a job fails, as Markdown. Each row has its own random numbers, so that it does not
    change when others are added."""
    header = ["each side has", "false alarms at 1%", "at 3%", "at 8% noise"]
    header += ["10% loss at 3% noise found", "in Offline alone", "bound", "in Offline alone"]
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    for case in (*CASES, *BEYOND):
        rng = np.random.default_rng([seed, *case.name.encode()])
        alone, shared = case, replace(case, common=True)
        shares = [share_of_jobs(alone, n, (0.0, 0.0), histories, rng) for n in (0.01, 0.03, 0.08)]
        both = _EVERYWHERE, _OFFLINE
        shares += [share_of_jobs(shared, 0.03, losses, histories, rng) for losses in both]
        cells = [f"{share:.1%}" for share in shares]
        bounds = [f"{bound(case.repeats, 0.03, losses):.1%}" for losses in both]
        cells += bounds if case.between == 1 else ["", ""]
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def loaded_table(histories: int, seed: int) -> str:
    """The table for a machine with other load, as Markdown, with noise of 3% besides."""
    header = ["each side has", "false alarms", "30% loss found", "64% loss found"]
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    for case in LOADED:
        rng = np.random.default_rng([seed, *case.name.encode()])
        shares = [share_of_jobs(case, 0.03, (x, x), histories, rng) for x in (0.0, 0.3, 0.64)]
        lines.append(f"| {case.name} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    return "\n".join(lines)


def gate_parser(doc: str | None) -> argparse.ArgumentParser:
    """With how many jobs are simulated. `doc`: the docstring of the program."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=2000, help="of each kind (2000)")
    parser.add_argument("--seed", type=int, default=1, help="of the made-up noise (1)")
    return parser


def main() -> None:
    arguments = gate_parser(__doc__).parse_args()
    print(table(arguments.histories, arguments.seed))
    print()
    print(loaded_table(arguments.histories, arguments.seed))


if __name__ == "__main__":
    main()
