"""Simulate caching audits at several levels of noise and count their findings.

    .venv/bin/python -m perf.caching_audit

Uses no engine and no clock: block times are drawn at random and judged like in the audit. Prints
the tables of docs/caching-audit.md.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator

from mlperf_suite.features.caching_audit.block_times import LOOKS, Finding, interval_of

FASTER = (0.0, 0.05, 0.10, 0.15, 0.25, 0.50, 1.0, 9.0)
"""The true speed-up of one repeated sample, as shares."""
_FINDINGS: tuple[Finding, ...] = ("no caching", "cannot tell", "caching")
Noise = Callable[[random.Random], Iterator[float]]
"""Yields the factor on each block's time."""


def spread(sigma: float) -> Noise:
    """Independent blocks with normally distributed logarithms."""

    def draw(chance: random.Random) -> Iterator[float]:
        while True:
            yield chance.lognormvariate(0, sigma)

    return draw


def bursts(busy: float, blocks: float, factor: float) -> Noise:
    """Other load for the share `busy` of the time, in bursts of `blocks` blocks on average, during
    which a block takes up to `factor` times as long; plus a spread of 2%."""

    def draw(chance: random.Random) -> Iterator[float]:
        on = chance.random() < busy
        while True:
            ends = 1 / blocks if on else busy / (1 - busy) / blocks
            on ^= chance.random() < ends
            yield chance.lognormvariate(0, 0.02) * (chance.uniform(1, factor) if on else 1)

    return draw


def drift(a_block: float) -> Noise:
    """A machine that becomes slower by this share with each block, plus a spread of 2%."""

    def draw(chance: random.Random) -> Iterator[float]:
        level = 1.0
        while True:
            level *= 1 + a_block
            yield level * chance.lognormvariate(0, 0.02)

    return draw


NOISES: dict[str, Noise] = {
    "2% a block": spread(0.02),
    "5% a block": spread(0.05),
    "10% a block": spread(0.10),
    "20% a block": spread(0.20),
    "40% a block": spread(0.40),
    "bursts of 3 blocks, a third of the time, up to 2x": bursts(1 / 3, 3, 2),
    "bursts of 10 blocks, half of the time, up to 4x": bursts(1 / 2, 10, 4),
    "1% slower with each block": drift(0.01),
}


def audit(noise: Noise, faster: float, chance: random.Random) -> tuple[Finding, int]:
    """Simulate one audit; return its finding and its number of pairs."""
    factors, pairs = noise(chance), []
    for pair in range(1, LOOKS[-1] + 1):
        first, second = next(factors), next(factors)
        mix, same = (first, second) if chance.random() < 0.5 else (second, first)
        pairs.append((mix * (1 + faster), same))
        interval = interval_of(pairs) if pair in LOOKS else None
        if interval is not None and interval.finding != "cannot tell":
            return interval.finding, pair
    return "cannot tell", LOOKS[-1]


def main() -> None:
    """Print the share of each finding and the mean number of pairs, by noise and true speed-up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--audits", type=int, default=1000)
    audits = parser.parse_args().audits
    print("| noise | " + " | ".join(f"{faster:.0%}" for faster in FASTER) + " |")
    print("|---|" + "---|" * len(FASTER))
    for name, noise in NOISES.items():
        cells = []
        for faster in FASTER:
            chance = random.Random(f"{name} {faster}")  # noqa: S311 - no secret
            outcomes = [audit(noise, faster, chance) for _ in range(audits)]
            counts = Counter(name for finding_, _ in outcomes)
            shares = " / ".join(f"{100 * counts[finding] / audits:.3g}" for finding in _FINDINGS)
            cells.append(f"{shares} ({sum(pairs for _, pairs in outcomes) / audits:.0f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
