"""What summary.json and a report say of replicas and nodes."""

from types import SimpleNamespace
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.reports.outputs import markdown_rows, reports_of, terminal_text
from meta_tests.session.scripted_session import (
    ACCURACY,
    Make,
    ScriptedEngine,
    check_made_as_planned,
)
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.features.replicas import scaling
from mlperf_suite.features.replicas.figures import (
    RUNS,
    SCALING,
    NodeFigures,
    ReplicaFigures,
    ReplicasRun,
    ScalingFigures,
)
from mlperf_suite.features.replicas.report import scaling_lines
from mlperf_suite.features.replicas.scaling import PAIRS, measure_scaling, scaling_figures
from mlperf_suite.results.run_folder import read_summary
from mlperf_suite.results.schema import Meta, Summary

NODES = ("node-a (10.0.0.1)", "node-b (10.0.0.2)")
REPLICAS = tuple(
    ReplicaFigures(
        *(number, NODES[number // 2], "1 GPU <H100>, TP 1", 1000, 128_000, 1280.0, 0.25),
        *({"p50": 20.0, "p99": 80.0 + number}, {"p50": 9.0, "p99": 12.0}),
        {"p50": 1500.0, "p99": 2500.0 + number},
        *(99.0, 97.5 + number),
    )
    for number in range(4)
)
OF_NODES = tuple(NodeFigures(name, 2, 2000, 256_000, 2560.0, 0.5) for name in NODES)
RUN = ReplicasRun("tokens", 100.5, 3.0, 0.12, REPLICAS, OF_NODES)
EFFICIENCY = ScalingFigures(4, 5, 320.0, 1260.0, 0.984375, 0.97, 0.99)
SUMMARY = Summary(
    meta=Meta(benchmark="llama3.1-8b", scenario="Server", category="datacenter"),
    parts={RUNS: {"performance": RUN}, SCALING: EFFICIENCY},
)


def report_of(run: ReplicasRun) -> str:
    return reports_of(Summary(parts={RUNS: {"performance": run}}))[0]


def test_each_replica_and_each_node_has_a_row() -> None:
    rows = markdown_rows(report_of(RUN))
    head = next(place for place, row in enumerate(rows) if row[:2] == ["run", "replica"])
    assert rows[head + 4][:8] == [
        *("performance", "3", NODES[1], "1 GPU <H100>, TP 1"),
        *("1,000", "128,000", "1,280.00", "25.0"),
    ]
    head = next(place for place, row in enumerate(rows) if row[:2] == ["run", "node"])
    assert [row[1] for row in rows[head + 1 : head + 3]] == list(NODES)
    # Of one node the sums are those of the run.
    of_one_node = ReplicasRun("tokens", replicas=REPLICAS, nodes=RUN.nodes[:1])
    assert "| run | node | replicas |" not in report_of(of_one_node)


def test_the_slowest_is_named_with_the_tail() -> None:
    text = report_of(RUN)
    assert "the last finished 3.00 s after the first (3.0%)" in text
    assert f"the slowest is replica 3 on node {NODES[1]} (latency p99 2,503 ms)" in text
    text = report_of(ReplicasRun("tokens", 1.0, None, 0.1, REPLICAS[:1]))
    assert "the slowest" not in text and "the last finished" not in text


def test_every_report_has_them() -> None:
    markdown, html = reports_of(SUMMARY)
    for text in (markdown, html):
        assert (
            "98.4% (97.0% to 99.0% at 95%, from 5 pairs)" in text
            and "replica 3 on node node-b (10.0.0.2)" in text
        )
    terminal = terminal_text(SUMMARY)
    assert "node-b (10.0.0.2): 2 replicas, 2,000 samples, 2,560.00 tokens/s" in terminal
    assert "98.4%" in terminal


def test_efficiency_is_that_of_pairs_with_their_spread() -> None:
    figures = scaling_figures(2, [(100.0, 190.0), (100.0, 200.0), (100.0, 198.0)])
    assert (figures.replicas, figures.pairs) == (2, 3)
    assert figures.efficiency == 0.98
    assert 0.91 < figures.low < 0.92
    assert 1.04 < figures.high < 1.05
    alone = scaling_figures(2, [(100.0, 190.0)])
    assert alone.low == alone.efficiency == alone.high == 0.95


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (ScalingFigures(2, 1, 100.0, 190.0, 0.95, 0.95, 0.95), "95.0% (no interval, since it was"),
        (ScalingFigures(2, 5, 100.0, 229.4, 1.147, 1.1, 1.194), "from 5 pairs; above 100%, so"),
        (ScalingFigures(2, 5, 100.0, 180.0, 0.9, 0.6, 1.2), "(too noisy to say: 60.0% to 120.0%"),
    ],
)
def test_a_doubtful_efficiency_says_so(figures: ScalingFigures, words: str) -> None:
    (line,) = scaling_lines(Summary(parts={SCALING: figures}))
    assert words in line and ("above 100%" in line) is (figures.efficiency > 1)


class TellingEngine(ScriptedEngine):
    """Says the same of each run."""

    def take_replicas_run(self) -> ReplicasRun:
        return RUN


def test_a_session_writes_what_replicas_did(make: Make, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mlperf_suite.features.replicas.scaling.measure_scaling", lambda *arguments: EFFICIENCY
    )
    options: dict[str, Any] = {"replicas": "2", "scaling": True, "total_sample_count": "4"}
    session = make(ACCURACY, kind=TellingEngine, **options)
    check_made_as_planned(session, ACCURACY)
    summary = read_summary(session.folder)
    assert summary is not None
    assert summary.parts[RUNS] == {"accuracy": RUN}
    assert summary.parts[SCALING] == EFFICIENCY


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
