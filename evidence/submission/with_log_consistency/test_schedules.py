"""The proof's rates, by the schedules that LoadGen generates with each round's seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.submission.runs import ProofRun, proof_runs
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.log_consistency.schedule import ScheduleSettings, schedule

AT_A_RATE = [
    run for run in proof_runs(tuple(ROUNDS)) if run.scenario not in ("Offline", "SingleStream")
]


@pytest.mark.parametrize("run", AT_A_RATE, ids=str)
def test_one_data_set_takes_ten_minutes_and_little_more(run: ProofRun, tmp_path: Path) -> None:
    samples = BENCHMARKS[run.benchmark].samples
    option, _, qps = run.options(tmp_path, tmp_path)[-1].partition("=")
    assert option == "--server-target-qps"
    seed = ROUNDS[run.round].schedule_rng_seed
    generated = schedule(
        ScheduleSettings("Server", seed, float(qps), 600_000, samples, 1, samples, True, False)
    )
    assert generated.queries == samples
    assert 600 < generated.duration_ns / 1e9 < 640
