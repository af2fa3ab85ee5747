"""--scaling: which replica is measured alone, and what the figures say."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.results.schema import ScalingFigures
from mlperf_suite.session.timing import probe
from mlperf_suite.session.timing.probe import PAIRS, measure_scaling


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

    def weigh(self, speeds: Sequence[float], prompt_cost: float) -> bool:
        """Routed as they are."""
        return False

    def take_replicas_run(self) -> None:
        """Nothing is kept."""


def measured(
    engine: Several, monkeypatch: pytest.MonkeyPatch
) -> tuple[ScalingFigures, list[Any], list[str]]:
    """The figures, who was asked in which order, and what was said."""
    asked: list[Any] = []
    said: list[str] = []

    def generate(one: Any, prompts: Sequence[Sequence[int]], *_: object) -> SimpleNamespace:
        asked.append(one)
        assert len(prompts) == 3 * (len(engine.replicas) if one is engine else 1)
        return SimpleNamespace(tokens_per_s=one.rate)

    monkeypatch.setattr(probe, "generate_all", generate)
    prompts = [[1], [2, 3], [4]]
    found = measure_scaling(engine, prompts, Generation(), 1.0, said.append)  # type: ignore[arg-type]
    return found, asked, said


@pytest.mark.parametrize("rates", [[200.0, 100.0], [300.0, 200.0, 100.0]])
def test_replicas_that_are_not_alike_are_each_measured_alone(
    monkeypatch: pytest.MonkeyPatch, rates: list[float]
) -> None:
    engine = Several(rates)
    found, asked, said = measured(engine, monkeypatch)
    assert found.efficiency == pytest.approx(1.0)
    assert all(asked.count(one) == PAIRS for one in [engine, *engine.replicas])
    assert all("(100.0%)" in line for line in said)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_of_replicas_that_are_alike_another_one_is_alone_and_each_order_comes(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    engine = Several([100.0] * count)
    found, asked, _ = measured(engine, monkeypatch)
    assert (found.efficiency, found.low, found.high) == (1.0, 1.0, 1.0)
    pairs = list(zip(asked[::2], asked[1::2], strict=True))
    assert [engine in pair for pair in pairs] == [True] * PAIRS
    alone = [(pair[0] is engine, next(one for one in pair if one is not engine)) for pair in pairs]
    seen = {engine.replicas.index(one) for _, one in alone}
    assert len(seen) == min(count, PAIRS)
    if count == 2:
        # Neither replica has one of the two orders to itself.
        assert len({(first, engine.replicas.index(one)) for first, one in alone}) == 4


def test_the_figure_is_that_of_the_operands_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Several([100.0, 100.0])
    rates = iter([190.0, 90.0, 110.0, 200.0, 180.0, 95.0, 105.0, 210.0, 170.0, 100.0])
    monkeypatch.setattr(probe, "generate_all", lambda *_: SimpleNamespace(tokens_per_s=next(rates)))
    found = measure_scaling(engine, [[1]], Generation(), 1.0, lambda line: None)  # type: ignore[arg-type]
    said = found.all_tokens_per_sec / (found.replicas * found.one_tokens_per_sec)
    assert found.efficiency == pytest.approx(said, abs=1e-4)
    assert found.low < found.efficiency < found.high
