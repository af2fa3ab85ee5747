"""What nodes reach together of what they would if each were as fast as one alone."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.made_nodes import ROWS, STARTED, MadeNode, make_nodes
from meta_tests.results.test_node_runs import refusals
from mlperf_suite.results.aggregate import Scaling, aggregate_runs, interval

A = MadeNode(scenario="Offline", tokens_per_sec=900.0)
B = replace(A, node="node-b", rows=ROWS[:50], tokens_per_sec=1000.0)
ALONE = replace(A, rows=ROWS[:70], tokens_per_sec=1000.0)
_RATES = st.lists(st.floats(1, 1e6), min_size=1, max_size=5)


def scaling(tmp_path: Path, nodes: list[MadeNode], singles: list[MadeNode]) -> Scaling | None:
    paths, alone = make_nodes(tmp_path / "n", *nodes), make_nodes(tmp_path / "o", *singles)
    (node,) = aggregate_runs(paths, STARTED, alone).scenarios
    return node.scaling


def test_efficiency_is_all_over_so_many_times_one(tmp_path: Path) -> None:
    efficiency = scaling(tmp_path, [A, B], [ALONE])
    assert efficiency is not None
    assert efficiency.efficiency == pytest.approx(1900 / 2000)
    assert (efficiency.one_tokens_per_sec, efficiency.low, efficiency.high) == (
        pytest.approx(1000),
        None,
        None,
    )
    assert efficiency.noise_from == "not measured: one run each"
    assert len(efficiency.one_runs) == 1


def test_without_a_node_alone_there_is_none(tmp_path: Path) -> None:
    assert scaling(tmp_path, [A, B], []) is None


def test_repeats_on_both_sides_tell_the_interval(tmp_path: Path) -> None:
    nodes = [replace(node, repeats=(node.tokens_per_sec * 1.02,)) for node in (A, B)]
    alone = [ALONE, replace(ALONE, rows=ROWS[:71], tokens_per_sec=1010.0, repeats=(990.0,))]
    efficiency = scaling(tmp_path, nodes, alone)
    assert efficiency is not None and efficiency.low is not None and efficiency.high is not None
    together_rate, rate_alone = math.sqrt(1900 * 1900 * 1.02), (1000 * 1010 * 990) ** (1 / 3)
    assert efficiency.efficiency == pytest.approx(together_rate / (2 * rate_alone))
    assert efficiency.low < efficiency.efficiency < efficiency.high
    assert efficiency.noise_from == "2 runs of all and 3 of one node"


def test_what_is_no_run_of_one_node_alone_is_refused(tmp_path: Path) -> None:
    nodes = make_nodes(tmp_path / "n", A, B)
    alone = make_nodes(
        tmp_path / "o",
        ALONE,
        replace(ALONE, scenario="Server"),
        replace(ALONE, rows=ROWS[:60], engine_settings={"dtype": "float16"}),
        replace(ALONE, rows=ROWS[:65], meta={"status": "failed"}),
    )
    (line,) = refusals(*nodes, alone=(nodes[0],))
    assert line == f"--one {nodes[0]}: the same run as {nodes[0]}: run a node alone"
    (line,) = refusals(*nodes, alone=(alone[0], alone[0]))
    assert line.startswith(f"--one {alone[0]}: the same run as {alone[0]}")
    assert refusals(*nodes, alone=(alone[1],)) == [f"--one {alone[1]}: no node ran Server"]
    (line,) = refusals(*nodes, alone=(alone[2],))
    assert line.startswith(f"--one {alone[2]}: the engine's dtype float16; {nodes[0]}: bfloat16")
    (line,) = refusals(*nodes, alone=(alone[3],))
    assert line.startswith(f"{alone[3]}: status failed")


@given(_RATES, _RATES, st.integers(2, 64))
def test_an_interval_holds_the_efficiency(
    together: list[float], alone: list[float], nodes: int
) -> None:
    low, high, _ = interval(together, alone, nodes)
    if len(together) == len(alone) == 1:
        assert (low, high) == (None, None)
        return
    assert low is not None and high is not None
    means = [math.fsum(map(math.log, side)) / len(side) for side in (together, alone)]
    assert low <= math.exp(means[0] - means[1]) / nodes * (1 + 1e-9)
    assert high >= min(math.exp(means[0] - means[1]) / nodes, math.exp(50)) * (1 - 1e-9)


@given(_RATES, _RATES, st.floats(0.01, 100))
def test_the_interval_has_no_unit(together: list[float], alone: list[float], unit: float) -> None:
    efficiency = interval(together, alone, 2)
    scaled = interval([v * unit for v in together], [v * unit for v in alone], 2)
    if efficiency[0] is None:
        assert scaled[0] is None
    else:
        assert scaled[:2] == pytest.approx(efficiency[:2], rel=1e-4)


def test_of_a_server_there_is_no_efficiency(tmp_path: Path) -> None:
    """Its tokens/s are what was sent."""
    nodes = [replace(node, scenario="Server") for node in (A, B)]
    assert scaling(tmp_path, nodes, [replace(ALONE, scenario="Server")]) is None


@pytest.mark.parametrize("count", [2, 5])
def test_one_run_on_a_side_adds_no_degree_of_freedom(count: int) -> None:
    from scipy.stats import t

    together, alone = [1900.0 * 1.02**n for n in range(count)], [1000.0]
    logs = [math.log(value) for value in together]
    half = t.ppf(0.975, count - 1) * statistics.stdev(logs) * math.sqrt(1 / count + 1)
    middle = math.fsum(logs) / count - math.log(2000)
    efficiency = interval(together, alone, 2)
    assert efficiency[:2] == pytest.approx((math.exp(middle - half), math.exp(middle + half)))
    inverse = interval(alone, together, 1)
    assert efficiency[1] is not None
    assert inverse[0] == pytest.approx(1 / (efficiency[1] * 2))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    generator, hits = random.Random(1), 0
    for _ in range(1000):
        together = [1900 * math.exp(generator.gauss(0, 0.03)) for _ in range(4)]
        alone = [1000 * math.exp(generator.gauss(0, 0.03)) for _ in range(3)]
        low, high, _ = interval(together, alone, 2)
        assert low is not None and high is not None
        hits += low <= 0.95 <= high
    assert 930 <= hits <= 980
