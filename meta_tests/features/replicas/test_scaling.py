"""--scaling: what the figures say of all replicas beside one alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pytest import MonkeyPatch

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.features.replicas import scaling
from mlperf_suite.features.replicas.scaling import PAIRS, measure_scaling


@pytest.mark.parametrize("rates", [[100.0, 100.0], [300.0, 200.0, 100.0]], ids=["alike", "not"])
def test_the_figure_is_of_its_operands(monkeypatch: MonkeyPatch, rates: list[float]) -> None:
    """Replicas that are not alike are each measured alone, and another one of those alike."""
    replicas = [SimpleNamespace(rate=rate) for rate in rates]
    alike = len(set(rates)) == 1
    engine: Any = SimpleNamespace(replicas=replicas, alike=alike, rate=0.9 * sum(rates))
    asked: list[Any] = []

    def generate(target: Any, prompts: list[list[int]], *_: object) -> SimpleNamespace:
        asked.append(target)
        assert len(prompts) == 2 * (len(replicas) if target is engine else 1)
        return SimpleNamespace(tokens_per_s=target.rate * (1 + len(asked) % 3 / 100))

    monkeypatch.setattr(scaling, "generate_all", generate)
    figures = measure_scaling(engine, [[1], [2]], Generation(), 1.0, lambda line: None)
    efficiency = figures.all_tokens_per_sec / (figures.replicas * figures.one_tokens_per_sec)
    assert figures.efficiency == pytest.approx(efficiency, abs=1e-4)
    assert efficiency == pytest.approx(0.9, abs=0.02)
    assert figures.low < figures.efficiency < figures.high
    alone = [sum(target is replica for target in asked) for replica in replicas]
    assert sum(alone) == PAIRS * (1 if alike else len(rates)) and all(alone)
