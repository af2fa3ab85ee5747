"""Which replica --scaling measures alone, for any number of them, alike or not."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import MonkeyPatch

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.features.replicas import scaling
from mlperf_suite.features.replicas.figures import ScalingFigures
from mlperf_suite.features.replicas.scaling import PAIRS, measure_scaling


class Alone:
    """One replica."""

    def __init__(self, rate: float) -> None:
        self.rate = rate


class Several:
    """Replicas of these tokens/s, which together make as much as they do alone."""

    def __init__(self, rates: Sequence[float]) -> None:
        self.replicas = [Alone(rate) for rate in rates]
        self.alike = len(set(rates)) == 1
        self.rate = sum(rates)


def scaling_of(
    engine: Several, monkeypatch: MonkeyPatch
) -> tuple[ScalingFigures, list[Any], list[str]]:
    """The figures, who was asked in which order, and what was said."""
    engines: list[Any] = []
    lines: list[str] = []

    def generate(target: Any, prompts: Sequence[Sequence[int]], *_: object) -> SimpleNamespace:
        engines.append(target)
        assert len(prompts) == 3 * (len(engine.replicas) if target is engine else 1)
        return SimpleNamespace(tokens_per_s=target.rate)

    monkeypatch.setattr(scaling, "generate_all", generate)
    prompts = [[1], [2, 3], [4]]
    figures = measure_scaling(engine, prompts, Generation(), 1.0, lines.append)  # type: ignore[arg-type]
    return figures, engines, lines


@pytest.mark.parametrize("rates", [[200.0, 100.0], [300.0, 200.0, 100.0]])
def test_each_replica_not_alike_is_alone_once(monkeypatch: MonkeyPatch, rates: list[float]) -> None:
    engine = Several(rates)
    figures, engines, lines = scaling_of(engine, monkeypatch)
    assert figures.efficiency == pytest.approx(1.0)
    assert all(engines.count(target) == PAIRS for target in [engine, *engine.replicas])
    assert all("(100.0%)" in line for line in lines)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_of_replicas_alike_each_is_alone_in_each_order(
    monkeypatch: MonkeyPatch, count: int
) -> None:
    engine = Several([100.0] * count)
    figures, engines, _ = scaling_of(engine, monkeypatch)
    assert (figures.efficiency, figures.low, figures.high) == (1.0, 1.0, 1.0)
    pairs = list(zip(engines[::2], engines[1::2], strict=True))
    assert [engine in pair for pair in pairs] == [True] * PAIRS
    alone = {
        (first is engine, engine.replicas.index(second if first is engine else first))
        for first, second in pairs
    }
    assert len({replica for _, replica in alone}) == min(count, PAIRS)
    # Of two, neither replica has one of the two orders to itself.
    assert len(alone) == 4 or count > 2
