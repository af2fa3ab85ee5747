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
from meta_tests.results.test_node_runs import refused
from mlperf_suite.results.aggregate import aggregate_runs
from mlperf_suite.results.scaling_efficiency import Scaling, interval

A = MadeNode(scenario="Offline", tokens_per_sec=900.0)
B = replace(A, node="node-b", rows=ROWS[:50], tokens_per_sec=1000.0)
ALONE = replace(A, rows=ROWS[:70], tokens_per_sec=1000.0)
_RATES = st.lists(st.floats(1, 1e6), min_size=1, max_size=5)


def scaling(tmp_path: Path, nodes: list[MadeNode], ones: list[MadeNode]) -> Scaling | None:
    paths, alone = make_nodes(tmp_path / "n", *nodes), make_nodes(tmp_path / "o", *ones)
    (one,) = aggregate_runs(paths, STARTED, alone).scenarios
    return one.scaling


def test_efficiency_is_all_over_so_many_times_one(tmp_path: Path) -> None:
    found = scaling(tmp_path, [A, B], [ALONE])
    assert found is not None
    assert found.efficiency == pytest.approx(1900 / 2000)
    assert (found.one_tokens_per_sec, found.low, found.high) == (pytest.approx(1000), None, None)
    assert found.noise_from == "not measured: one run each"
    assert len(found.one_runs) == 1


def test_without_a_node_alone_there_is_none(tmp_path: Path) -> None:
    assert scaling(tmp_path, [A, B], []) is None


def test_repeats_on_both_sides_tell_the_interval(tmp_path: Path) -> None:
    nodes = [replace(one, repeats=(one.tokens_per_sec * 1.02,)) for one in (A, B)]
    ones = [ALONE, replace(ALONE, rows=ROWS[:71], tokens_per_sec=1010.0, repeats=(990.0,))]
    found = scaling(tmp_path, nodes, ones)
    assert found is not None and found.low is not None and found.high is not None
    both, one = math.sqrt(1900 * 1900 * 1.02), (1000 * 1010 * 990) ** (1 / 3)
    assert found.efficiency == pytest.approx(both / (2 * one))
    assert found.low < found.efficiency < found.high
    assert found.noise_from == "2 runs of all and 3 of one node"


def test_what_is_no_run_of_one_node_alone_is_refused(tmp_path: Path) -> None:
    nodes = make_nodes(tmp_path / "n", A, B)
    ones = make_nodes(
        tmp_path / "o",
        ALONE,
        replace(ALONE, scenario="Server"),
        replace(ALONE, rows=ROWS[:60], engine_settings={"dtype": "float16"}),
        replace(ALONE, rows=ROWS[:65], meta={"status": "failed"}),
    )
    (line,) = refused(*nodes, ones=(nodes[0],))
    assert line == f"--one {nodes[0]}: the same run as {nodes[0]}: run a node alone"
    (line,) = refused(*nodes, ones=(ones[0], ones[0]))
    assert line.startswith(f"--one {ones[0]}: the same run as {ones[0]}")
    assert refused(*nodes, ones=(ones[1],)) == [f"--one {ones[1]}: no node ran Server"]
    (line,) = refused(*nodes, ones=(ones[2],))
    assert line.startswith(f"--one {ones[2]}: the engine's dtype float16; {nodes[0]}: bfloat16")
    (line,) = refused(*nodes, ones=(ones[3],))
    assert line.startswith(f"{ones[3]}: status failed")


@given(_RATES, _RATES, st.integers(2, 64))
def test_an_interval_holds_the_efficiency(
    together: list[float], ones: list[float], nodes: int
) -> None:
    low, high, _ = interval(together, ones, nodes)
    if len(together) == len(ones) == 1:
        assert (low, high) == (None, None)
        return
    assert low is not None and high is not None
    means = [math.fsum(map(math.log, side)) / len(side) for side in (together, ones)]
    assert low <= math.exp(means[0] - means[1]) / nodes * (1 + 1e-9)
    assert high >= min(math.exp(means[0] - means[1]) / nodes, math.exp(50)) * (1 - 1e-9)


@given(_RATES, _RATES, st.floats(0.01, 100))
def test_the_interval_has_no_unit(together: list[float], ones: list[float], unit: float) -> None:
    found = interval(together, ones, 2)
    scaled = interval([v * unit for v in together], [v * unit for v in ones], 2)
    if found[0] is None:
        assert scaled[0] is None
    else:
        assert scaled[:2] == pytest.approx(found[:2], rel=1e-4)


def test_of_a_server_there_is_no_efficiency(tmp_path: Path) -> None:
    """Its tokens/s are what was sent."""
    nodes = [replace(one, scenario="Server") for one in (A, B)]
    assert scaling(tmp_path, nodes, [replace(ALONE, scenario="Server")]) is None


@pytest.mark.parametrize("several", [2, 5])
def test_one_run_on_a_side_adds_no_degree_of_freedom(several: int) -> None:
    from scipy.stats import t

    together, ones = [1900.0 * 1.02**n for n in range(several)], [1000.0]
    logs = [math.log(value) for value in together]
    half = t.ppf(0.975, several - 1) * statistics.stdev(logs) * math.sqrt(1 / several + 1)
    middle = math.fsum(logs) / several - math.log(2000)
    found = interval(together, ones, 2)
    assert found[:2] == pytest.approx((math.exp(middle - half), math.exp(middle + half)))
    turned = interval(ones, together, 1)
    assert found[1] is not None
    assert turned[0] == pytest.approx(1 / (found[1] * 2))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    drawn, held = random.Random(1), 0
    for _ in range(1000):
        together = [1900 * math.exp(drawn.gauss(0, 0.03)) for _ in range(4)]
        ones = [1000 * math.exp(drawn.gauss(0, 0.03)) for _ in range(3)]
        low, high, _ = interval(together, ones, 2)
        assert low is not None and high is not None
        held += low <= 0.95 <= high
    assert 930 <= held <= 980
