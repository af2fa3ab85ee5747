"""Which figure of a run each target reads, and what a run says of its cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlperf_suite.features.endpoints.curve.curve_figures import PART, CurveFigures, CurvePoint
from mlperf_suite.features.energy.energy_figures import EnergyFigures, KindFigures
from mlperf_suite.features.peak_search.figures import PeakFigures
from mlperf_suite.features.tuning.target import TARGETS, TrialFiles, costs_of
from mlperf_suite.results.schema import Meta, PerformanceFigures, Run, Summary


def files(**summary: object) -> TrialFiles:
    return TrialFiles(Path("none"), Summary(**summary))  # type: ignore[arg-type]


def point(concurrency: int, tokens: int, tpot_ms: float, outcome: str = "measured") -> CurvePoint:
    times = {"duration_s": 10.0, "tpot_p90_ms": tpot_ms, "ttft_p90_ms": 50.0}
    return CurvePoint(concurrency, outcome, output_tokens=tokens, **times)  # type: ignore[arg-type]


def test_offline_reads_a_performance_runs_tokens_per_second() -> None:
    blocks = {"tokens_per_sec": (10.0, *[100.0, 104.0] * 10)}
    performance = PerformanceFigures(tokens_per_sec=90.0, blocks=blocks)
    figure = TARGETS["offline"].figure(files(run=Run(performance=performance)))
    assert figure and figure.rate == 90
    # The first block, which reads prompts, is no noise.
    assert figure.error == pytest.approx(0.039 * 1.05 / 21**0.5, rel=0.05)


def test_rates_are_those_of_the_peak_search() -> None:
    run = files(parts={"peak": PeakFigures(peak_qps=7.5, goodput_qps=9.0)})
    rates = {name: TARGETS[name].figure(run) for name in ("server", "interactive", "goodput")}
    assert [figure and figure.rate for figure in rates.values()] == [7.5, 7.5, 9.0]
    assert TARGETS["server"].figure(files(parts={"peak": PeakFigures()})) is None
    assert TARGETS["offline"].figure(run) is None


def test_a_curves_area_is_that_of_its_steps() -> None:
    points = (point(1, 500, 20), point(4, 1500, 40), point(16, 2000, 100), point(64, 9, 9, ""))
    figure = TARGETS["curve"].figure(files(parts={PART: CurveFigures("c", points=points)}))
    # 10 tokens/s per user at 200 of the system, from there 150 up to 25 and 50 up to 50.
    assert figure and figure.rate == pytest.approx(10 * 200 + 15 * 150 + 25 * 50)
    assert TARGETS["curve"].figure(files()) is None


def test_what_a_run_costs(tmp_path: Path) -> None:
    performance = PerformanceFigures(
        latency_ms={"p50": 800.0, "p99": 900.0}, ttft_ms={"p50": 20.0}, tpot_ms=None
    )
    energy = EnergyFigures(kinds=(KindFigures("GPU", joules=5.0, joules_per_token=0.25),))
    summary = Summary(
        meta=Meta(scenario="Server"), run=Run(performance=performance), parts={"run.energy": energy}
    )
    last = {"ttft_p99_ms": 400.0, "tpot_p99_ms": 30.5, "latency_p99_ms": 990.0}
    trials = [{"ttft_p99_ms": 999.0}, last]
    (tmp_path / "peak_qps.json").write_text(json.dumps({"trials": trials}))
    assert costs_of([TrialFiles(tmp_path, summary)]) == {
        "latency p50, ms": 800.0,
        "latency p99, ms": 900.0,
        "TTFT p50, ms": 20.0,
        "TTFT p99 at the rate, ms": 400.0,
        "TPOT p99 at the rate, ms": 30.5,
        "latency p99 at the rate, ms": 990.0,
        "GPU energy, J/token": 0.25,
    }


def test_what_took_no_time_is_no_cost(tmp_path: Path) -> None:
    times = {"issued_ms": [0.0] * 3, "finished_ms": [5.0] * 3, "first_token_ms": [5.0] * 3}
    timeline = {**times, "tokens": [9] * 3, "from_loadgen": True, "load": None}
    (tmp_path / "Accuracy").mkdir()
    (tmp_path / "Accuracy" / "timeline.json").write_text(json.dumps(timeline))
    assert costs_of([TrialFiles(tmp_path, Summary())]) == {"latency p50, ms": 5.0}
